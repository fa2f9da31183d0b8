// StridedSliceGrad: zeros in the shape of what was sliced, with the slice's gradient where the
// slice was taken.
#include "kernels/array/strided_slice_spec.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status StridedSliceGradShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(0));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status StridedSliceGradGradient(GradientContext& g) {
  g.Set(4, g.Op("StridedSlice", {g.Grad(0), g.Input(1), g.Input(2), g.Input(3)}, SliceMaskAttrs(g)));
  return g.status();
}

class StridedSliceGradKernel {
 public:
  explicit StridedSliceGradKernel(KernelInit& init) : masks_(ReadSliceMasks(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(ctx.input(0)));
    TROUPE_ASSIGN_OR_RETURN(const SlicePlan plan,
                            PlanStridedSlice(shape, &ctx.input(1), &ctx.input(2), ctx.input(3), masks_));
    const Tensor& dy = ctx.input(4);
    if (dy.shape() != TensorShape(absl::MakeConstSpan(plan.final_dims))) {
      return InvalidArgument("shape of dy was ", dy.shape().DebugString(), " instead of [",
                             StrJoin(plan.final_dims, ","), "]");
    }
    if (plan.whole) {
      ctx.set_output(0, ctx.TakeInput(4).ReshapedMove(shape));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
    const Strides to = DenseStrides(shape.dims()), from = DenseStrides(plan.size);
    StridedCopy copy;
    for (size_t k = 0; k < plan.size.size(); ++k) {
      copy.Add(plan.size[k], to[k] * plan.stride[k], from[k]);
      copy.dst_offset += plan.begin[k] * to[k];
    }
    copy.Run(ctx.threads(), out->dtype(), out->raw(), dy.raw());
    return absl::OkStatus();
  }

 private:
  const SliceMasks masks_;
};

TROUPE_OP("StridedSliceGrad")
    .Input("shape: Index")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("dy: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Shape(StridedSliceGradShape)
    .Gradient(StridedSliceGradGradient)
    .Doc("The gradient of StridedSlice: zeros of `shape` with `dy` at the elements that the slice takes.");
TROUPE_KERNEL("StridedSliceGrad")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("shape")
    .HostMemory("begin")
    .HostMemory("end")
    .HostMemory("strides")
    .Class<StridedSliceGradKernel>();

}  // namespace
}  // namespace troupe::array
