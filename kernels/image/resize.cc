#include "kernels/image/resize.h"

#include <algorithm>
#include <cmath>

namespace troupe::image {

ResizeAttrs::ResizeAttrs(KernelInit& init)
    : align_corners(init.Attr<bool>("align_corners")),
      half_pixel_centers(init.node().attrs().Has("half_pixel_centers") && init.Attr<bool>("half_pixel_centers")) {
  if (align_corners && half_pixel_centers)
    init.Fail(InvalidArgument("If half_pixel_centers is True, align_corners must be False."));
}

absl::StatusOr<ImageSize> ImagesAt(const KernelContext& ctx, int input) {
  const Tensor& t = ctx.input(input);
  if (t.rank() != 4) return InvalidArgument("input must be 4-dimensional, got shape ", t.shape().DebugString());
  return ImageSize{t.dim(0), t.dim(1), t.dim(2), t.dim(3)};
}

absl::StatusOr<ImageSize> ResizedSize(const KernelContext& ctx, const ImageSize& in) {
  const Tensor& size = ctx.input(1);
  if (size.rank() != 1 || size.dim(0) != 2)
    return InvalidArgument("size must be a vector of two elements, got shape ", size.shape().DebugString());
  ImageSize out = in;
  out.height = size.data<int32_t>()[0];
  out.width = size.data<int32_t>()[1];
  if (out.height <= 0 || out.width <= 0)
    return InvalidArgument("output dimensions must be positive, got ", out.height, " x ", out.width);
  if (in.channels <= 0) return InvalidArgument("image must have at least one channel");
  if (in.height <= 0 || in.width <= 0) return InvalidArgument("input image must be of non-zero size");
  const int64_t dims[] = {out.batch, out.height, out.width, out.channels};
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(dims).status());
  return out;
}

float ResizeScale(int64_t in, int64_t out, const ResizeAttrs& attrs) {
  return attrs.align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                        : static_cast<float>(in) / static_cast<float>(out);
}

std::vector<Between> Interpolate(int64_t in, int64_t out, const ResizeAttrs& attrs) {
  const float scale = ResizeScale(in, out, attrs);
  std::vector<Between> all(out);
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<float>(i);
    const float at = attrs.half_pixel_centers ? (x + 0.5f) * scale - 0.5f : x * scale;
    const float floor = std::floor(at);
    // The upper neighbour of a whole number is that number itself.
    all[i] = {std::max<int64_t>(static_cast<int64_t>(floor), 0),
              std::clamp<int64_t>(static_cast<int64_t>(std::ceil(at)), 0, in - 1), at - floor};
    all[i].lower = std::min(all[i].lower, in - 1);
  }
  return all;
}

std::vector<int64_t> Nearest(int64_t in, int64_t out, const ResizeAttrs& attrs) {
  const float scale = ResizeScale(in, out, attrs);
  std::vector<int64_t> all(out);
  for (int64_t i = 0; i < out; ++i) {
    const float at = attrs.half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
    all[i] =
        std::clamp<int64_t>(static_cast<int64_t>(attrs.align_corners ? std::round(at) : std::floor(at)), 0, in - 1);
  }
  return all;
}

absl::Status ResizeShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRank(0, 4));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape size, c.WithRank(1, 1));
  if (size.known_rank()) TROUPE_RETURN_IF_ERROR(MergeDims(size.dim(0), 2).status());
  PartialTensorShape out = in.known_rank() ? in : PartialTensorShape::OfRank(4);
  out.set_dim(1, -1);
  out.set_dim(2, -1);
  if (const Tensor* value = c.input_tensor(1); value != nullptr && value->num_elements() == 2) {
    for (int i = 0; i < 2; ++i) {
      if (value->data<int32_t>()[i] < 0)
        return InvalidArgument("output dimensions must be positive, got ", value->data<int32_t>()[i]);
      out.set_dim(1 + i, value->data<int32_t>()[i]);
    }
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

OpBuilder ResizeOp(std::string_view name, std::string_view output, bool half_pixel_centers) {
  OpBuilder op(name);
  op.Input("images: T")
      .Input("size: int32")
      .Output(StrCat("resized_images: ", output))
      .Attr("T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}")
      .Attr("align_corners: bool = false");
  if (half_pixel_centers) op.Attr("half_pixel_centers: bool = false");
  op.Shape(ResizeShape);
  return op;
}
OpBuilder ResizeGradOp(std::string_view name, std::string_view types) {
  return OpBuilder(name)
      .Input("grads: float")
      .Input("original_image: T")
      .Output("output: T")
      .Attr(StrCat("T: ", types))
      .Attr("align_corners: bool = false")
      .Attr("half_pixel_centers: bool = false")
      .Shape(ResizeGradShape)
      .NotDifferentiable(kNoResizeGradient);
}
AttrMap ResizeAttrMap(GradientContext& g) {
  return {{"align_corners", g.Attr<bool>("align_corners")}, {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}};
}

absl::Status ResizeGradShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 4).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 4).status());
  c.set_output(0, c.input(1));
  return absl::OkStatus();
}

absl::Status CheckResizeGrad(const KernelContext& ctx, const ImageSize& from, const ImageSize& to) {
  if (from.batch == to.batch && from.channels == to.channels) return absl::OkStatus();
  return InvalidArgument("grads and original_image must have equal batches and channels: ",
                         ctx.input(0).shape().DebugString(), " vs. ", ctx.input(1).shape().DebugString());
}

}  // namespace troupe::image
