// ResizeBilinear: images of another size, each pixel mixed of the four nearest of the input; and
// ResizeBilinearGrad, which shares each pixel of the gradient among them.
#include "kernels/common/as_float.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

// One row of the output of two rows of the input.
template <class T>
void MixRow(const T* top, const T* bottom, float y_lerp, const std::vector<Between>& xs, int64_t channels, float* out) {
  for (const Between& x : xs) {
    const int64_t left = x.lower * channels, right = x.upper * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const auto tl = static_cast<float>(top[left + c]), tr = static_cast<float>(top[right + c]);
      const auto bl = static_cast<float>(bottom[left + c]), br = static_cast<float>(bottom[right + c]);
      const float above = tl + (tr - tl) * x.lerp, below = bl + (br - bl) * x.lerp;
      *out++ = above + (below - above) * y_lerp;
    }
  }
}

class ResizeBilinear {
 public:
  explicit ResizeBilinear(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, in));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out,
                            ctx.AllocateOutput(0, TensorShape({to.batch, to.height, to.width, to.channels})));
    // No images or no channels, but perhaps very many rows.
    if (out->num_elements() == 0) return absl::OkStatus();
    const std::vector<Between> ys = Interpolate(in.height, to.height, attrs_),
                               xs = Interpolate(in.width, to.width, attrs_);
    const Tensor& images = ctx.input(0);
    VisitNumeric(images.dtype(), false, [&]<class T>() {
      if constexpr (requires(T v) { static_cast<float>(v); }) {
        const int64_t in_row = in.width * in.channels, out_row = to.width * to.channels;
        ctx.threads()->ParallelFor(to.batch * to.height, 2.0 * static_cast<double>(out_row),
                                   [&](int64_t begin, int64_t end) {
                                     for (int64_t row = begin; row < end; ++row) {
                                       const T* image = images.data<T>() + row / to.height * in.height * in_row;
                                       const Between& y = ys[row % to.height];
                                       MixRow(image + y.lower * in_row, image + y.upper * in_row, y.lerp, xs,
                                              in.channels, out->data<float>() + row * out_row);
                                     }
                                   });
      }
      return true;
    });
    return absl::OkStatus();
  }

 private:
  const ResizeAttrs attrs_;
};

TROUPE_OP("ResizeBilinear")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr("T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .Gradient([](GradientContext& g) {
      if (!IsFloating(g.input_type(0))) return absl::OkStatus();
      g.Set(0, g.Op("ResizeBilinearGrad", {g.Grad(0), g.Input(0)},
                    {{"align_corners", g.Attr<bool>("align_corners")},
                     {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}}));
      return g.status();
    })
    .Doc(
        "Images [batch, height, width, channels] in another size (height and width), by linear interpolation in both "
        "directions.\n"
        "align_corners lays the corners onto each other, half_pixel_centers the edges.");
TROUPE_KERNEL("ResizeBilinear").Device("CPU").Types("T", math::kReals).HostMemory("size").Class<ResizeBilinear>();

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
