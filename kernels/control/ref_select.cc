// RefSelect: one of several references.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("RefSelect")
    .Input("index: int32")
    .Input("inputs: Ref(N * T)")
    .Output("output: Ref(T)")
    .Trait(OpTrait::kIgnoresReference)
    .Attr("T: type")
    .Attr("N: int >= 1")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      PartialTensorShape shape = c.input(1);
      for (int i = 2; i < c.num_inputs(); ++i) {
        if (!(c.input(i) == shape)) shape = PartialTensorShape();
      }
      c.set_output(0, std::move(shape));
      return absl::OkStatus();
    })
    .NotDifferentiable("references carry no gradient")
    .Doc("The reference number `index` of `inputs`.");

absl::Status ComputeRefSelect(KernelContext& ctx) {
  const Tensor& index = ctx.input(0);
  if (index.rank() != 0) return InvalidArgument("index must be a scalar, but has shape ", index.shape().DebugString());
  const int32_t i = index.scalar<int32_t>();
  if (i < 0 || i >= ctx.num_inputs() - 1)
    return InvalidArgument("index = ", i, " is not in [0, ", ctx.num_inputs() - 1, ")");
  ctx.set_output(0, ctx.TakeInput(1 + i));
  return absl::OkStatus();
}
TROUPE_KERNEL("RefSelect").Device("CPU").Function<ComputeRefSelect, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
