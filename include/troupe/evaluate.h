// Runs one node's kernel at once, without a session: for tests of kernels, and for programs that
// want the value of one op.
//
//   auto y = EvaluateOp("Add", {Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)});   // (*y)[0] is 3
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_EVALUATE_H_
#define TROUPE_EVALUATE_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/kernel.h"

namespace TROUPE_EXPORT troupe {

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

// Builds a one-node graph for `op` with inputs of these values' types and runs it. Type attrs are
// inferred from the inputs; args that are lists take as many consecutive inputs as `list_sizes`
// says (in order of the list args).
absl::StatusOr<std::vector<Tensor>> EvaluateOp(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {},
                                               std::vector<int> list_sizes = {}, const EvaluateOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_EVALUATE_H_
