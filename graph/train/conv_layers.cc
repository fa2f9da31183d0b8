// Convolutions and pooling.
#include "graph/train/layer_parts.h"

namespace troupe::layers {
namespace {

using train::Build;
using Pair = std::array<int64_t, 2>;

std::vector<int64_t> Spatial(const Pair& p) { return {1, p[0], p[1], 1}; }

Output WithBias(const Scope& s, const Output& y, int64_t channels, DType dtype, const LayerOptions& o) {
  const Output sum =
      o.use_bias ? Build(s, "BiasAdd", {y, MakeVariable(s, "bias", o.bias_initializer, {channels}, dtype, o)}) : y;
  return Activated(s, sum, o);
}

Output Depthwise(const Scope& s, const Output& x, int64_t channels, const Pair& window, const SeparableConvOptions& o) {
  const Output kernel = MakeVariable(s, "depthwise_kernel", o.kernel_initializer,
                                     {window[0], window[1], channels, o.depth_multiplier}, BaseType(x.dtype()), o);
  return Build(s, "DepthwiseConv2dNative", {x, kernel},
               {{"strides", Spatial(o.strides)}, {"dilations", Spatial(o.dilations)}, {"padding", o.padding}});
}

bool SameOnBothSides(const ScopeAt& at, const char* layer, const SeparableConvOptions& o) {
  if (o.strides[0] == o.strides[1] && o.dilations[0] == o.dilations[1]) return true;
  at.Fail(InvalidArgument(layer, " needs strides that are equal, and dilations that are, but they are [", o.strides[0],
                          ",", o.strides[1], "] and [", o.dilations[0], ",", o.dilations[1], "]"));
  return false;
}

Output Pool(const ScopeAt& at, const char* op, const Output& x, const Pair& window, const Pair& strides,
            std::string_view padding) {
  return Build(at, op, {x}, {{"ksize", Spatial(window)}, {"strides", Spatial(strides)}, {"padding", padding}});
}

}  // namespace

Output Conv2D(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
              const ConvOptions& options) {
  const int64_t channels = LastDim(at, x, 4, "Conv2D");
  if (channels < 0) return {};
  const Scope s = at.Sub("conv2d");
  const DType dtype = BaseType(x.dtype());
  const Variable kernel =
      MakeVariable(s, "kernel", options.kernel_initializer, {window[0], window[1], channels, filters}, dtype, options);
  const Output y = Build(
      s, "Conv2D", {x, kernel},
      {{"strides", Spatial(options.strides)}, {"dilations", Spatial(options.dilations)}, {"padding", options.padding}});
  return WithBias(s, y, filters, dtype, options);
}

Output Conv2DTranspose(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
                       const ConvOptions& options) {
  const int64_t channels = LastDim(at, x, 4, "Conv2DTranspose");
  if (channels < 0) return {};
  if (options.dilations != Pair{1, 1} || (options.padding != "SAME" && options.padding != "VALID")) {
    at.Fail(InvalidArgument("Conv2DTranspose needs dilations of 1 and padding SAME or VALID, but they are [",
                            options.dilations[0], ",", options.dilations[1], "] and ", options.padding));
    return {};
  }
  const Scope s = at.Sub("conv2d_transpose");
  const DType dtype = BaseType(x.dtype());
  const Variable kernel =
      MakeVariable(s, "kernel", options.kernel_initializer, {window[0], window[1], filters, channels}, dtype, options);
  // The size that a convolution makes x of: SAME size * stride; VALID what the last window adds.
  PartialTensorShape known = s.ShapeOf(x);
  OutputList sizes = {DimOf(s, x, 0)};
  for (int i = 0; i < 2; ++i) {
    const int64_t more = options.padding == "VALID" ? std::max<int64_t>(window[i] - options.strides[i], 0) : 0;
    const int64_t size = known.dim(1 + i);
    if (size >= 0) {
      known.set_dim(1 + i, size * options.strides[i] + more);
      sizes.push_back(Ints(s, {static_cast<int32_t>(known.dim(1 + i))}));
    } else {
      const Output grown = Build(s, "Mul", {DimOf(s, x, 1 + i), static_cast<int32_t>(options.strides[i])});
      sizes.push_back(Build(s, "AddV2", {grown, static_cast<int32_t>(more)}));
    }
  }
  sizes.push_back(Ints(s, {static_cast<int32_t>(filters)}));
  known.set_dim(3, filters);
  const Output y = Build(s, "Conv2DBackpropInput", {Concat(s, sizes, 0), kernel, x},
                         {{"strides", Spatial(options.strides)}, {"padding", options.padding}});
  if (y.valid()) s.SetShape(y, known);
  return WithBias(s, y, filters, dtype, options);
}

Output DepthwiseConv2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window,
                       const SeparableConvOptions& options) {
  const int64_t channels = LastDim(at, x, 4, "DepthwiseConv2D");
  if (channels < 0 || !SameOnBothSides(at, "DepthwiseConv2D", options)) return {};
  const Scope s = at.Sub("depthwise_conv2d");
  return WithBias(s, Depthwise(s, x, channels, window, options), channels * options.depth_multiplier,
                  BaseType(x.dtype()), options);
}

Output SeparableConv2D(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
                       const SeparableConvOptions& options) {
  const int64_t channels = LastDim(at, x, 4, "SeparableConv2D");
  if (channels < 0 || !SameOnBothSides(at, "SeparableConv2D", options)) return {};
  const Scope s = at.Sub("separable_conv2d");
  const DType dtype = BaseType(x.dtype());
  const Output deep = Depthwise(s, x, channels, window, options);
  const Variable pointwise = MakeVariable(s, "pointwise_kernel", options.pointwise_initializer,
                                          {1, 1, channels * options.depth_multiplier, filters}, dtype, options);
  const Output y = Build(s, "Conv2D", {deep, pointwise}, {{"strides", Spatial({1, 1})}, {"padding", "VALID"}});
  return WithBias(s, y, filters, dtype, options);
}

Output MaxPool2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window, std::array<int64_t, 2> strides,
                 std::string_view padding) {
  return Pool(at, "MaxPool", x, window, strides, padding);
}
Output AvgPool2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window, std::array<int64_t, 2> strides,
                 std::string_view padding) {
  return Pool(at, "AvgPool", x, window, strides, padding);
}
Output GlobalAvgPool2D(const ScopeAt& at, const Output& x) {
  const Scope s = at.Sub("global_avg_pool2d");
  return Build(s, "Mean", {x, Ints(s, {1, 2})});
}

}  // namespace troupe::layers
