// Merge, RefMerge: the one live value of several.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

// Dimensions in which the inputs differ are unknown; so is the rank when ranks differ or one is
// unknown, as behind a loop's back edge.
absl::Status MergeShape(InferenceContext& c) {
  PartialTensorShape out = c.input(0);
  for (int i = 1; i < c.num_inputs() && out.known_rank(); ++i) {
    const PartialTensorShape& in = c.input(i);
    if (in.rank() != out.rank()) {
      out = PartialTensorShape();
      break;
    }
    for (int d = 0; d < out.rank(); ++d) {
      if (in.dim(d) != out.dim(d)) out.set_dim(d, -1);
    }
  }
  c.set_output(0, std::move(out));
  c.set_output_handle(0, c.input_handle(0));
  c.set_output(1, PartialTensorShape(TensorShape()));
  return absl::OkStatus();
}

TROUPE_OP("Merge")
    .Input("inputs: N * T")
    .Output("output: T")
    .Output("value_index: int32")
    .Attr("T: type")
    .Attr("N: int >= 1")
    .Flow(ControlFlow::kMerge)
    .Shape(MergeShape)
    .Gradient(control::GradientByPass)
    .Doc("Passes on the first of its inputs that comes alive, and tells which it was; dead when all are dead.");

TROUPE_OP("RefMerge")
    .Input("inputs: Ref(N * T)")
    .Output("output: Ref(T)")
    .Output("value_index: int32")
    .Attr("T: type")
    .Attr("N: int >= 1")
    .Flow(ControlFlow::kMerge)
    .Shape(MergeShape)
    .Gradient(control::GradientByPass)
    .Doc("Merge of references to variables.");

absl::Status ComputeMerge(KernelContext& ctx) {
  int taken = -1;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    if (taken >= 0) return Internal("inputs ", taken, " and ", i, " of a Merge are both alive");
    taken = i;
  }
  if (taken < 0) return Internal("a Merge ran without a live input");
  ctx.set_output(0, ctx.TakeInput(taken));
  ctx.set_output(1, Tensor::Scalar<int32_t>(taken));
  return absl::OkStatus();
}
TROUPE_KERNEL("Merge").Device("CPU").Function<ComputeMerge, Cost::kTrivial>();
TROUPE_KERNEL("Merge").Device("*").HostMemory("value_index").Function<ComputeMerge, Cost::kTrivial>();
TROUPE_KERNEL("RefMerge").Device("CPU").Function<ComputeMerge, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
