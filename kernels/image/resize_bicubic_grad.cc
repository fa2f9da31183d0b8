// ResizeBicubicGrad: each pixel of the gradient, shared among the sixteen pixels that it was mixed
// of.
#include <cstring>

#include "kernels/image/bicubic.h"

namespace troupe::image {
namespace {

// Adds to one image [height, width, channels] of zeros.
template <class T>
void Spread(const float* grad, const std::vector<CubicPoint>& ys, const std::vector<CubicPoint>& xs, int64_t width,
            int64_t channels, T* image) {
  for (const CubicPoint& y : ys) {
    for (const CubicPoint& x : xs) {
      for (int64_t c = 0; c < channels; ++c) {
        const auto g = static_cast<T>(*grad++);
        for (int k = 0; k < 4; ++k) {
          T* const row = image + y.index[k] * width * channels;
          for (int l = 0; l < 4; ++l) row[x.index[l] * channels + c] += g * y.weight[k] * x.weight[l];
        }
      }
    }
  }
}

class ResizeBicubicGrad {
 public:
  explicit ResizeBicubicGrad(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize from, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ImagesAt(ctx, 1));
    TROUPE_RETURN_IF_ERROR(CheckResizeGrad(ctx, from, to));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, ctx.input(1).shape()));
    std::memset(out->raw(), 0, out->bytes());
    if (out->num_elements() == 0 || ctx.input(0).num_elements() == 0) return absl::OkStatus();
    const std::vector<CubicPoint> ys = CubicPoints(to.height, from.height, attrs_),
                                  xs = CubicPoints(to.width, from.width, attrs_);
    const int64_t grads = from.height * from.width * from.channels, pixels = to.height * to.width * to.channels;
    ctx.threads()->ParallelFor(to.batch, 20.0 * static_cast<double>(grads), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const float* grad = ctx.input(0).data<float>() + b * grads;
        if (out->dtype() == DType::kDouble) {
          Spread(grad, ys, xs, to.width, to.channels, out->data<double>() + b * pixels);
        } else {
          Spread(grad, ys, xs, to.width, to.channels, out->data<float>() + b * pixels);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const ResizeAttrs attrs_;
};

TROUPE_OP("ResizeBicubicGrad")
    .Input("grads: float")
    .Input("original_image: T")
    .Output("output: T")
    .Attr("T: {float, double}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeGradShape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of ResizeBicubic's images; of original_image only type and shape count.");
TROUPE_KERNEL("ResizeBicubicGrad").Device("CPU").Type<float, double>("T").Class<ResizeBicubicGrad>();

}  // namespace
}  // namespace troupe::image
