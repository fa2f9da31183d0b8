// ResizeArea: images of another size, each pixel the mean of the part of the input that it covers.
#include <algorithm>
#include <cmath>

#include "kernels/elementwise/elementwise.h"
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

template <class T>
void SumRow(const T* image, const Covered& ys, int64_t y, const Covered& xs, int64_t in_row, int64_t channels,
            float scale, float* out) {
  for (size_t x = 0; x + 1 < xs.first.size(); ++x) {
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int64_t j = ys.first[y]; j < ys.first[y + 1]; ++j) {
        const T* const row = image + ys.index[j] * in_row + c;
        float of_row = 0;
        for (int64_t i = xs.first[x]; i < xs.first[x + 1]; ++i)
          of_row += static_cast<float>(row[xs.index[i] * channels]) * xs.part[i];
        sum += of_row * ys.part[j];
      }
      *out++ = sum * scale;
    }
  }
}

class ResizeArea {
 public:
  explicit ResizeArea(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, in));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out,
                            ctx.AllocateOutput(0, TensorShape({to.batch, to.height, to.width, to.channels})));
    // No images or no channels, but perhaps very many rows.
    if (out->num_elements() == 0) return absl::OkStatus();
    const float height = Scale(in.height, to.height), width = Scale(in.width, to.width);
    const Covered ys = Cover(in.height, to.height, height), xs = Cover(in.width, to.width, width);
    const auto scale = static_cast<float>(1.0 / (height * width));
    const Tensor& images = ctx.input(0);
    VisitNumeric(images.dtype(), false, [&]<class T>() {
      if constexpr (requires(T v) { static_cast<float>(v); }) {
        const int64_t in_row = in.width * in.channels, out_row = to.width * to.channels;
        const double cost = 2.0 * static_cast<double>(xs.index.size()) * static_cast<double>(in.channels) *
                            static_cast<double>(ys.index.size()) / static_cast<double>(to.height);
        ctx.threads()->ParallelFor(to.batch * to.height, cost, [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row) {
            SumRow(images.data<T>() + row / to.height * in.height * in_row, ys, row % to.height, xs, in_row,
                   in.channels, scale, out->data<float>() + row * out_row);
          }
        });
      }
      return true;
    });
    return absl::OkStatus();
  }

 private:
  // The only row (column), corners aligned, covers each one of the result.
  float Scale(int64_t in, int64_t out) const {
    return in == 1 && attrs_.align_corners ? 1 : ResizeScale(in, out, attrs_);
  }

  const ResizeAttrs attrs_;
};

TROUPE_OP("ResizeArea")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr("T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}")
    .Attr("align_corners: bool = false")
    .Shape(ResizeShape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc(
        "Images [batch, height, width, channels] in another size (height and width): each pixel is the mean of the "
        "area "
        "that it covers.\n"
        "align_corners lays the corners onto each other.");
TROUPE_KERNEL("ResizeArea").Device("CPU").Types("T", math::kReals).HostMemory("size").Class<ResizeArea>();

}  // namespace
}  // namespace troupe::image
