// AvgPool: the mean of the elements under each position of a window.
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

TROUPE_KERNEL("AvgPool").Device("CPU").Type<Half, BFloat16, float, double>("T").Class<PoolKernelOf<PoolOp::kAvg>>();

}  // namespace
}  // namespace troupe
