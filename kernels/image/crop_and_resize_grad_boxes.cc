// CropAndResizeGradBoxes: how crops change when the sides of their boxes are moved.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/image/crops.h"

namespace troupe::image {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 4).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 4).status());
  TROUPE_RETURN_IF_ERROR(CountBoxes(c, 2).status());
  c.set_output(0, c.input(2));
  return absl::OkStatus();
}

// Of a crop's points along one axis: how far apart they are when the box is as long as the image.
float Ratio(int64_t points, int64_t size) {
  return points > 1 ? static_cast<float>(size - 1) / static_cast<float>(points - 1) : 0;
}
std::vector<CropPoint> Points(float begin, float end, int64_t points, int64_t size) {
  return CropPoints(begin, end, (end - begin) * Ratio(points, size), points, size);
}

// Adds to a side of the box and the one opposite what point i of their axis gives.
void AddToSides(float grad, int64_t i, int64_t points, int64_t size, float* side, float* opposite) {
  const auto last = static_cast<float>(size - 1);
  if (points > 1) {
    const float far = static_cast<float>(i) * Ratio(points, size);
    *side += grad * (last - far);
    *opposite += grad * far;
  } else {
    *side += grad * 0.5f * last;
    *opposite += grad * 0.5f * last;
  }
}

template <class T>
void Slopes(const float* grad, const T* image, const ImageSize& in, const ImageSize& crop, const float* box,
            float* out) {
  const int64_t row = in.width * in.channels;
  const std::vector<CropPoint> ys = Points(box[0], box[2], crop.height, in.height),
                               xs = Points(box[1], box[3], crop.width, in.width);
  std::fill_n(out, 4, 0.0f);
  for (int64_t j = 0; j < crop.height; ++j) {
    const CropPoint& y = ys[j];
    const T *top = image + y.lower * row, *bottom = image + y.upper * row;
    for (int64_t i = 0; i < crop.width; ++i, grad += crop.channels) {
      const CropPoint& x = xs[i];
      if (!y.inside || !x.inside) continue;
      const int64_t left = x.lower * in.channels, right = x.upper * in.channels;
      for (int64_t c = 0; c < in.channels; ++c) {
        const auto tl = static_cast<float>(top[left + c]), tr = static_cast<float>(top[right + c]);
        const auto bl = static_cast<float>(bottom[left + c]), br = static_cast<float>(bottom[right + c]);
        const float down = (1 - x.lerp) * (bl - tl) + x.lerp * (br - tr);
        const float across = (1 - y.lerp) * (tr - tl) + y.lerp * (br - bl);
        AddToSides(down * grad[c], j, crop.height, in.height, out, out + 2);
        AddToSides(across * grad[c], i, crop.width, in.width, out + 1, out + 3);
      }
    }
  }
}

absl::Status Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const ImageSize crop, ImagesAt(ctx, 0));
  TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 1));
  if (crop.height <= 0 || crop.width <= 0)
    return InvalidArgument("grads dimensions must be positive, got ", crop.height, " x ", crop.width);
  if (in.height <= 0 || in.width <= 0)
    return InvalidArgument("image dimensions must be positive, got ", in.height, " x ", in.width);
  TROUPE_ASSIGN_OR_RETURN(const Boxes boxes, BoxesAt(ctx, 2, in.batch));
  if (crop.batch != boxes.count || crop.channels != in.channels) {
    return InvalidArgument("grads of shape ", ctx.input(0).shape().DebugString(), " are not those of ", boxes.count,
                           " boxes of images ", ctx.input(1).shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, TensorShape({boxes.count, 4})));
  if (ctx.input(0).num_elements() == 0) {
    std::memset(out->raw(), 0, out->bytes());
    return absl::OkStatus();
  }
  const Tensor& images = ctx.input(1);
  VisitNumeric(images.dtype(), false, [&]<class T>() {
    if constexpr (requires(T v) { static_cast<float>(v); }) {
      const int64_t points = crop.height * crop.width * crop.channels, image = in.height * in.width * in.channels;
      ctx.threads()->ParallelFor(boxes.count, 5.0 * static_cast<double>(points), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          Slopes(ctx.input(0).data<float>() + b * points, images.data<T>() + boxes.images[b] * image, in, crop,
                 boxes.corners + 4 * b, out->data<float>() + 4 * b);
        }
      });
    }
    return true;
  });
  return absl::OkStatus();
}

TROUPE_OP("CropAndResizeGradBoxes")
    .Input("grads: float")
    .Input("image: T")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Output("output: float")
    .Attr("T: {uint8, uint16, int8, int16, int32, int64, half, float, double}")
    .Attr("method: {'bilinear'} = 'bilinear'")
    .Shape(Shape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of CropAndResize's boxes, for the method bilinear.");
TROUPE_KERNEL("CropAndResizeGradBoxes").Device("CPU").Types("T", math::kReals).Function<Compute>();

}  // namespace
}  // namespace troupe::image
