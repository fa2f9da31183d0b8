// Runs one node's kernel at once, without a graph runtime: for constant folding and for tests of
// kernels.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_KERNELS_EVALUATE_H_
#define TROUPE_KERNELS_EVALUATE_H_

#include <vector>

#include "graph/passes/still_wanted.h"
#include "troupe/kernel.h"

namespace troupe {

struct EvaluateOptions {
  Device* device = nullptr;  // null: a CPU device of the process with `threads` threads
  int threads = 1;
  StepContext* step = nullptr;  // null: a step of its own
  TensorExchange* exchange = nullptr;
  std::string session = "evaluate";
};

// The outputs of `node` for these inputs; an output that the kernel left dead is an invalid Tensor.
// The types of `inputs` must be the node's (INVALID_ARGUMENT otherwise); a reference input takes a
// handle tensor as a Variable op gives it. Asynchronous kernels are waited for. A kernel that
// throws, drops its `done`, or does not set an output (of an op that is no control flow) to a value
// of the node's type is an error with the node's address, as in a step.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, std::vector<Tensor> inputs,
                                                 const EvaluateOptions& options = {});

// As above for a kernel that was prepared before (for tests that run one kernel many times or from
// many threads). CANCELLED when `step` was told to end and the kernel waits or is in a loop; or, in
// a loop, when the result is not wanted any more.
absl::StatusOr<std::vector<Tensor>> EvaluateKernel(const PreparedKernel& kernel, const KernelNode& node,
                                                   std::vector<Tensor> inputs, StepContext* step,
                                                   TensorExchange* exchange = nullptr, StillWanted wanted = nullptr);
// The status for the exception that a kernel threw: INTERNAL with its text, RESOURCE_EXHAUSTED for
// std::bad_alloc. REQUIRES: called in the exception's handler.
absl::Status KernelException();
// Checks that a kernel has set every output, to the node's type and to a shape that fits the known
// one (`shapes`: by output, or empty). INTERNAL names the first that is not. A Switch may leave
// outputs dead.
absl::Status CheckKernelOutputs(const KernelNode& node, const Tensor* outputs,
                                absl::Span<const PartialTensorShape> shapes = {});
// The description of `node` that a kernel keeps.
KernelNode DescribeNode(const Node& node, Device* device);

// Builds a one-node graph for `op` with inputs of these values' types and runs it. Type attrs are
// inferred from the inputs; args that are lists take as many consecutive inputs as `list_sizes`
// says (in order of the list args).
absl::StatusOr<std::vector<Tensor>> EvaluateOp(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {},
                                               std::vector<int> list_sizes = {}, const EvaluateOptions& options = {});

// The process's CPU device for evaluation with that many threads. Lives for ever.
Device* EvaluationDevice(int threads);

}  // namespace troupe

#endif  // TROUPE_KERNELS_EVALUATE_H_
