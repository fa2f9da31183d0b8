// ImageSummary: the first images of a batch as PNG.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "graph/files/png.h"
#include "kernels/summary/summary.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::summary {
namespace {

TROUPE_OP("ImageSummary")
    .Input("tag: string")
    .Input("tensor: T")
    .Output("summary: string")
    .Attr("max_images: int >= 1 = 3")
    .Attr("T: {uint8, float, half, double} = float")
    .Attr(
        "bad_color: tensor = { dtype: DT_UINT8 tensor_shape { dim { size: 4 } } "
        "int_val: 255 int_val: 0 int_val: 0 int_val: 255 }")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "A Summary message with at most `max_images` images of `tensor` [batch, height, width, channels] as PNG; 1 "
        "channel is grey, 3 are RGB, 4 RGBA. uint8 is taken as it is. Other values are scaled for each image: by "
        "255 / maximum when none is negative, and else so that 0 becomes 128 and the greatest magnitude 1 or 255. A "
        "pixel with a value that is not finite gets `bad_color`.");

template <class T>
class ImageSummaryKernel {
 public:
  explicit ImageSummaryKernel(KernelInit& init) : most_(init.Attr<int64_t>("max_images")) {
    const auto bad = init.Attr<Tensor>("bad_color");
    if (!init.status().ok()) return;
    if (bad.dtype() != DType::kUint8 || bad.rank() != 1) {
      init.Fail(InvalidArgument("bad_color must be a vector of uint8, not ", bad.TypeAndShape()));
      return;
    }
    bad_.assign(bad.data<uint8_t>(), bad.data<uint8_t>() + bad.num_elements());
  }

  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string tag, ScalarString(ctx, 0, "tag"));
    const Tensor& t = ctx.input(1);
    if (t.rank() != 4 || (t.dim(3) != 1 && t.dim(3) != 3 && t.dim(3) != 4)) {
      return InvalidArgument("tensor must have 4 dimensions, the last of 1, 3 or 4 channels, but has shape ",
                             t.shape().DebugString());
    }
    const int64_t height = t.dim(1), width = t.dim(2), channels = t.dim(3);
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (t.dim(0) > 0 &&
        (height < 1 || width < 1 || height > kMost || width > kMost || height * width > kMost / channels)) {
      return InvalidArgument("images of shape ", t.shape().DebugString(), " cannot be written as PNG");
    }
    if (static_cast<int64_t>(bad_.size()) < channels) {
      return InvalidArgument("bad_color has ", bad_.size(), " values for ", channels, " channels");
    }
    const int64_t bytes = height * width * channels;
    std::vector<uint8_t> scaled;
    proto::Summary summary;
    for (int64_t i = 0; i < std::min(most_, t.dim(0)); ++i) {
      const uint8_t* pixels;
      if constexpr (std::is_same_v<T, uint8_t>) {
        pixels = t.data<uint8_t>() + i * bytes;
      } else {
        Scale(t.data<T>() + i * bytes, height * width, channels, &scaled);
        pixels = scaled.data();
      }
      TROUPE_ASSIGN_OR_RETURN(std::string png, files::EncodePng(pixels, width, height, static_cast<int>(channels)));
      proto::Summary::Value* const value = summary.add_value();
      value->set_tag(NumberedTag(tag, "image", i, most_));
      proto::Summary::Image* const image = value->mutable_image();
      image->set_height(static_cast<int32_t>(height));
      image->set_width(static_cast<int32_t>(width));
      image->set_colorspace(static_cast<int32_t>(channels));
      image->set_encoded_image_string(std::move(png));
    }
    return SetSummary(ctx, summary);
  }

 private:
  // The range is taken in float32, and the values are scaled in their own type, as TensorFlow does.
  void Scale(const T* from, int64_t pixels, int64_t channels, std::vector<uint8_t>* to) const {
    const auto good = [&](int64_t p) {
      return std::all_of(from + p * channels, from + (p + 1) * channels,
                         [](T v) { return std::isfinite(static_cast<double>(v)); });
    };
    // The range is that of pixels without a bad value.
    float least = std::numeric_limits<float>::infinity(), greatest = -least;
    for (int64_t p = 0; p < pixels; ++p) {
      if (!good(p)) continue;
      for (int64_t c = 0; c < channels; ++c) {
        const auto v = static_cast<float>(from[p * channels + c]);
        least = std::min(least, v);
        greatest = std::max(greatest, v);
      }
    }
    constexpr float kZero = 1e-6f;
    const bool negative = least < 0;
    const float magnitude = negative ? std::max(std::abs(least), std::abs(greatest)) : greatest;
    const T factor(magnitude < kZero ? 0.0f : (negative ? 127.0f : 255.0f) / magnitude),
        offset(negative ? 128.0f : 0.0f);
    to->resize(static_cast<size_t>(pixels * channels));
    for (int64_t p = 0; p < pixels; ++p) {
      uint8_t* const pixel = to->data() + p * channels;
      if (!good(p)) {
        std::memcpy(pixel, bad_.data(), static_cast<size_t>(channels));
        continue;
      }
      for (int64_t c = 0; c < channels; ++c) {
        const T scaled = from[p * channels + c] * factor + offset;
        // Rounding may lead above the greatest.
        pixel[c] = static_cast<uint8_t>(std::clamp(static_cast<double>(scaled), 0.0, 255.0));
      }
    }
  }

  const int64_t most_;
  std::vector<uint8_t> bad_;
};

TROUPE_KERNEL("ImageSummary").Device("CPU").Type<uint8_t>("T").Class<ImageSummaryKernel<uint8_t>>();
TROUPE_KERNEL("ImageSummary").Device("CPU").Type<float>("T").Class<ImageSummaryKernel<float>>();
TROUPE_KERNEL("ImageSummary").Device("CPU").Type<Half>("T").Class<ImageSummaryKernel<Half>>();
TROUPE_KERNEL("ImageSummary").Device("CPU").Type<double>("T").Class<ImageSummaryKernel<double>>();

}  // namespace
}  // namespace troupe::summary
