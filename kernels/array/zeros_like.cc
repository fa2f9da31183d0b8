// ZerosLike and OnesLike: constants in the shape of a value. They write over the value when nobody
// else needs it.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status ComputeZerosLike(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, ctx.input(0).shape()));
  ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  return absl::OkStatus();
}

absl::Status ComputeOnesLike(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, ctx.input(0).shape()));
  VisitNumeric(out->dtype(), false, [&]<class T>() {
    const T one(1);
    FillElements(ctx.threads(), out->dtype(), out->raw(), &one, out->num_elements());
    return true;
  });
  return absl::OkStatus();
}

TROUPE_OP("ZerosLike")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Trait(OpTrait::kZeros)
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)
    .Doc("Zeros (empty strings, false) with the dtype and shape of `x`.");
TROUPE_KERNEL("ZerosLike").Device("CPU").Types("T", MovableTypes()).Function<ComputeZerosLike>();

TROUPE_OP("OnesLike")
    .Input("x: T")
    .Output("y: T")
    .Attr(
        "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, complex64, "
        "complex128, bool}")
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)
    .Doc("Ones (true) with the dtype and shape of `x`.");
TROUPE_KERNEL("OnesLike").Device("CPU").Function<ComputeOnesLike>();

}  // namespace
}  // namespace troupe::array
