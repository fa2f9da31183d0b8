// CropAndResize: cuts boxes out of images and resizes each cut; and its gradients with respect to
// images and boxes.
//
// A box is [y1, x1, y2, x2], as parts of the image's extent: 0 is the middle of its first row
// (column), 1 that of the last. A crop's points are spread evenly from one side of the box to the
// other; a crop that is one point high (wide) looks at the middle. y2 < y1 turns the cut upside
// down. Points outside of the image have no value. Positions are float32, as TensorFlow's are:
// equal rounding gives equal points.
//
// Thread rule: pure functions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/common/types.h"
#include "kernels/image/resize.h"

namespace troupe::image {
namespace {

struct Boxes {
  const float* corners = nullptr;   // four numbers a box
  const int32_t* images = nullptr;  // which image it is cut out of
  int64_t count = 0;
};

struct CropPoint {
  bool inside = false;
  int64_t lower = 0, upper = 0, nearest = 0;  // the rows (columns) beside it
  float lerp = 0;                             // how far it is from `lower`
};

// Boxes at `input` and their images' numbers behind them, for `batch` images. INVALID_ARGUMENT
// "boxes must be 2-D with 4 columns", "box_index has incompatible shape", OUT_OF_RANGE "box_index
// has values outside [0, batch_size)".
absl::StatusOr<Boxes> BoxesAt(const KernelContext& ctx, int input, int64_t batch) {
  const Tensor &corners = ctx.input(input), &images = ctx.input(input + 1);
  if (corners.num_elements() == 0 && images.num_elements() == 0) return Boxes();
  if (corners.rank() != 2 || corners.dim(1) != 4)
    return InvalidArgument("boxes must be 2-D with 4 columns, got shape ", corners.shape().DebugString());
  if (images.rank() != 1 || images.dim(0) != corners.dim(0)) {
    return InvalidArgument("box_index has incompatible shape: ", images.shape().DebugString(), " for boxes ",
                           corners.shape().DebugString());
  }
  const Boxes boxes = {corners.data<float>(), images.data<int32_t>(), images.dim(0)};
  if (std::any_of(boxes.images, boxes.images + boxes.count, [batch](int32_t i) { return i < 0 || i >= batch; }))
    return OutOfRange("box_index has values outside [0, batch_size)");
  return boxes;
}

// How far apart the points are, in rows (columns) of an image of `size`; 0 for one point.
float CropStep(float begin, float end, int64_t points, int64_t size) {
  return points > 1 ? (end - begin) * static_cast<float>(size - 1) / static_cast<float>(points - 1) : 0;
}

std::vector<CropPoint> CropPoints(float begin, float end, float step, int64_t points, int64_t size) {
  std::vector<CropPoint> all(points);
  const auto last = static_cast<float>(size - 1);
  for (int64_t i = 0; i < points; ++i) {
    const float at =
        points > 1 ? begin * last + static_cast<float>(i) * step : static_cast<float>(0.5 * (begin + end) * last);
    // Written so that a position that is no number is outside.
    if (!(at >= 0 && at <= last)) continue;
    const float floor = std::floor(at);
    all[i] = {true, static_cast<int64_t>(floor), static_cast<int64_t>(std::ceil(at)),
              static_cast<int64_t>(std::round(at)), at - floor};
  }
  return all;
}

// Shape functions check by this: boxes at `input`, their images' numbers behind them. How many
// there are, -1 when that is unknown.
absl::StatusOr<int64_t> CountBoxes(InferenceContext& c, int input) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape boxes, c.WithRank(input, 2));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape images, c.WithRank(input + 1, 1));
  if (!boxes.known_rank()) return images.known_rank() ? images.dim(0) : -1;
  TROUPE_RETURN_IF_ERROR(MergeDims(boxes.dim(1), 4).status());
  return images.known_rank() ? MergeDims(boxes.dim(0), images.dim(0)) : boxes.dim(0);
}

