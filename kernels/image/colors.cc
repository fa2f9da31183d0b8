// RGBToHSV, HSVToRGB, AdjustContrastv2, AdjustHue and AdjustSaturation: pixels of three channels.
//
// float16 and bfloat16 are computed in float32 and rounded once.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/common/as_float.h"
#include "kernels/common/op_file.h"
#include "kernels/common/types.h"

namespace troupe::image {
namespace {

constexpr char kNoneInTensorFlow[] = "TensorFlow has no gradient for it";

// Red, green and blue of [0, 1], or hue, saturation and value of [0, 1].
template <class T>
using Pixel = std::array<T, 3>;

template <class T>
Pixel<T> ToHsv(const Pixel<T>& p) {
  const auto [r, g, b] = p;
  const T value = std::max(r, std::max(g, b)), range = value - std::min(r, std::min(g, b));
  const T saturation = value > 0 ? range / value : T(0);
  if (!(range > 0)) return {T(0), saturation, value};
  const T norm = T(1) / (T(6) * range);
  T hue = r == value ? norm * (g - b) : g == value ? norm * (b - r) + T(2) / T(6) : norm * (r - g) + T(4) / T(6);
  if (hue < 0) hue += 1;
  return {hue, saturation, value};
}

template <class T>
Pixel<T> ToRgb(const Pixel<T>& p) {
  const auto [hue, saturation, value] = p;
  const auto unit = [](T x) { return std::min(std::max(x, T(0)), T(1)); };
  const T h = hue * 6, one = T(1) - saturation;
  const T r = unit(std::abs(h - 3) - 1), g = unit(T(2) - std::abs(h - 2)), b = unit(T(2) - std::abs(h - 4));
  return {(one + saturation * r) * value, (one + saturation * g) * value, (one + saturation * b) * value};
}

absl::Status CheckPixels(const Tensor& t, int rank) {
  if (t.rank() < rank || t.dim(t.rank() - 1) != 3) {
    return InvalidArgument("images must have at least ", rank,
                           " dimensions, the last one of 3 channels, but have shape ", t.shape().DebugString());
  }
  return absl::OkStatus();
}

// Output 0: f of every pixel of input 0, computed as T or, for the small floats, as float32.
template <class F>
absl::Status MapPixels(KernelContext& ctx, const F& f) {
  const Tensor in = Widened(ctx, ctx.input(0));
  TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(in.dtype(), in.shape()));
  const auto map = [&]<class T>() {
    const T* const from = in.data<T>();
    T* const to = out.data<T>();
    ctx.threads()->ParallelFor(in.num_elements() / 3, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
        const Pixel<T> p = f(Pixel<T>{from[i], from[i + 1], from[i + 2]});
        std::copy(p.begin(), p.end(), to + i);
      }
    });
  };
  if (in.dtype() == DType::kDouble) {
    map.template operator()<double>();
  } else {
    map.template operator()<float>();
  }
  ctx.set_output(0, Narrowed(ctx, std::move(out), ctx.output_type(0)));
  return absl::OkStatus();
}

