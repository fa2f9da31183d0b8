// ResizeNearestNeighbor: images of another size, each pixel a copy of the nearest of the input.
#include <algorithm>

#include "kernels/common/elements.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

class ResizeNearestNeighbor {
 public:
  explicit ResizeNearestNeighbor(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, in));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out,
                            ctx.AllocateOutput(0, TensorShape({to.batch, to.height, to.width, to.channels})));
    // No images or no channels, but perhaps very many rows.
    if (out->num_elements() == 0) return absl::OkStatus();
    const std::vector<int64_t> ys = Nearest(in.height, to.height, attrs_), xs = Nearest(in.width, to.width, attrs_);
    const Tensor& images = ctx.input(0);
    array::VisitElement(images.dtype(), false, [&]<class E>() {
      const E* from = static_cast<const E*>(images.raw());
      E* const pixels = static_cast<E*>(out->raw());
      ctx.threads()->ParallelFor(
          to.batch * to.height, 0.5 * static_cast<double>(to.width * to.channels), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
              const E* source = from + (row / to.height * in.height + ys[row % to.height]) * in.width * in.channels;
              E* target = pixels + row * to.width * to.channels;
              for (const int64_t x : xs) target = std::copy_n(source + x * in.channels, in.channels, target);
            }
          });
      return true;
    });
    return absl::OkStatus();
  }

 private:
  const ResizeAttrs attrs_;
};

absl::Status Gradient(GradientContext& g) {
  const auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
  const NodeOut size = g.Op("StridedSlice", {g.Op("Shape", {g.Input(0)}), ints({1}), ints({3}), ints({1})});
  g.Set(0, g.Op("ResizeNearestNeighborGrad", {g.Grad(0), size},
                {{"align_corners", g.Attr<bool>("align_corners")},
                 {"half_pixel_centers", g.Attr<bool>("half_pixel_centers")}}));
  return g.status();
}

TROUPE_OP("ResizeNearestNeighbor")
    .Input("images: T")
    .Input("size: int32")
    .Output("resized_images: T")
    .Attr("T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}")
    .Attr("align_corners: bool = false")
    .Attr("half_pixel_centers: bool = false")
    .Shape(ResizeShape)
    .Gradient(Gradient)
    .Doc(
        "Images [batch, height, width, channels] in another size (height and width), by copying the nearest pixel. "
        "align_corners lays\n"
        "the corners onto each other, half_pixel_centers the edges.");
TROUPE_KERNEL("ResizeNearestNeighbor")
    .Device("CPU")
    .Types("T", math::kReals)
    .HostMemory("size")
    .Class<ResizeNearestNeighbor>();

}  // namespace
}  // namespace troupe::image
