// MaxPool: the largest element under each position of a window.
#include "kernels/nn/pool.h"

namespace troupe {
namespace {

TROUPE_OP("MaxPool")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = DT_FLOAT")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Shape(PoolOutputShape)
    .Gradient([](GradientContext& g) {
      AttrMap attrs = PoolAttrs(g);
      attrs.Set("explicit_paddings", g.Attr<std::vector<int64_t>>("explicit_paddings"));
      g.Set(0, g.Op("MaxPoolGrad", {g.Input(0), g.Output(0), g.Grad(0)}, attrs));
      return g.status();
    })
    .Doc("The largest element of each channel under each position of a window of ksize that slides by strides.");

TROUPE_KERNEL("MaxPool")
    .Device("CPU")
    .Type<Half, BFloat16, float, double, int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t>("T")
    .Class<PoolKernelOf<PoolOp::kMax>>();

}  // namespace
}  // namespace troupe
