// How much memory the tensors of a step take, predicted from shapes before the step runs.
//
//   StepMemoryOptions options;
//   options.feed_shapes = {TensorShape({32, 784})};  // of x
//   auto memory = PredictStepMemory(graph, {"x"}, {"loss"}, {"train"}, options);
//   // memory->peak_bytes; memory->holders[0].what: "node 'product' (MatMul)"
//
// What a session makes of the graph for this step is gone through in the order in which one thread
// runs it. A tensor takes memory from when its node runs until all that use it have run; what
// computes element by element writes into an input that nobody else uses. Not counted are what is
// there without the step (variables, constants, what is fed) and what a kernel needs only while it
// runs. A loop counts as one iteration of it. Several threads run nodes side by side, and kernels
// that take long are put off for a while: such a step may take more. Of several devices each has an
// order of its own, but the prediction one for all: such a step may take less or more.
//
// Thread rule: the graph must not be changed meanwhile.
#ifndef TROUPE_STEP_MEMORY_H_
#define TROUPE_STEP_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/shape.h"

namespace TROUPE_EXPORT troupe {

struct StepMemoryOptions {
  // The shapes of what is fed, in the order of the feeds; those that are missing are what the graph
  // says of them.
  std::vector<PartialTensorShape> feed_shapes;
  int64_t assumed_dimension = 1;  // what a dimension that is not known counts as
  bool fuse = true;               // SessionOptions.fuse
};

struct StepMemory {
  struct Holder {
    std::string what;  // "node 'a' (Add)"
    int64_t bytes = 0;
  };
  int64_t peak_bytes = 0;
  std::string peak_node;        // that runs when the peak is reached; "" when nothing takes memory
  std::vector<Holder> holders;  // of the peak, the largest first, at most 10
  // Tensors of which not even the number of dimensions is known, or whose size has no number: not
  // counted; and those with a dimension that is not known and is assumed.
  int64_t num_unknown = 0, num_assumed = 0;
  bool has_loops = false;
};

// Errors: those of PruneGraph; INVALID_ARGUMENT for a shape that contradicts what is fed, and for
// more shapes than feeds.
absl::StatusOr<StepMemory> PredictStepMemory(const Graph& graph, absl::Span<const std::string> feeds,
                                             absl::Span<const std::string> fetches,
                                             absl::Span<const std::string> targets,
                                             const StepMemoryOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_STEP_MEMORY_H_
