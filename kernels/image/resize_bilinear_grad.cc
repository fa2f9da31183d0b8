// ResizeBilinearGrad: each pixel of the gradient, shared among the four pixels that it was mixed
// of.
#include "kernels/common/as_float.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

// Adds to one image [height, width, channels] of zeros.
template <class T>
void Spread(const float* grad, const std::vector<Between>& ys, const std::vector<Between>& xs, int64_t width,
            int64_t channels, T* image) {
  for (const Between& y : ys) {
    T* const top = image + y.lower * width * channels;
    T* const bottom = image + y.upper * width * channels;
    for (const Between& x : xs) {
      const int64_t left = x.lower * channels, right = x.upper * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const float g = *grad++;
        top[left + c] += static_cast<T>(g * (1 - y.lerp) * (1 - x.lerp));
        top[right + c] += static_cast<T>(g * (1 - y.lerp) * x.lerp);
        bottom[left + c] += static_cast<T>(g * y.lerp * (1 - x.lerp));
        bottom[right + c] += static_cast<T>(g * y.lerp * x.lerp);
      }
    }
  }
}

class ResizeBilinearGrad {
 public:
  explicit ResizeBilinearGrad(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize from, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ImagesAt(ctx, 1));
    TROUPE_RETURN_IF_ERROR(CheckResizeGrad(ctx, from, to));
    const DType type = ctx.output_type(0);
    TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(ComputeType(type), ctx.input(1).shape()));
    std::memset(out.raw(), 0, out.bytes());
    if (out.num_elements() > 0 && ctx.input(0).num_elements() > 0) {
      const std::vector<Between> ys = Interpolate(to.height, from.height, attrs_),
                                 xs = Interpolate(to.width, from.width, attrs_);
      const int64_t grads = from.height * from.width * from.channels, pixels = to.height * to.width * to.channels;
      ctx.threads()->ParallelFor(to.batch, 5.0 * static_cast<double>(grads), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const float* grad = ctx.input(0).data<float>() + b * grads;
          if (out.dtype() == DType::kDouble) {
            Spread(grad, ys, xs, to.width, to.channels, out.data<double>() + b * pixels);
          } else {
            Spread(grad, ys, xs, to.width, to.channels, out.data<float>() + b * pixels);
          }
        }
      });
    }
    ctx.set_output(0, Narrowed(ctx, std::move(out), type));
    return absl::OkStatus();
  }

 private:
  const ResizeAttrs attrs_;
};

TROUPE_OP("ResizeBilinearGrad")
    .Input("grads: float")
    .Input("original_image: T")
    .Output("output: T")
    .Attr("T: {float, bfloat16, half, double}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeGradShape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of ResizeBilinear's images; of original_image only type and shape count.");
TROUPE_KERNEL("ResizeBilinearGrad").Device("CPU").Types("T", math::kFloats).Class<ResizeBilinearGrad>();

}  // namespace
}  // namespace troupe::image
