// ResizeBilinear: images of another size, each pixel mixed of the four nearest of the input; and
// ResizeBilinearGrad, which shares each pixel of the gradient among them.
#include <vector>

#include "kernels/common/types.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

class Bilinear {
 public:
  Bilinear(const ResizeAttrs& attrs, const ImageSize& in, const ImageSize& to)
      : ys_(Interpolate(in.height, to.height, attrs)),
        xs_(Interpolate(in.width, to.width, attrs)),
        in_row_(in.width * in.channels),
        channels_(in.channels) {}

  double cost() const { return 2.0 * static_cast<double>(out_row()); }
  template <class T>
  void Row(const T* image, int64_t y, float* out) const {
    const T* const top = image + ys_[y].lower * in_row_;
    const T* const bottom = image + ys_[y].upper * in_row_;
    const float y_lerp = ys_[y].lerp;
    for (const Between& x : xs_) {
      const int64_t left = x.lower * channels_, right = x.upper * channels_;
      for (int64_t c = 0; c < channels_; ++c) {
        const auto tl = static_cast<float>(top[left + c]), tr = static_cast<float>(top[right + c]);
        const auto bl = static_cast<float>(bottom[left + c]), br = static_cast<float>(bottom[right + c]);
        const float above = tl + (tr - tl) * x.lerp, below = bl + (br - bl) * x.lerp;
        *out++ = above + (below - above) * y_lerp;
      }
    }
  }

  double spread_cost() const { return 5.0 * static_cast<double>(static_cast<int64_t>(ys_.size()) * out_row()); }
  template <class T>
  void Spread(const float* grad, T* image) const {
    for (const Between& y : ys_) {
      T* const top = image + y.lower * in_row_;
      T* const bottom = image + y.upper * in_row_;
      for (const Between& x : xs_) {
        const int64_t left = x.lower * channels_, right = x.upper * channels_;
        for (int64_t c = 0; c < channels_; ++c) {
          const float g = *grad++;
          top[left + c] += static_cast<T>(g * (1 - y.lerp) * (1 - x.lerp));
          top[right + c] += static_cast<T>(g * (1 - y.lerp) * x.lerp);
          bottom[left + c] += static_cast<T>(g * y.lerp * (1 - x.lerp));
          bottom[right + c] += static_cast<T>(g * y.lerp * x.lerp);
        }
      }
    }
  }

 private:
  int64_t out_row() const { return static_cast<int64_t>(xs_.size()) * channels_; }

  const std::vector<Between> ys_, xs_;
  const int64_t in_row_, channels_;
};

const OpRegistrar resize = ResizeOp("ResizeBilinear", "float")
                               .Gradient([](GradientContext& g) {
                                 if (!IsFloating(g.input_type(0))) return absl::OkStatus();
                                 g.Set(0, g.Op("ResizeBilinearGrad", {g.Grad(0), g.Input(0)}, ResizeAttrMap(g)));
                                 return g.status();
                               })
                               .Doc(
                                   "Images [batch, height, width, channels] in another size (height and width), by "
                                   "linear interpolation in both "
                                   "directions.\n"
                                   "align_corners lays the corners onto each other, half_pixel_centers the edges.");
TROUPE_CPU_KERNEL("ResizeBilinear").HostMemory("size").Class<ResizeToFloat<Bilinear>>();

const OpRegistrar resize_grad =
    ResizeGradOp("ResizeBilinearGrad", "{float, bfloat16, half, double}")
        .Doc("The gradient of ResizeBilinear's images; of original_image only type and shape count.");
TROUPE_CPU_KERNEL("ResizeBilinearGrad").Class<ResizeToFloatGrad<Bilinear>>();

}  // namespace
}  // namespace troupe::image