template <int kRank>
absl::Status PixelsShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.WithRankAtLeast(0, kRank));
  if (shape.known_rank()) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t channels, MergeDims(shape.dim(shape.rank() - 1), 3));
    shape.set_dim(shape.rank() - 1, channels);
  }
  for (int i = 1; i < c.num_inputs(); ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

// An op from pixels of one color space to those of the other. Without doc.
OpBuilder ColorSpaceOp(std::string_view name) {
  return OpBuilder(name)
      .Input("images: T")
      .Output("output: T")
      .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
      .Shape(PixelsShape<1>)
      .NotDifferentiable(kNoneInTensorFlow);
}
// An op on images by an amount, the scalar input `amount`. Without doc.
OpBuilder AdjustOp(std::string_view name, std::string_view amount, ShapeFn shape) {
  return OpBuilder(name)
      .Input("images: T")
      .Input(StrCat(amount, ": float"))
      .Output("output: T")
      .Attr("T: {half, float} = DT_FLOAT")
      .Shape(shape)
      .NotDifferentiable(kNoneInTensorFlow);
}
absl::StatusOr<float> Amount(const KernelContext& ctx, std::string_view what) {
  if (ctx.input(1).rank() == 0) return ctx.input(1).scalar<float>();
  return InvalidArgument(what, " must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
}

const OpRegistrar rgb_to_hsv =
    ColorSpaceOp("RGBToHSV")
        .Doc("Hue, saturation and value, each of [0, 1], of pixels of red, green and blue of [0, 1].");

const OpRegistrar hsv_to_rgb =
    ColorSpaceOp("HSVToRGB").Doc("Red, green and blue of pixels of hue, saturation and value.");

template <bool kToHsv>
absl::Status ConvertColors(KernelContext& ctx) {
  TROUPE_RETURN_IF_ERROR(CheckPixels(ctx.input(0), 1));
  return MapPixels(ctx, []<class T>(const Pixel<T>& p) { return kToHsv ? ToHsv(p) : ToRgb(p); });
}
TROUPE_CPU_KERNEL("RGBToHSV").Function<ConvertColors<true>>();
TROUPE_CPU_KERNEL("HSVToRGB").Function<ConvertColors<false>>();

const OpRegistrar adjust_hue = AdjustOp("AdjustHue", "delta", PixelsShape<3>)
                                   .Doc("Pixels of red, green and blue whose hue is turned by delta, of [-1, 1].");

absl::Status ComputeHue(KernelContext& ctx) {
  TROUPE_RETURN_IF_ERROR(CheckPixels(ctx.input(0), 3));
  TROUPE_ASSIGN_OR_RETURN(const float delta, Amount(ctx, "delta"));
  return MapPixels(ctx, [delta]<class T>(const Pixel<T>& p) {
    Pixel<T> hsv = ToHsv(p);
    hsv[0] += static_cast<T>(delta);
    hsv[0] -= std::floor(hsv[0]);
    return ToRgb(hsv);
  });
}
TROUPE_CPU_KERNEL("AdjustHue").HostMemory("delta").Function<ComputeHue>();

const OpRegistrar adjust_saturation =
    AdjustOp("AdjustSaturation", "scale", PixelsShape<3>)
        .Doc("Pixels of red, green and blue whose saturation is multiplied by scale, and kept in [0, 1].");

absl::Status ComputeSaturation(KernelContext& ctx) {
  TROUPE_RETURN_IF_ERROR(CheckPixels(ctx.input(0), 3));
  TROUPE_ASSIGN_OR_RETURN(const float scale, Amount(ctx, "scale"));
  return MapPixels(ctx, [scale]<class T>(const Pixel<T>& p) {
    Pixel<T> hsv = ToHsv(p);
    hsv[1] = std::min(std::max(hsv[1] * static_cast<T>(scale), T(0)), T(1));
    return ToRgb(hsv);
  });
}
TROUPE_CPU_KERNEL("AdjustSaturation").HostMemory("scale").Function<ComputeSaturation>();

absl::Status ContrastShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.WithRankAtLeast(0, 3));
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

const OpRegistrar adjust_contrast =
    AdjustOp("AdjustContrastv2", "contrast_factor", ContrastShape)
        .Doc(
            "Images [..., height, width, channels] whose distances from the mean of their channel are multiplied by "
            "contrast_factor.");

absl::Status ComputeContrast(KernelContext& ctx) {
  const Tensor in = Widened(ctx, ctx.input(0));
  const int r = in.rank();
  if (r < 3) {
    return InvalidArgument("images must have at least 3 dimensions, but have shape ", in.shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const float factor, Amount(ctx, "contrast_factor"));
  TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(DType::kFloat, in.shape()));
  const int64_t channels = in.dim(r - 1), pixels = in.dim(r - 2) * in.dim(r - 3), each = pixels * channels;
  const int64_t images = each == 0 ? 0 : in.num_elements() / each;
  ctx.threads()->ParallelFor(images, static_cast<double>(each) * 2, [&](int64_t begin, int64_t end) {
    std::vector<double> mean(static_cast<size_t>(channels));
    for (int64_t i = begin; i < end; ++i) {
      const float* const from = in.data<float>() + i * each;
      float* const to = out.data<float>() + i * each;
      std::fill(mean.begin(), mean.end(), 0.0);
      for (int64_t k = 0; k < each; k += channels) {
        for (int64_t c = 0; c < channels; ++c) mean[static_cast<size_t>(c)] += static_cast<double>(from[k + c]);
      }
      for (int64_t k = 0; k < each; k += channels) {
        for (int64_t c = 0; c < channels; ++c) {
          const auto m = static_cast<float>(mean[static_cast<size_t>(c)] / static_cast<double>(pixels));
          to[k + c] = (from[k + c] - m) * factor + m;
        }
      }
    }
  });
  ctx.set_output(0, Narrowed(ctx, std::move(out), ctx.output_type(0)));
  return absl::OkStatus();
}
TROUPE_CPU_KERNEL("AdjustContrastv2").HostMemory("contrast_factor").Function<ComputeContrast>();

}  // namespace
}  // namespace troupe::image
