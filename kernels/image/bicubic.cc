#include "kernels/image/bicubic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace troupe::image {
namespace {

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

const CubicTable& Table(bool keys) {
  static const CubicTable steep(-0.75), of_keys(-0.5);
  return keys ? of_keys : steep;
}

}  // namespace

std::vector<CubicPoint> CubicPoints(int64_t in, int64_t out, const ResizeAttrs& attrs) {
  const bool keys = attrs.half_pixel_centers;
  const CubicTable& table = Table(keys);
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

}  // namespace troupe::image
