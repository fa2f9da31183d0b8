// ResizeNearestNeighborGrad: each pixel of the gradient, added to the pixel that it was copied
// from.
#include "kernels/common/as_float.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

class ResizeNearestNeighborGrad {
 public:
  explicit ResizeNearestNeighborGrad(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize from, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, from));
    const DType type = ctx.output_type(0);
    TROUPE_ASSIGN_OR_RETURN(
        Tensor out, ctx.AllocateTemp(ComputeType(type), TensorShape({to.batch, to.height, to.width, to.channels})));
    std::memset(out.raw(), 0, out.bytes());
    const Tensor grads = Widened(ctx, ctx.input(0));
    const bool none = grads.num_elements() == 0 || out.num_elements() == 0;
    const std::vector<int64_t> ys = Nearest(to.height, none ? 0 : from.height, attrs_),
                               xs = Nearest(to.width, none ? 0 : from.width, attrs_);
    VisitNumeric(out.dtype(), false, [&]<class T>() {
      const int64_t all = from.height * from.width * from.channels;
      ctx.threads()->ParallelFor(to.batch, static_cast<double>(all), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const T* grad = grads.data<T>() + b * all;
          T* const image = out.data<T>() + b * to.height * to.width * to.channels;
          for (const int64_t y : ys) {
            for (const int64_t x : xs) {
              T* const pixel = image + (y * to.width + x) * to.channels;
              for (int64_t c = 0; c < to.channels; ++c) pixel[c] = static_cast<T>(pixel[c] + *grad++);
            }
          }
        }
      });
      return true;
    });
    ctx.set_output(0, Narrowed(ctx, std::move(out), type));
    return absl::OkStatus();
  }

 private:
  const ResizeAttrs attrs_;
};

TROUPE_OP("ResizeNearestNeighborGrad")
    .Input("grads: T")
    .Input("size: int32")
    .Output("output: T")
    .Attr("T: {uint8, int8, int32, half, float, double, bfloat16}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of ResizeNearestNeighbor's images, whose height and width are `size`.");
TROUPE_KERNEL("ResizeNearestNeighborGrad")
    .Device("CPU")
    .Types("T", math::kReals)
    .HostMemory("size")
    .Class<ResizeNearestNeighborGrad>();

}  // namespace
}  // namespace troupe::image
