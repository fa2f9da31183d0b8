// ResizeBicubic: images of another size, each pixel mixed of the sixteen nearest of the input.
#include "kernels/elementwise/elementwise.h"
#include "kernels/image/bicubic.h"

namespace troupe::image {
namespace {

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

}  // namespace
}  // namespace troupe::image
