// ResizeNearestNeighbor: images of another size, each pixel a copy of the nearest of the input; and
// ResizeNearestNeighborGrad, which adds each pixel of the gradient to the one it was copied from.
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

template <size_t kBytes>
void CopyPixelsOf(const char* from, const std::vector<int64_t>& xs, char* to) {
  for (const int64_t x : xs) {
    std::memcpy(to, from + static_cast<size_t>(x) * kBytes, kBytes);
    to += kBytes;
  }
}
// Pixels `xs` of a row, each of `bytes`. A copy of known length is a move or two.
void CopyPixels(const char* from, const std::vector<int64_t>& xs, size_t bytes, char* to) {
  switch (bytes) {
    case 1:
      return CopyPixelsOf<1>(from, xs, to);
    case 2:
      return CopyPixelsOf<2>(from, xs, to);
    case 3:
      return CopyPixelsOf<3>(from, xs, to);
    case 4:
      return CopyPixelsOf<4>(from, xs, to);
    case 6:
      return CopyPixelsOf<6>(from, xs, to);
    case 8:
      return CopyPixelsOf<8>(from, xs, to);
    case 12:
      return CopyPixelsOf<12>(from, xs, to);
    case 16:
      return CopyPixelsOf<16>(from, xs, to);
    default:
      for (const int64_t x : xs) {
        std::memcpy(to, from + static_cast<size_t>(x) * bytes, bytes);
        to += bytes;
      }
  }
}

class ResizeNearestNeighbor {
 public:
  explicit ResizeNearestNeighbor(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, in));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, to.shape()));
    // No images or no channels, but perhaps very many rows.
    if (out->num_elements() == 0) return absl::OkStatus();
    const std::vector<int64_t> ys = Nearest(in.height, to.height, attrs_), xs = Nearest(in.width, to.width, attrs_);
    const Tensor& images = ctx.input(0);
    const size_t pixel = SizeOf(images.dtype()) * static_cast<size_t>(in.channels);
    const size_t in_row = pixel * static_cast<size_t>(in.width), out_row = pixel * xs.size();
    const auto* const from = static_cast<const char*>(images.raw());
    auto* const to_rows = static_cast<char*>(out->raw());
    const double cost = 0.5 * static_cast<double>(xs.size()) + 0.05 * static_cast<double>(out_row);
    ctx.threads()->ParallelFor(to.batch * to.height, cost, [&](int64_t begin, int64_t end) {
      const char* copied = nullptr;
      for (int64_t row = begin; row < end; ++row) {
        const char* const source =
            from + static_cast<size_t>(row / to.height * in.height + ys[row % to.height]) * in_row;
        char* const target = to_rows + static_cast<size_t>(row) * out_row;
        if (source == copied) {
          std::memcpy(target, target - out_row, out_row);
        } else {
          CopyPixels(source, xs, pixel, target);
        }
        copied = source;
      }
    });
    return absl::OkStatus();
  }

 private:
  const ResizeAttrs attrs_;
};

absl::Status ResizeNearestNeighborGradient(GradientContext& g) {
  const auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
  const NodeOut size = g.Op("StridedSlice", {g.Op("Shape", {g.Input(0)}), ints({1}), ints({3}), ints({1})});
  g.Set(0, g.Op("ResizeNearestNeighborGrad", {g.Grad(0), size}, ResizeAttrMap(g)));
  return g.status();
}

const OpRegistrar nearest =
    ResizeOp("ResizeNearestNeighbor", "T")
        .Gradient(ResizeNearestNeighborGradient)
        .Doc(
            "Images [batch, height, width, channels] in another size (height and width), by copying the nearest pixel. "
            "align_corners lays\n"
            "the corners onto each other, half_pixel_centers the edges.");
TROUPE_CPU_KERNEL("ResizeNearestNeighbor").HostMemory("size").Class<ResizeNearestNeighbor>();

class ResizeNearestNeighborGrad {
 public:
  explicit ResizeNearestNeighborGrad(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize from, ImagesAt(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const ImageSize to, ResizedSize(ctx, from));
    const DType type = ctx.output_type(0);
    TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(ComputeType(type), to.shape()));
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
    .NotDifferentiable(kNoResizeGradient)
    .Doc("The gradient of ResizeNearestNeighbor's images, whose height and width are `size`.");
TROUPE_CPU_KERNEL("ResizeNearestNeighborGrad").HostMemory("size").Class<ResizeNearestNeighborGrad>();

}  // namespace
}  // namespace troupe::image
