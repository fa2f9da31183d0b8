// CropAndResizeGradImage: each point of the gradient of crops, shared among the pixels that it was
// mixed of.
#include <algorithm>
#include <cstring>

#include "kernels/image/crops.h"

namespace troupe::image {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(3));
  TROUPE_ASSIGN_OR_RETURN(out, out.MergeWith(PartialTensorShape::OfRank(4)));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

class CropAndResizeGradImage {
 public:
  explicit CropAndResizeGradImage(KernelInit& init) : nearest_(init.Attr<std::string>("method") == "nearest") {}

  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize crop, ImagesAt(ctx, 0));
    const Tensor& size = ctx.input(3);
    if (size.rank() != 1 || size.dim(0) != 4)
      return InvalidArgument("image_size must be a vector of four elements, got shape ", size.shape().DebugString());
    const int32_t* const to = size.data<int32_t>();
    const int64_t dims[] = {to[0], to[1], to[2], to[3]};
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    if (to[1] <= 0 || to[2] <= 0)
      return InvalidArgument("image dimensions must be positive, got ", to[1], " x ", to[2]);
    TROUPE_ASSIGN_OR_RETURN(const Boxes boxes, BoxesAt(ctx, 1, to[0]));
    if (crop.batch != boxes.count || crop.channels != to[3]) {
      return InvalidArgument("grads of shape ", ctx.input(0).shape().DebugString(), " are not those of ", boxes.count,
                             " boxes of images ", shape.DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    std::memset(out->raw(), 0, out->bytes());
    if (out->num_elements() == 0 || ctx.input(0).num_elements() == 0) return absl::OkStatus();
    switch (out->dtype()) {
      case DType::kHalf:
        return Add<Half>(ctx, crop, boxes, out);
      case DType::kDouble:
        return Add<double>(ctx, crop, boxes, out);
      default:
        return Add<float>(ctx, crop, boxes, out);
    }
  }

 private:
  // Each image by one thread: boxes may overlap.
  template <class T>
  absl::Status Add(KernelContext& ctx, const ImageSize& crop, const Boxes& boxes, Tensor* out) const {
    const ImageSize to = {out->dim(0), out->dim(1), out->dim(2), out->dim(3)};
    const int64_t points = crop.height * crop.width * crop.channels, image = to.height * to.width * to.channels;
    const double cost =
        5.0 * static_cast<double>(points * boxes.count) / static_cast<double>(std::max<int64_t>(to.batch, 1));
    ctx.threads()->ParallelFor(to.batch, cost, [&](int64_t begin, int64_t end) {
      for (int64_t b = 0; b < boxes.count; ++b) {
        if (boxes.images[b] < begin || boxes.images[b] >= end) continue;
        const float* const box = boxes.corners + 4 * b;
        Spread(ctx.input(0).data<float>() + b * points,
               CropPoints(box[0], box[2], CropStep(box[0], box[2], crop.height, to.height), crop.height, to.height),
               CropPoints(box[1], box[3], CropStep(box[1], box[3], crop.width, to.width), crop.width, to.width), to,
               out->data<T>() + boxes.images[b] * image);
      }
    });
    return absl::OkStatus();
  }

  template <class T>
  void Spread(const float* grad, const std::vector<CropPoint>& ys, const std::vector<CropPoint>& xs,
              const ImageSize& to, T* image) const {
    const int64_t row = to.width * to.channels;
    for (const CropPoint& y : ys) {
      T *const top = image + y.lower * row, *const bottom = image + y.upper * row,
               *const middle = image + y.nearest * row;
      for (const CropPoint& x : xs) {
        const float* const g = grad;
        grad += to.channels;
        if (!y.inside || !x.inside) continue;
        const int64_t left = x.lower * to.channels, right = x.upper * to.channels, at = x.nearest * to.channels;
        for (int64_t c = 0; c < to.channels; ++c) {
          const auto add = [c](T* pixel, float v) { pixel[c] = static_cast<T>(pixel[c] + static_cast<T>(v)); };
          if (nearest_) {
            add(middle + at, g[c]);
            continue;
          }
          const float above = (1 - y.lerp) * g[c], below = y.lerp * g[c];
          add(top + left, (1 - x.lerp) * above);
          add(top + right, x.lerp * above);
          add(bottom + left, (1 - x.lerp) * below);
          add(bottom + right, x.lerp * below);
        }
      }
    }
  }

  const bool nearest_;
};

TROUPE_OP("CropAndResizeGradImage")
    .Input("grads: float")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Input("image_size: int32")
    .Output("output: T")
    .Attr("T: {float, half, double}")
    .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
    .Shape(Shape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of CropAndResize's images, which have shape image_size.");
TROUPE_KERNEL("CropAndResizeGradImage")
    .Device("CPU")
    .Type<Half, float, double>("T")
    .HostMemory("image_size")
    .Class<CropAndResizeGradImage>();

}  // namespace
}  // namespace troupe::image
