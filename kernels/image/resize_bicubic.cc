// ResizeBicubic: images of another size, each pixel mixed of the sixteen nearest of the input; and
// ResizeBicubicGrad, which shares each pixel of the gradient among them.
//
// The cubic is a table of 1024 steps, as in TensorFlow: with a = -0.75, and -0.5 (Keys) with
// half_pixel_centers. A neighbour beyond the edge is the edge itself; with half_pixel_centers it
// has no weight, and the others are scaled to a sum of 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/types.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

struct CubicPoint {
  int64_t index[4];
  float weight[4];
};

constexpr int kSteps = 1024;

// By distance in steps: the weight of a neighbour that is less than one pixel away, and of one that
// is a pixel further.
struct CubicTable {
  explicit CubicTable(double a) {
    for (int i = 0; i <= kSteps; ++i) {
      float x = static_cast<float>(i * 1.0 / kSteps);
      near[i] = static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
      x += 1;
      far[i] = static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
    }
  }
  std::array<float, kSteps + 1> near, far;
};

const CubicTable& BicubicTable(bool keys) {
  static const CubicTable steep(-0.75), of_keys(-0.5);
  return keys ? of_keys : steep;
}

std::vector<CubicPoint> CubicPoints(int64_t in, int64_t out, const ResizeAttrs& attrs) {
  const bool keys = attrs.half_pixel_centers;
  const CubicTable& table = BicubicTable(keys);
  const float scale = ResizeScale(in, out, attrs);
  std::vector<CubicPoint> all(out);
  for (int64_t i = 0; i < out; ++i) {
    const auto x = static_cast<float>(i);
    const float at = keys ? (x + 0.5f) * scale - 0.5f : x * scale;
    const auto floor = static_cast<int64_t>(std::floor(at));
    const auto step = static_cast<int>(std::lrint((at - static_cast<float>(floor)) * kSteps));
    CubicPoint& p = all[i];
    p = {{}, {table.far[step], table.near[step], table.near[kSteps - step], table.far[kSteps - step]}};
    for (int k = 0; k < 4; ++k) {
      p.index[k] = std::clamp<int64_t>(floor - 1 + k, 0, in - 1);
      if (keys && p.index[k] != floor - 1 + k) p.weight[k] = 0;
    }
    if (!keys) continue;
    const float sum = p.weight[0] + p.weight[1] + p.weight[2] + p.weight[3];
    if (std::abs(sum) < 1000 * std::numeric_limits<float>::min()) continue;
    for (float& w : p.weight) w *= 1 / sum;
  }
  return all;
}

class Bicubic {
 public:
  Bicubic(const ResizeAttrs& attrs, const ImageSize& in, const ImageSize& to)
      : ys_(CubicPoints(in.height, to.height, attrs)),
        xs_(CubicPoints(in.width, to.width, attrs)),
        in_row_(in.width * in.channels),
        channels_(in.channels) {}

  double cost() const { return 10.0 * static_cast<double>(out_row()); }
  struct Scratch {
    explicit Scratch(const Bicubic&) {}
  };
  template <class T>
  void Row(const T* image, int64_t at_y, Scratch*, float* out) const {
    const CubicPoint& y = ys_[at_y];
    const T* rows[4];
    for (int k = 0; k < 4; ++k) rows[k] = image + y.index[k] * in_row_;
    for (const CubicPoint& x : xs_) {
      for (int64_t c = 0; c < channels_; ++c) {
        float column[4];
        for (int k = 0; k < 4; ++k) {
          const int64_t at = x.index[k] * channels_ + c;
          column[k] = static_cast<float>(rows[0][at]) * y.weight[0] + static_cast<float>(rows[1][at]) * y.weight[1] +
                      static_cast<float>(rows[2][at]) * y.weight[2] + static_cast<float>(rows[3][at]) * y.weight[3];
        }
        *out++ = column[0] * x.weight[0] + column[1] * x.weight[1] + column[2] * x.weight[2] + column[3] * x.weight[3];
      }
    }
  }

  double spread_cost() const { return 20.0 * static_cast<double>(static_cast<int64_t>(ys_.size()) * out_row()); }
  template <class T>
  void Spread(const float* grad, T* image) const {
    for (const CubicPoint& y : ys_) {
      for (const CubicPoint& x : xs_) {
        for (int64_t c = 0; c < channels_; ++c) {
          const auto g = static_cast<T>(*grad++);
          for (int k = 0; k < 4; ++k) {
            T* const row = image + y.index[k] * in_row_;
            for (int l = 0; l < 4; ++l) row[x.index[l] * channels_ + c] += g * y.weight[k] * x.weight[l];
          }
        }
      }
    }
  }

 private:
  int64_t out_row() const { return static_cast<int64_t>(xs_.size()) * channels_; }

  const std::vector<CubicPoint> ys_, xs_;
  const int64_t in_row_, channels_;
};

const OpRegistrar bicubic = ResizeOp("ResizeBicubic", "float")
                                .Gradient([](GradientContext& g) {
                                  if (g.input_type(0) != DType::kFloat && g.input_type(0) != DType::kDouble)
                                    return absl::OkStatus();
                                  g.Set(0, g.Op("ResizeBicubicGrad", {g.Grad(0), g.Input(0)}, ResizeAttrMap(g)));
                                  return g.status();
                                })
                                .Doc(
                                    "Images [batch, height, width, channels] in another size (height and width), by "
                                    "cubic interpolation in both "
                                    "directions.\n"
                                    "align_corners lays the corners onto each other, half_pixel_centers the edges.");
TROUPE_CPU_KERNEL("ResizeBicubic").HostMemory("size").Class<ResizeToFloat<Bicubic>>();

const OpRegistrar bicubic_grad =
    ResizeGradOp("ResizeBicubicGrad", "{float, double}")
        .Doc("The gradient of ResizeBicubic's images; of original_image only type and shape count.");
TROUPE_CPU_KERNEL("ResizeBicubicGrad").Class<ResizeToFloatGrad<Bicubic>>();

}  // namespace
}  // namespace troupe::image
