// AvgPool and its gradient: the mean of the elements under each position of a window.
#include "kernels/common/types.h"
#include "kernels/nn/pool.h"

namespace troupe {
namespace {

TROUPE_OP("AvgPool")
    .Input("value: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(PoolOutputShape)
    .Gradient([](GradientContext& g) {
      const NodeOut shape = g.Op("Shape", {g.Input(0)}, {{"out_type", DType::kInt32}});
      g.Set(0, g.Op("AvgPoolGrad", {shape, g.Grad(0)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc(
        "The mean of each channel under each position of a window of ksize that slides by strides. Padding does not "
        "count.");

TROUPE_CPU_KERNEL("AvgPool").Class<PoolKernelOf<PoolOp::kAvg>>();

TROUPE_OP("AvgPoolGrad")
    .Input("orig_input_shape: int32")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape([](InferenceContext& c) {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape sizes, c.InputAsShape(0));
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, sizes.MergeWith(PartialTensorShape::OfRank(4)));
      c.set_output(0, shape);
      return absl::OkStatus();
    })
    .Gradient([](GradientContext& g) {
      g.Set(1, g.Op("AvgPool", {g.Grad(0)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc(
        "Spreads the gradient of each window evenly over the elements under it; orig_input_shape is the shape of what "
        "AvgPool pooled.");

TROUPE_CPU_KERNEL("AvgPoolGrad").HostMemory("orig_input_shape").Class<PoolKernelOf<PoolOp::kAvgGrad>>();

}  // namespace
}  // namespace troupe
