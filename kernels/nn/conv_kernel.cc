#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/nn/conv.h"
#include "kernels/nn/conv_direct.h"
#include "kernels/nn/conv_generic.h"
#include "kernels/nn/conv_pointwise.h"
#include "kernels/nn/layout.h"

namespace troupe {
namespace {

// A range of images has at least this many multiplications (some 10 us of work).
constexpr double kRangeWork = 1e6;

// The shape that a 1-D int32 tensor spells.
absl::StatusOr<TensorShape> ShapeFrom(const Tensor& t, const char* what) {
  if (t.rank() != 1 || t.dim(0) != 4) {
    return InvalidArgument(what, " must be a vector of 4 sizes, but it is ", t.DebugString());
  }
  const int32_t* d = t.data<int32_t>();
  return TensorShape::Make({d[0], d[1], d[2], d[3]});
}

}  // namespace

ConvKernel::ConvKernel(KernelInit& init, ConvPass pass, bool depthwise)
    : pass_(pass), depthwise_(depthwise), dtype_(init.output_type(0)), dnnl_(pass) {
  absl::StatusOr<WindowAttrs> attrs = ReadWindowAttrs(init.node());
  if (attrs.ok()) {
    attrs_ = *attrs;
  } else {
    init.Fail(attrs.status());
  }
}

absl::StatusOr<ConvShape> ConvKernel::Sizes(const TensorShape& input, const TensorShape& filter) const {
  if (input.rank() != 4) return InvalidArgument("input must be 4-dimensional: ", input.DebugString());
  if (filter.rank() != 4) return InvalidArgument("filter must be 4-dimensional: ", filter.DebugString());
  ConvShape s;
  s.n = input.dim(0);
  s.h = input.dim(attrs_.spatial_dim(0));
  s.w = input.dim(attrs_.spatial_dim(1));
  s.c = input.dim(attrs_.channel_dim());
  s.kh = filter.dim(0);
  s.kw = filter.dim(1);
  if (depthwise_) {
    if (filter.dim(2) != s.c) {
      return InvalidArgument("input and filter must have the same depth: ", s.c, " vs ", filter.dim(2), " (input ",
                             input.DebugString(), ", filter ", filter.DebugString(), ")");
    }
    s.groups = std::max<int64_t>(1, s.c);
    s.oc = s.c * filter.dim(3);
  } else {
    s.oc = filter.dim(3);
    if (filter.dim(2) == 0) return InvalidArgument("filter depth must be greater than 0: ", filter.DebugString());
    if (s.c % filter.dim(2) != 0) {
      return InvalidArgument("input depth must be evenly divisible by filter depth: ", s.c, " vs ", filter.dim(2),
                             " (input ", input.DebugString(), ", filter ", filter.DebugString(), ")");
    }
    s.groups = std::max<int64_t>(1, s.c / filter.dim(2));
    if (s.oc % s.groups != 0) {
      return InvalidArgument("output depth must be evenly divisible by number of groups: ", s.oc, " vs ", s.groups);
    }
  }
  TROUPE_ASSIGN_OR_RETURN(WindowExtent y, SlideWindow(attrs_, 0, s.h, s.kh));
  TROUPE_ASSIGN_OR_RETURN(WindowExtent x, SlideWindow(attrs_, 1, s.w, s.kw));
  s.oh = y.out, s.top = y.before, s.bottom = y.after;
  s.ow = x.out, s.left = x.before, s.right = x.after;
  s.stride_h = attrs_.stride[0], s.stride_w = attrs_.stride[1];
  s.dilation_h = attrs_.dilation[0], s.dilation_w = attrs_.dilation[1];
  return s;
}

// By our own loops, halves of the rows of groups of kConvTogether images, from `begin` to `end`: a
// batch of a hundred has 25 groups, which two threads would not share evenly. Not for the gradient
// of the filter.
void ConvKernel::RunHalves(const ConvShape& s, int64_t begin, int64_t end, const float* a, const float* b, float* out,
                           const ConvEpilogue<float>& epilogue) const {
  const bool forward = pass_ == ConvPass::kForward;
  const int64_t rows = forward ? s.oh : s.h;
  const auto run = [&](int64_t from, int64_t to, ConvRows part) {  // groups
    const int64_t first = from * kConvTogether;
    ConvShape some = s;
    some.n = std::min(to * kConvTogether, s.n) - first;
    const int64_t in = first * s.h * s.w * s.c, at = first * s.oh * s.ow * s.oc;
    ConvEpilogue<float> e = epilogue;
    if (e.relu_output != nullptr) e.relu_output += in;
    DirectConv(pass_, some, forward ? a + in : a, forward ? b : b + at, out + (forward ? at : in), e, part);
  };
  if (begin % 2 != 0) run(begin / 2, begin / 2 + 1, {rows / 2, rows});
  const int64_t whole = (begin + 1) / 2;
  if (whole < end / 2) run(whole, end / 2, {0, rows});
  if (end % 2 != 0) run(end / 2, end / 2 + 1, {0, rows / 2});
}

// Images are split into ranges; the gradients of filter and bias of the ranges are summed in order,
// so that a result depends on the number of threads but on no race.
template <class T>
void ConvKernel::RunTyped(ComputeThreads* threads, const ConvShape& s, const T* a, const T* b, T* out,
                          const ConvEpilogue<T>& epilogue) {
  bool direct = false, pointwise = false;
  if constexpr (std::is_same_v<T, float>) {
    pointwise = PreferPointwiseConv(pass_, s, epilogue);
    direct = !pointwise && PreferDirectConv(pass_, s);
  }
  const bool halves = direct && pass_ != ConvPass::kBackwardFilter;
  const int64_t unit = direct ? kConvTogether : 1, units = (s.n + unit - 1) / unit * (halves ? 2 : 1);
  // An input's gradient is computed while another thread computes the filter's; whoever is done
  // first helps. Each range packs the weights for itself.
  const int64_t each = halves && pass_ == ConvPass::kBackwardInput && threads->num_threads() > 1 ? 2 : 1;
  int64_t ranges = std::min<int64_t>({threads->num_threads() * each, units,
                                      static_cast<int64_t>(s.work() * (sizeof(T) == 8 ? 4 : 1) / kRangeWork)});
  ranges = std::max<int64_t>(ranges, 1);
  const int64_t filter = s.filter_size(), sums = filter + s.oc;
  std::vector<T> partial(pass_ == ConvPass::kBackwardFilter ? (ranges - 1) * sums : 0);
  threads->ParallelRanges(ranges, ranges, [&](int64_t first, int64_t limit) {
    for (int64_t r = first; r < limit; ++r) {
      int64_t begin, end;
      ComputeThreads::Range(units, ranges, r, &begin, &end);
      if constexpr (std::is_same_v<T, float>) {
        if (halves) {
          RunHalves(s, begin, end, a, b, out, epilogue);
          continue;
        }
      }
      begin *= unit, end = std::min(end * unit, s.n);
      ConvShape part = s;
      part.n = end - begin;
      const int64_t in = begin * s.h * s.w * s.c, to = begin * s.oh * s.ow * s.oc;
      const T *pa = a, *pb = b;
      T* po = out;
      ConvEpilogue<T> e = epilogue;
      switch (pass_) {
        case ConvPass::kForward:
          pa += in, po += to;
          break;
        case ConvPass::kBackwardInput:
          pb += to, po += in;
          if (e.relu_output != nullptr) e.relu_output += in;
          break;
        case ConvPass::kBackwardFilter:
          pa += in, pb += to;
          if (r == 0) break;
          po = partial.data() + (r - 1) * sums;
          if (e.bias_gradient != nullptr) e.bias_gradient = po + filter;
          break;
      }
      if constexpr (std::is_same_v<T, float>) {
        if (pointwise) {
          PointwiseConv(pass_, part, pa, pb, po, e);
          continue;
        }
        if (direct && DirectConv(pass_, part, pa, pb, po, e)) continue;
        if (dnnl_.Run(part, pa, pb, po, e)) continue;
      }
      GenericConv<T>(pass_, part, pa, pb, po);
      switch (pass_) {
        case ConvPass::kForward:
          FinishForward(e, part.n * s.oh * s.ow, s.oc, po);
          break;
        case ConvPass::kBackwardInput:
          FinishBackwardInput(e, part.input_size(), po);
          break;
        case ConvPass::kBackwardFilter:
          FinishBackwardFilter(e, pb, part.n * s.oh * s.ow, s.oc);
          break;
      }
    }
  });
  for (size_t p = 0; p < partial.size(); p += sums) {
    for (int64_t i = 0; i < filter; ++i) out[i] += partial[p + i];
    for (int64_t i = 0; i < s.oc && epilogue.bias_gradient != nullptr; ++i)
      epilogue.bias_gradient[i] += partial[p + filter + i];
  }
}

absl::Status ConvKernel::Compute(KernelContext& ctx, const ConvFusion& fusion) {
  const Tensor& in0 = ctx.input(0);
  const Tensor& in1 = ctx.input(1);
  TensorShape input, filter;
  switch (pass_) {
    case ConvPass::kForward:
      input = in0.shape(), filter = in1.shape();
      break;
    case ConvPass::kBackwardInput: {
      TROUPE_ASSIGN_OR_RETURN(input, ShapeFrom(in0, "input_sizes"));
      filter = in1.shape();
      break;
    }
    case ConvPass::kBackwardFilter: {
      input = in0.shape();
      TROUPE_ASSIGN_OR_RETURN(filter, ShapeFrom(in1, "filter_sizes"));
      break;
    }
  }
  TROUPE_ASSIGN_OR_RETURN(const ConvShape s, Sizes(input, filter));
  const TensorShape output = ImageShape<TensorShape>(attrs_, s.n, s.oh, s.ow, s.oc);
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(output.dims()).status());
  if (pass_ != ConvPass::kForward && !ctx.input(2).HasShape(output)) {
    return InvalidArgument("out_backprop has shape ", ctx.input(2).shape().DebugString(), ", but an input of ",
                           input.DebugString(), " and a filter of ", filter.DebugString(), " give ",
                           output.DebugString());
  }
  if (fusion.bias.valid() && !fusion.bias.HasShape(TensorShape({s.oc}))) {
    return InvalidArgument("bias has shape ", fusion.bias.shape().DebugString(), ", but the convolution has ", s.oc,
                           " output channels");
  }
  if (fusion.relu_output.valid() && !fusion.relu_output.HasShape(input)) {
    return InvalidArgument("the output of Relu has shape ", fusion.relu_output.shape().DebugString(),
                           ", but the input ", input.DebugString());
  }
  const TensorShape& out_shape = pass_ == ConvPass::kForward         ? output
                                 : pass_ == ConvPass::kBackwardInput ? input
                                                                     : filter;
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, out_shape));
  Tensor bias_gradient;
  if (fusion.bias_gradient) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * sums, ctx.AllocateOutput(1, TensorShape({s.oc})));
    bias_gradient = *sums;
  }
  const bool small = IsSmallFloat(dtype_);
  if (out->num_elements() == 0 && !bias_gradient.valid()) return absl::OkStatus();
  // Operands with the channels last, in a type that is computed in.
  auto image = [&](const Tensor& t) {
    const Tensor wide = Widened(ctx, t);
    return attrs_.channels_first ? ChannelsLast(ctx, wide) : wide;
  };
  const Tensor a = pass_ == ConvPass::kBackwardInput ? Widened(ctx, in1) : image(in0);
  const Tensor b = pass_ == ConvPass::kForward ? Widened(ctx, in1) : image(ctx.input(2));
  const Tensor bias = fusion.bias.valid() ? Widened(ctx, fusion.bias) : Tensor(),
               relu_output = fusion.relu_output.valid() ? image(fusion.relu_output) : Tensor();
  const bool swap = attrs_.channels_first && pass_ != ConvPass::kBackwardFilter;
  Tensor result = *out;
  if (swap || small) {
    TensorShape shape = out_shape;
    if (swap) shape = TensorShape({out_shape.dim(0), out_shape.dim(2), out_shape.dim(3), out_shape.dim(1)});
    TROUPE_ASSIGN_OR_RETURN(result, ctx.AllocateTemp(ComputeType(dtype_), shape));
  }
  if (small && bias_gradient.valid()) {
    TROUPE_ASSIGN_OR_RETURN(bias_gradient, ctx.AllocateTemp(ComputeType(dtype_), TensorShape({s.oc})));
  }
  auto run = [&]<class T>(T) {
    auto data = [](const Tensor& t) {
      return t.valid() && t.num_elements() > 0 ? static_cast<T*>(const_cast<void*>(t.raw())) : nullptr;
    };
    const ConvEpilogue<T> e = {data(bias), fusion.activation, data(relu_output), data(bias_gradient)};
    if (s.work() > 0) return RunTyped<T>(ctx.threads(), s, data(a), data(b), data(result), e);
    // No images or no channels: sums of nothing.
    if (result.num_elements() > 0) std::memset(result.raw(), 0, result.bytes());
    if (pass_ == ConvPass::kForward) FinishForward<T>(e, s.n * s.oh * s.ow, s.oc, data(result));
    if (pass_ == ConvPass::kBackwardFilter) FinishBackwardFilter<T>(e, data(b), s.n * s.oh * s.ow, s.oc);
  };
  switch (ComputeType(dtype_)) {
    case DType::kFloat:
      run(float());
      break;
    case DType::kDouble:
      run(double());
      break;
    default:
      run(uint32_t());
  }
  if (swap) result = ChannelsToFront(ctx, result);
  if (swap || small) ctx.set_output(0, Narrowed(ctx, std::move(result), dtype_));
  if (small && bias_gradient.valid()) ctx.set_output(1, Narrowed(ctx, std::move(bias_gradient), dtype_));
  return absl::OkStatus();
}

}  // namespace troupe
