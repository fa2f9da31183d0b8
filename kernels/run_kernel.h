// Runs one kernel at once, without a graph runtime: the parts that constant folding, the executor
// and tests of kernels share. troupe/evaluate.h is what users see of it.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_KERNELS_RUN_KERNEL_H_
#define TROUPE_KERNELS_RUN_KERNEL_H_

#include <vector>

#include "graph/passes/still_wanted.h"
#include "troupe/evaluate.h"

namespace troupe {

// EvaluateNode for a kernel that was prepared before: for constant folding, and for tests that run
// one kernel many times or from many threads. CANCELLED when `step` was told to end and the kernel
// waits or is in a loop; or, in a loop, when the result is not wanted any more. With `wanted`, a
// kernel that must wait for others is UNIMPLEMENTED: nobody could end its wait.
absl::StatusOr<std::vector<Tensor>> EvaluateKernel(const PreparedKernel& kernel, const KernelNode& node,
                                                   std::vector<Tensor> inputs, StepContext* step,
                                                   TensorExchange* exchange = nullptr, StillWanted wanted = nullptr);
// Whether it is the status that KernelContext::WaitFor returns.
bool IsWait(const absl::Status& status);
// Whether a kernel that has returned `*status` waits for what it gave to WaitFor. A new wait that
// it leaves after another status is given up; after OK the status becomes INTERNAL. `had`: the wait
// that the kernel was run with, or null.
bool KernelWaits(KernelContext& ctx, const KernelWait* had, absl::Status* status);
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

// The process's CPU device for evaluation with that many threads. Lives for ever.
Device* EvaluationDevice(int threads);

}  // namespace troupe

#endif  // TROUPE_KERNELS_RUN_KERNEL_H_
