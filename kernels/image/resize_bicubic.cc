// ResizeBicubic: images of another size, each pixel mixed of the sixteen nearest of the input; and
// ResizeBicubicGrad, which shares each pixel of the gradient among them.
//
// The cubic is a table of 1024 steps, as in TensorFlow: with a = -0.75, and -0.5 (Keys) with
// half_pixel_centers. A neighbour beyond the edge is the edge itself; with half_pixel_centers it
// has no weight, and the others are scaled to a sum of 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/elementwise/elementwise.h"
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

// One row of the output of four rows of the input.
template <class T>
void MixRow(const T* image, int64_t in_row, const CubicPoint& y, const std::vector<CubicPoint>& xs, int64_t channels,
            float* out) {
  const T* rows[4];
  for (int k = 0; k < 4; ++k) rows[k] = image + y.index[k] * in_row;
  for (const CubicPoint& x : xs) {
    for (int64_t c = 0; c < channels; ++c) {
      float column[4];
      for (int k = 0; k < 4; ++k) {
        const int64_t at = x.index[k] * channels + c;
        column[k] = static_cast<float>(rows[0][at]) * y.weight[0] + static_cast<float>(rows[1][at]) * y.weight[1] +
                    static_cast<float>(rows[2][at]) * y.weight[2] + static_cast<float>(rows[3][at]) * y.weight[3];
      }
      *out++ = column[0] * x.weight[0] + column[1] * x.weight[1] + column[2] * x.weight[2] + column[3] * x.weight[3];
    }
  }
}

class ResizeBicubic {
 public:
  explicit ResizeBicubic(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, in));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out,
                            ctx.AllocateOutput(0, TensorShape({to.batch, to.height, to.width, to.channels})));
    // No images or no channels, but perhaps very many rows.
    if (out->num_elements() == 0) return absl::OkStatus();
    const std::vector<CubicPoint> ys = CubicPoints(in.height, to.height, attrs_),
                                  xs = CubicPoints(in.width, to.width, attrs_);
    const Tensor& images = ctx.input(0);
    VisitNumeric(images.dtype(), false, [&]<class T>() {
      if constexpr (requires(T v) { static_cast<float>(v); }) {
        const int64_t in_row = in.width * in.channels, out_row = to.width * to.channels;
        ctx.threads()->ParallelFor(to.batch * to.height, 10.0 * static_cast<double>(out_row),
                                   [&](int64_t begin, int64_t end) {
                                     for (int64_t row = begin; row < end; ++row) {
                                       MixRow(images.data<T>() + row / to.height * in.height * in_row, in_row,
                                              ys[row % to.height], xs, in.channels, out->data<float>() + row * out_row);
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

TROUPE_OP("ResizeBicubic")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: float")
    .Attr("T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .Gradient([](GradientContext& g) {
      if (g.input_type(0) != DType::kFloat && g.input_type(0) != DType::kDouble) return absl::OkStatus();
      g.Set(0, g.Op("ResizeBicubicGrad", {g.Grad(0), g.Input(0)},
                    {{"align_corners", g.Attr<bool>("align_corners")},
                     {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}}));
      return g.status();
    })
    .Doc(
        "Images [batch, height, width, channels] in another size (height and width), by cubic interpolation in both "
        "directions.\n"
        "align_corners lays the corners onto each other, half_pixel_centers the edges.");
TROUPE_KERNEL("ResizeBicubic").Device("CPU").Types("T", math::kReals).HostMemory("size").Class<ResizeBicubic>();

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
