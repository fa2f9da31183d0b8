// StridedSlice: x[begin:end:strides] with the five masks of strided_slice_spec.h.
#include "kernels/array/share_rows.h"
#include "kernels/array/strided_slice_spec.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status StridedSliceShape(InferenceContext& c) {
  for (int i = 1; i <= 3; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  const Tensor* strides = c.input_tensor(3);
  if (!c.input(0).known_rank() || strides == nullptr) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const SliceMasks masks, ReadSliceMasks(c.node().attrs()));
  TROUPE_ASSIGN_OR_RETURN(const SlicePlan plan,
                          PlanStridedSlice(c.input(0), c.input_tensor(1), c.input_tensor(2), *strides, masks));
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(plan.final_dims)));
  c.set_output_handle(0, c.input_handle(0));
  return absl::OkStatus();
}

absl::Status StridedSliceGradient(GradientContext& g) {
  NodeOut spec[3] = {g.Input(1), g.Input(2), g.Input(3)};
  DType index = g.input_type(1);
  if (index == DType::kInt16) {  // which StridedSliceGrad does not take
    index = DType::kInt32;
    for (NodeOut& s : spec) s = g.Op("Cast", {s}, {{"DstT", index}});
  }
  g.Set(0, g.Op("StridedSliceGrad", {ShapeOf(g, g.Input(0), index), spec[0], spec[1], spec[2], g.Grad(0)},
                SliceMaskAttrs(g)));
  return g.status();
}

class StridedSliceKernel {
 public:
  explicit StridedSliceKernel(KernelInit& init) : masks_(ReadSliceMasks(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const TensorShape in_shape = in.shape();
    TROUPE_ASSIGN_OR_RETURN(const SlicePlan plan,
                            PlanStridedSlice(in_shape, &ctx.input(1), &ctx.input(2), ctx.input(3), masks_));
    const TensorShape shape(absl::MakeConstSpan(plan.final_dims));
    if (plan.whole) return PassOnReshaped(ctx, shape);
    if (plan.rows && plan.size[0] > 0 && RowsAreAligned(in, plan.begin[0]) && RowsAreAligned(in, plan.size[0])) {
      TROUPE_RETURN_IF_ERROR(ShareRows(ctx, 0, in, plan.begin[0], plan.begin[0] + plan.size[0]));
      ctx.set_output(0, std::move(*ctx.output(0)).ReshapedMove(shape));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(plan.size);
    StridedCopy copy;
    for (size_t k = 0; k < plan.size.size(); ++k) {
      copy.Add(plan.size[k], to[k], from[k] * plan.stride[k]);
      copy.src_offset += plan.begin[k] * from[k];
    }
    copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
    return absl::OkStatus();
  }

 private:
  const SliceMasks masks_;
};

TROUPE_OP("StridedSlice")
    .Input("input: T")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int16, int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Shape(StridedSliceShape)
    .Gradient(StridedSliceGradient)
    .Doc(
        "The elements of `input` at begin, begin + stride, ... before end, in every dimension. The masks say where a "
        "bound is left out, where an entry\n"
        "stands for all remaining dimensions, adds a dimension or takes a single index.");
TROUPE_KERNEL("StridedSlice")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("begin")
    .HostMemory("end")
    .HostMemory("strides")
    .Class<StridedSliceKernel>();

}  // namespace
}  // namespace troupe::array
