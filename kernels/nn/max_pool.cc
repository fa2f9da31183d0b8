// MaxPool, its gradient and the gradient's gradient: the largest element under each position of a
// window. The V2 ops have the window as inputs.
#include "kernels/common/types.h"
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

TROUPE_OP("MaxPoolV2")
    .Input("input: T")
    .Input("ksize: int32")
    .Input("strides: int32")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = DT_FLOAT")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Shape([](InferenceContext& c) {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.WithRank(0, 4));
      TROUPE_ASSIGN_OR_RETURN(WindowAttrs a, ReadWindowAttrs(c.node()));
      int64_t size[2] = {-1, -1};
      const Tensor *ksize = c.input_tensor(1), *strides = c.input_tensor(2);
      if (ksize != nullptr && strides != nullptr && ksize->num_elements() == 4 && strides->num_elements() == 4) {
        const std::vector<int64_t> k(ksize->data<int32_t>(), ksize->data<int32_t>() + 4);
        const std::vector<int64_t> s(strides->data<int32_t>(), strides->data<int32_t>() + 4);
        TROUPE_RETURN_IF_ERROR(SetWindow(k, s, &a));
        for (int i = 0; i < 2; ++i) {
          TROUPE_ASSIGN_OR_RETURN(size[i], SlideWindowSize(a, i, x.dim(a.spatial_dim(i)), a.ksize[i]));
        }
      }
      c.set_output(0, ImageShape<PartialTensorShape>(a, x.dim(0), size[0], size[1], x.dim(a.channel_dim())));
      return absl::OkStatus();
    })
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("MaxPoolGradV2", {g.Input(0), g.Output(0), g.Grad(0), g.Input(1), g.Input(2)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc("As MaxPool, with the window and its strides as inputs.");

TROUPE_KERNEL("MaxPoolV2")
    .Device("CPU")
    .Type<Half, BFloat16, float, double, int32_t, int64_t, uint8_t, int16_t, int8_t, uint16_t>("T")
    .HostMemory("ksize")
    .HostMemory("strides")
    .Class<PoolKernelOf<PoolOp::kMax, true>>();

TROUPE_OP("MaxPoolGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: realnumbertype = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(2, g.Op("MaxPoolGradGrad", {g.Input(0), g.Input(1), g.Grad(0)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc("Adds the gradient of each window to the first largest element of orig_input under it.");

TROUPE_CPU_KERNEL("MaxPoolGrad").Class<PoolKernelOf<PoolOp::kMaxGrad>>();

TROUPE_OP("MaxPoolGradV2")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Input("ksize: int32")
    .Input("strides: int32")
    .Output("output: T")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: realnumbertype = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("MaxPoolGradGradV2 is not there; MaxPoolGrad, with the window in attrs, has a gradient")
    .Doc("As MaxPoolGrad, with the window and its strides as inputs.");

TROUPE_CPU_KERNEL("MaxPoolGradV2")
    .HostMemory("ksize")
    .HostMemory("strides")
    .Class<PoolKernelOf<PoolOp::kMaxGrad, true>>();

TROUPE_OP("MaxPoolGradGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: realnumbertype")
    .Shape(PoolOutputShape)
    .Gradient([](GradientContext& g) {
      g.Set(2, g.Op("MaxPoolGrad", {g.Input(0), g.Input(1), g.Grad(0)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc("Takes, for each window, the element of grad where orig_input has its first largest one.");

TROUPE_CPU_KERNEL("MaxPoolGradGrad").Class<PoolKernelOf<PoolOp::kMaxGradGrad>>();

}  // namespace
}  // namespace troupe
