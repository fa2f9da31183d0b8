// ResizeBilinear: images of another size, each pixel mixed of the four nearest of the input.
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

}  // namespace
}  // namespace troupe::image
