// ResizeArea: images of another size, each pixel the mean of the part of the input that it covers.
#include <algorithm>
#include <cmath>

#include "kernels/common/types.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

// The input rows (columns) that each output row (column) covers, and how much of each. With
// align_corners the last ones reach beyond the edge, which counts again.
struct Covered {
  std::vector<int64_t> first;  // by output row, where its part of the next two begins; and the end
  std::vector<int64_t> index;
  std::vector<float> part;
};
Covered Cover(int64_t in, int64_t out, float scale) {
  Covered all;
  for (int64_t i = 0; i < out; ++i) {
    all.first.push_back(static_cast<int64_t>(all.index.size()));
    const float begin = static_cast<float>(i) * scale, end = static_cast<float>(i + 1) * scale;
    for (auto k = static_cast<int64_t>(std::floor(begin)); k < static_cast<int64_t>(std::ceil(end)); ++k) {
      const auto edge = static_cast<float>(k), next = static_cast<float>(k + 1);
      all.index.push_back(std::clamp<int64_t>(k, 0, in - 1));
      all.part.push_back(edge < begin ? (next > end ? scale : next - begin) : (next > end ? end - edge : 1.0f));
    }
  }
  all.first.push_back(static_cast<int64_t>(all.index.size()));
  return all;
}

class Area {
 public:
  Area(const ResizeAttrs& attrs, const ImageSize& in, const ImageSize& to)
      : height_(Scale(attrs, in.height, to.height)),
        width_(Scale(attrs, in.width, to.width)),
        ys_(Cover(in.height, to.height, height_)),
        xs_(Cover(in.width, to.width, width_)),
        scale_(static_cast<float>(1.0 / (height_ * width_))),
        in_row_(in.width * in.channels),
        channels_(in.channels) {}

  double cost() const {
    return 2.0 * static_cast<double>(xs_.index.size()) * static_cast<double>(channels_) *
           static_cast<double>(ys_.index.size()) / static_cast<double>(ys_.first.size() - 1);
  }
  struct Scratch {
    explicit Scratch(const Area&) {}
  };
  template <class T>
  void Row(const T* image, int64_t y, Scratch*, float* out) const {
    for (size_t x = 0; x + 1 < xs_.first.size(); ++x) {
      for (int64_t c = 0; c < channels_; ++c) {
        float sum = 0;
        for (int64_t j = ys_.first[y]; j < ys_.first[y + 1]; ++j) {
          const T* const row = image + ys_.index[j] * in_row_ + c;
          float of_row = 0;
          for (int64_t i = xs_.first[x]; i < xs_.first[x + 1]; ++i)
            of_row += static_cast<float>(row[xs_.index[i] * channels_]) * xs_.part[i];
          sum += of_row * ys_.part[j];
        }
        *out++ = sum * scale_;
      }
    }
  }

 private:
  // The only row (column), corners aligned, covers each one of the result.
  static float Scale(const ResizeAttrs& attrs, int64_t in, int64_t out) {
    return in == 1 && attrs.align_corners ? 1 : ResizeScale(in, out, attrs);
  }

  const float height_, width_;
  const Covered ys_, xs_;
  const float scale_;
  const int64_t in_row_, channels_;
};

const OpRegistrar area =
    ResizeOp("ResizeArea", "float", false)
        .NotDifferentiable(kNoResizeGradient)
        .Doc(
            "Images [batch, height, width, channels] in another size (height and width): each pixel is the mean of the "
            "area that it covers.\n"
            "align_corners lays the corners onto each other.");
TROUPE_CPU_KERNEL("ResizeArea").HostMemory("size").Class<ResizeToFloat<Area>>();

}  // namespace
}  // namespace troupe::image
