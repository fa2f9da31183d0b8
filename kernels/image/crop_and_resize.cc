// CropAndResize: boxes cut out of images, each resized to one size.
#include "kernels/image/crops.h"

#include <algorithm>

#include "kernels/elementwise/elementwise.h"

namespace troupe::image {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape images, c.WithRank(0, 4));
  TROUPE_ASSIGN_OR_RETURN(const int64_t boxes, CountBoxes(c, 1));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape size, c.WithRank(3, 1));
  if (size.known_rank()) TROUPE_RETURN_IF_ERROR(MergeDims(size.dim(0), 2).status());
  PartialTensorShape out = PartialTensorShape::OfRank(4);
  out.set_dim(0, boxes);
  if (const Tensor* value = c.input_tensor(3); value != nullptr && value->num_elements() == 2) {
    for (int i = 0; i < 2; ++i) {
      if (value->data<int32_t>()[i] < 0)
        return InvalidArgument("crop dimensions must be positive, got ", value->data<int32_t>()[i]);
      out.set_dim(1 + i, value->data<int32_t>()[i]);
    }
  }
  if (images.known_rank()) out.set_dim(3, images.dim(3));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

// Nothing flows to images of integers.
absl::Status Gradient(GradientContext& g) {
  const NodeOut boxes = g.Input(1), images = g.Input(2);
  if (IsFloating(g.input_type(0))) {
    g.Set(0, g.Op("CropAndResizeGradImage", {g.Grad(0), boxes, images, g.Op("Shape", {g.Input(0)})},
                  {{"T", g.input_type(0)}, {"method", g.Attr<std::string>("method")}}));
  }
  g.Set(1, g.Op("CropAndResizeGradBoxes", {g.Grad(0), g.Input(0), boxes, images}));
  return g.status();
}

class CropAndResize {
 public:
  explicit CropAndResize(KernelInit& init)
      : nearest_(init.Attr<std::string>("method") == "nearest"), outside_(init.Attr<float>("extrapolation_value")) {}

  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize in, ImagesAt(ctx, 0));
    if (in.height <= 0 || in.width <= 0)
      return InvalidArgument("image dimensions must be positive, got ", in.height, " x ", in.width);
    TROUPE_ASSIGN_OR_RETURN(const Boxes boxes, BoxesAt(ctx, 1, in.batch));
    const Tensor& size = ctx.input(3);
    if (size.rank() != 1 || size.dim(0) != 2)
      return InvalidArgument("crop_size must be a vector of two elements, got shape ", size.shape().DebugString());
    const int64_t height = size.data<int32_t>()[0], width = size.data<int32_t>()[1];
    if (height <= 0 || width <= 0)
      return InvalidArgument("crop dimensions must be positive, got ", height, " x ", width);
    const int64_t dims[] = {boxes.count, height, width, in.channels};
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return absl::OkStatus();
    const Tensor& images = ctx.input(0);
    VisitNumeric(images.dtype(), false, [&]<class T>() {
      if constexpr (requires(T v) { static_cast<float>(v); }) {
        const int64_t pixels = height * width * in.channels, image = in.height * in.width * in.channels;
        ctx.threads()->ParallelFor(boxes.count, 2.0 * static_cast<double>(pixels), [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) {
            const float* box = boxes.corners + 4 * b;
            Cut(images.data<T>() + boxes.images[b] * image, in,
                CropPoints(box[0], box[2], CropStep(box[0], box[2], height, in.height), height, in.height),
                CropPoints(box[1], box[3], CropStep(box[1], box[3], width, in.width), width, in.width),
                out->data<float>() + b * pixels);
          }
        });
      }
      return true;
    });
    return absl::OkStatus();
  }

 private:
  template <class T>
  void Cut(const T* image, const ImageSize& in, const std::vector<CropPoint>& ys, const std::vector<CropPoint>& xs,
           float* out) const {
    const int64_t row = in.width * in.channels;
    for (const CropPoint& y : ys) {
      const T *top = image + y.lower * row, *bottom = image + y.upper * row, *middle = image + y.nearest * row;
      for (const CropPoint& x : xs) {
        const int64_t left = x.lower * in.channels, right = x.upper * in.channels;
        if (!y.inside || !x.inside) {
          std::fill_n(out, in.channels, outside_);
        } else if (nearest_) {
          for (int64_t c = 0; c < in.channels; ++c) out[c] = static_cast<float>(middle[x.nearest * in.channels + c]);
        } else {
          for (int64_t c = 0; c < in.channels; ++c) {
            const auto tl = static_cast<float>(top[left + c]), tr = static_cast<float>(top[right + c]);
            const auto bl = static_cast<float>(bottom[left + c]), br = static_cast<float>(bottom[right + c]);
            const float above = tl + (tr - tl) * x.lerp, below = bl + (br - bl) * x.lerp;
            out[c] = above + (below - above) * y.lerp;
          }
        }
        out += in.channels;
      }
    }
  }

  const bool nearest_;
  const float outside_;
};

TROUPE_OP("CropAndResize")
    .Input("image: T")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Input("crop_size: int32")
    .Output("crops: float")
    .Attr("T: {uint8, uint16, int8, int16, int32, int64, half, float, double}")
    .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
    .Attr("extrapolation_value: float = 0")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "Boxes [y1, x1, y2, x2] (0 and 1 are the first and the last row or column) cut out of the images that box_ind "
        "names, and resized\n"
        "to crop_size, height and width. What lies outside of the image is extrapolation_value.");
TROUPE_KERNEL("CropAndResize").Device("CPU").Types("T", math::kReals).HostMemory("crop_size").Class<CropAndResize>();

}  // namespace
}  // namespace troupe::image