absl::Status CropAndResizeShape(InferenceContext& c) {
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
absl::Status CropAndResizeGradient(GradientContext& g) {
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
    .Shape(CropAndResizeShape)
    .Gradient(CropAndResizeGradient)
    .Doc(
        "Boxes [y1, x1, y2, x2] (0 and 1 are the first and the last row or column) cut out of the images that box_ind "
        "names, and resized\n"
        "to crop_size, height and width. What lies outside of the image is extrapolation_value.");
TROUPE_KERNEL("CropAndResize").Device("CPU").Types("T", kReals).HostMemory("crop_size").Class<CropAndResize>();

absl::Status CropAndResizeGradImageShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(3));
  TROUPE_ASSIGN_OR_RETURN(out, out.MergeWith(PartialTensorShape::OfRank(4)));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

class CropAndResizeGradImage {
 public:
  explicit CropAndResizeGradImage(KernelInit& init) : nearest_(init.Attr<std::string>("method") == "nearest") {}

  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const ImageSize crop, ImagesAt(ctx, 0));
    const Tensor& size = ctx.input(3);
    if (size.rank() != 1 || size.dim(0) != 4)
      return InvalidArgument("image_size must be a vector of four elements, got shape ", size.shape().DebugString());
    const int32_t* const to = size.data<int32_t>();
    const int64_t dims[] = {to[0], to[1], to[2], to[3]};
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    if (to[1] <= 0 || to[2] <= 0)
      return InvalidArgument("image dimensions must be positive, got ", to[1], " x ", to[2]);
    TROUPE_ASSIGN_OR_RETURN(const Boxes boxes, BoxesAt(ctx, 1, to[0]));
    if (crop.batch != boxes.count || crop.channels != to[3]) {
      return InvalidArgument("grads of shape ", ctx.input(0).shape().DebugString(), " are not those of ", boxes.count,
                             " boxes of images ", shape.DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    std::memset(out->raw(), 0, out->bytes());
    if (out->num_elements() == 0 || ctx.input(0).num_elements() == 0) return absl::OkStatus();
    switch (out->dtype()) {
      case DType::kHalf:
        return Add<Half>(ctx, crop, boxes, out);
      case DType::kDouble:
        return Add<double>(ctx, crop, boxes, out);
      default:
        return Add<float>(ctx, crop, boxes, out);
    }
  }

 private:
  // Each image by one thread: boxes may overlap.
  template <class T>
  absl::Status Add(KernelContext& ctx, const ImageSize& crop, const Boxes& boxes, Tensor* out) const {
    const ImageSize to = {out->dim(0), out->dim(1), out->dim(2), out->dim(3)};
    const int64_t points = crop.height * crop.width * crop.channels, image = to.height * to.width * to.channels;
    const double cost =
        5.0 * static_cast<double>(points * boxes.count) / static_cast<double>(std::max<int64_t>(to.batch, 1));
    ctx.threads()->ParallelFor(to.batch, cost, [&](int64_t begin, int64_t end) {
      for (int64_t b = 0; b < boxes.count; ++b) {
        if (boxes.images[b] < begin || boxes.images[b] >= end) continue;
        const float* const box = boxes.corners + 4 * b;
        Spread(ctx.input(0).data<float>() + b * points,
               CropPoints(box[0], box[2], CropStep(box[0], box[2], crop.height, to.height), crop.height, to.height),
               CropPoints(box[1], box[3], CropStep(box[1], box[3], crop.width, to.width), crop.width, to.width), to,
               out->data<T>() + boxes.images[b] * image);
      }
    });
    return absl::OkStatus();
  }

  template <class T>
  void Spread(const float* grad, const std::vector<CropPoint>& ys, const std::vector<CropPoint>& xs,
              const ImageSize& to, T* image) const {
    const int64_t row = to.width * to.channels;
    for (const CropPoint& y : ys) {
      T *const top = image + y.lower * row, *const bottom = image + y.upper * row,
               *const middle = image + y.nearest * row;
      for (const CropPoint& x : xs) {
        const float* const g = grad;
        grad += to.channels;
        if (!y.inside || !x.inside) continue;
        const int64_t left = x.lower * to.channels, right = x.upper * to.channels, at = x.nearest * to.channels;
        for (int64_t c = 0; c < to.channels; ++c) {
          const auto add = [c](T* pixel, float v) { pixel[c] = static_cast<T>(pixel[c] + static_cast<T>(v)); };
          if (nearest_) {
            add(middle + at, g[c]);
            continue;
          }
          const float above = (1 - y.lerp) * g[c], below = y.lerp * g[c];
          add(top + left, (1 - x.lerp) * above);
          add(top + right, x.lerp * above);
          add(bottom + left, (1 - x.lerp) * below);
          add(bottom + right, x.lerp * below);
        }
      }
    }
  }

  const bool nearest_;
};

TROUPE_OP("CropAndResizeGradImage")
    .Input("grads: float")
    .Input("boxes: float")
    .Input("box_ind: int32")
    .Input("image_size: int32")
    .Output("output: T")
    .Attr("T: {float, half, double}")
    .Attr("method: {'bilinear', 'nearest'} = 'bilinear'")
    .Shape(CropAndResizeGradImageShape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of CropAndResize's images, which have shape image_size.");
TROUPE_CPU_KERNEL("CropAndResizeGradImage").HostMemory("image_size").Class<CropAndResizeGradImage>();

absl::Status CropAndResizeGradBoxesShape(InferenceContext& c) {
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

absl::Status ComputeCropAndResizeGradBoxes(KernelContext& ctx) {
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
    .Shape(CropAndResizeGradBoxesShape)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of CropAndResize's boxes, for the method bilinear.");
TROUPE_KERNEL("CropAndResizeGradBoxes").Device("CPU").Types("T", kReals).Function<ComputeCropAndResizeGradBoxes>();

}  // namespace
}  // namespace troupe::image
