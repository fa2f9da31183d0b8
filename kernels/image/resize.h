// Resizing images: the attrs, the sizes and the arithmetic that all ways of resizing share.
//
// Images are [batch, height, width, channels]. An output pixel i looks at the input at i * scale,
// with scale = in / out; with align_corners at scale = (in - 1) / (out - 1), so that corners meet
// corners; with half_pixel_centers at (i + 0.5) * scale - 0.5, so that pixels have extent.
// Positions are float32, as TensorFlow's are: equal rounding gives equal pixels.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_IMAGE_RESIZE_H_
#define TROUPE_KERNELS_IMAGE_RESIZE_H_

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/common/as_float.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::image {

struct ResizeAttrs {
  // An op without half_pixel_centers has it false. Refuses align_corners together with
  // half_pixel_centers.
  explicit ResizeAttrs(KernelInit& init);
  bool align_corners, half_pixel_centers;
};

struct ImageSize {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
  TensorShape shape() const { return TensorShape({batch, height, width, channels}); }
};
// The images at `input`. INVALID_ARGUMENT unless they have rank 4.
absl::StatusOr<ImageSize> ImagesAt(const KernelContext& ctx, int input);
// `size` (input 1: height and width) for output images of `in`. INVALID_ARGUMENT "input must be
// 4-dimensional", "size must be a vector of two elements", "output dimensions must be positive",
// "input image must be of non-zero size".
absl::StatusOr<ImageSize> ResizedSize(const KernelContext& ctx, const ImageSize& in);

float ResizeScale(int64_t in, int64_t out, const ResizeAttrs& attrs);

// Where each output row (column) lies between two input rows (columns): at lower + lerp.
struct Between {
  int64_t lower, upper;
  float lerp;
};
std::vector<Between> Interpolate(int64_t in, int64_t out, const ResizeAttrs& attrs);
// Which input row (column) each output row (column) is nearest to.
std::vector<int64_t> Nearest(int64_t in, int64_t out, const ResizeAttrs& attrs);

// Shape function: images at input 0, size at input 1.
absl::Status ResizeShape(InferenceContext& c);

// The definition of a way of resizing, whose output is of type `output` ("float" or "T"). Without
// gradient and doc.
OpBuilder ResizeOp(std::string_view name, std::string_view output, bool half_pixel_centers = true);
// The definition of the gradient of ways of resizing to float, for these types of the images.
// Without doc.
OpBuilder ResizeGradOp(std::string_view name, std::string_view types);
// The attrs that a way of resizing and its gradient share.
AttrMap ResizeAttrMap(GradientContext& g);
inline constexpr char kNoResizeGradient[] = "TensorFlow defines no gradient for it";

// Of gradients with inputs (grads, original_image): the shape function, and INVALID_ARGUMENT when
// they differ in batch or channels.
absl::Status ResizeGradShape(InferenceContext& c);
absl::Status CheckResizeGrad(const KernelContext& ctx, const ImageSize& from, const ImageSize& to);

// The kernel of a way of resizing to float.
//
//   struct Way {
//     Way(const ResizeAttrs& attrs, const ImageSize& in, const ImageSize& to);  // not empty
//     double cost() const;  // of an output row
//     struct Scratch {};    // made from the way by each thread for the rows that it computes
//     template <class T>
//     void Row(const T* image, int64_t y, Scratch* scratch, float* out) const;  // output row y
//   };
template <class Way>
class ResizeToFloat {
 public:
  explicit ResizeToFloat(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, in));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, to.shape()));
    // No images or no channels, but perhaps very many rows.
    if (out->num_elements() == 0) return absl::OkStatus();
    const Way way(attrs_, in, to);
    const Tensor& images = ctx.input(0);
    VisitNumeric(images.dtype(), false, [&]<class T>() {
      if constexpr (requires(T v) { static_cast<float>(v); }) {
        const int64_t image = in.height * in.width * in.channels, out_row = to.width * to.channels;
        ctx.threads()->ParallelFor(to.batch * to.height, way.cost(), [&](int64_t begin, int64_t end) {
          typename Way::Scratch scratch(way);
          for (int64_t row = begin; row < end; ++row) {
            way.Row(images.data<T>() + row / to.height * image, row % to.height, &scratch,
                    out->data<float>() + row * out_row);
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

// The kernel of its gradient: input 0 are gradients in float, input 1 the original images.
//
//   template <class T>
//   void Way::Spread(const float* grad, T* image) const;  // adds to an image of float or double
//   double Way::spread_cost() const;                      // of an image
template <class Way>
class ResizeToFloatGrad {
 public:
  explicit ResizeToFloatGrad(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize from, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ImagesAt(ctx, 1));
    TROUPE_RETURN_IF_ERROR(CheckResizeGrad(ctx, from, to));
    const DType type = ctx.output_type(0);
    TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(ComputeType(type), ctx.input(1).shape()));
    std::memset(out.raw(), 0, out.bytes());
    if (out.num_elements() > 0 && ctx.input(0).num_elements() > 0) {
      const Way way(attrs_, to, from);
      const int64_t grads = from.height * from.width * from.channels, pixels = to.height * to.width * to.channels;
      ctx.threads()->ParallelFor(to.batch, way.spread_cost(), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const float* grad = ctx.input(0).data<float>() + b * grads;
          if (out.dtype() == DType::kDouble) {
            way.Spread(grad, out.data<double>() + b * pixels);
          } else {
            way.Spread(grad, out.data<float>() + b * pixels);
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

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_RESIZE_H_
