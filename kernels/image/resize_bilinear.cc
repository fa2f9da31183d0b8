// ResizeBilinear: images of another size, each pixel mixed of the four nearest of the input; and
// ResizeBilinearGrad, which shares each pixel of the gradient among them.
#include <cstring>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/common/types.h"
#include "kernels/image/resize.h"
#include "kernels/image/resize_loops.h"

TROUPE_ISA_TABLE(ResizeLoops, kResize, PickResize)

namespace troupe::image {
namespace {

class Bilinear {
 public:
  Bilinear(const ResizeAttrs& attrs, const ImageSize& in, const ImageSize& to)
      : ys_(Interpolate(in.height, to.height, attrs)),
        xs_(Interpolate(in.width, to.width, attrs)),
        in_row_(in.width * in.channels),
        channels_(in.channels),
        // Where most columns of the input are passed over, only the others are made floats.
        sparse_(in.width > 4 * to.width) {
    taps_.reserve(xs_.size());
    for (const Between& x : xs_) {
      const int64_t at = static_cast<int64_t>(taps_.size()) * 2;
      taps_.push_back({(sparse_ ? at : x.lower) * channels_, (sparse_ ? at + 1 : x.upper) * channels_, x.lerp});
    }
  }

  // The rows of the input that were mixed last: output rows side by side often need the same.
  struct Scratch {
    explicit Scratch(const Bilinear& b)
        : row((b.sparse_ ? 2 * b.out_row() : b.in_row_) + kRowMargin),
          mixed{std::vector<float>(b.out_row() + kRowMargin), std::vector<float>(b.out_row() + kRowMargin)} {}
    std::vector<float> row;
    std::vector<float> mixed[2];
    const void* of[2] = {nullptr, nullptr};
  };

  double cost() const { return 0.6 * static_cast<double>(out_row()) + 0.1 * static_cast<double>(in_row_); }
  template <class T>
  void Row(const T* image, int64_t y, Scratch* scratch, float* out) const {
    const T* const top = image + ys_[y].lower * in_row_;
    const T* const bottom = image + ys_[y].upper * in_row_;
    const float* const above = Mixed(top, bottom, scratch);
    loops_.mix_rows(above, Mixed(bottom, top, scratch), ys_[y].lerp, out, out_row());
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

  // The output columns of this row of the input. `other` stays in the scratch if it is there.
  template <class T>
  const float* Mixed(const T* row, const T* other, Scratch* s) const {
    for (int i = 0; i < 2; ++i) {
      if (s->of[i] == row) return s->mixed[i].data();
    }
    const int i = s->of[0] == other ? 1 : 0;
    s->of[i] = row;
    loops_.mix_columns(Floats(row, s->row.data()), taps_.data(), static_cast<int64_t>(taps_.size()), channels_,
                       s->mixed[i].data());
    return s->mixed[i].data();
  }
  // The row as floats with a margin, or those of its pixels that count.
  template <class T>
  const float* Floats(const T* row, float* room) const {
    if (sparse_) {
      float* to = room;
      for (const Between& x : xs_) {
        for (const int64_t at : {x.lower, x.upper}) {
          for (int64_t c = 0; c < channels_; ++c) *to++ = static_cast<float>(row[at * channels_ + c]);
        }
      }
    } else if constexpr (std::is_same_v<T, float>) {
      if (channels_ != 3) return row;
      std::memcpy(room, row, static_cast<size_t>(in_row_) * sizeof(float));
    } else if constexpr (std::is_same_v<T, uint8_t>) {
      loops_.from_bytes(row, room, in_row_);
    } else {
      for (int64_t i = 0; i < in_row_; ++i) room[i] = static_cast<float>(row[i]);
    }
    return room;
  }

  const std::vector<Between> ys_, xs_;
  const int64_t in_row_, channels_;
  const bool sparse_;
  std::vector<ColumnTap> taps_;
  const ResizeLoops& loops_ = PickResize();
};

const OpRegistrar bilinear = ResizeOp("ResizeBilinear", "float")
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

const OpRegistrar bilinear_grad =
    ResizeGradOp("ResizeBilinearGrad", "{float, bfloat16, half, double}")
        .Doc("The gradient of ResizeBilinear's images; of original_image only type and shape count.");
TROUPE_CPU_KERNEL("ResizeBilinearGrad").Class<ResizeToFloatGrad<Bilinear>>();

}  // namespace
}  // namespace troupe::image
