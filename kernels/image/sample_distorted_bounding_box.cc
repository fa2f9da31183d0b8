// SampleDistortedBoundingBox and SampleDistortedBoundingBoxV2: a random part of an image, of a size
// and shape within limits, which contains enough of one of the boxes.
//
// The numbers are drawn in TensorFlow's order, so that equal seeds give its parts.
#include <algorithm>
#include <cmath>

#include "kernels/common/op_file.h"
#include "kernels/common/types.h"
#include "kernels/random/distributions.h"
#include "kernels/random/random_state.h"

namespace troupe::image {
namespace {

constexpr char kBoxesAreDrawn[] = "it is drawn at random";

OpBuilder SampleOp(std::string_view name, bool covered_is_input) {
  OpBuilder op(name);
  op.Input("image_size: T").Input("bounding_boxes: float");
  if (covered_is_input) op.Input("min_object_covered: float");
  op.Output("begin: T").Output("size: T").Output("bboxes: float");
  op.Attr("T: {uint8, int8, int16, int32, int64}").Attr("seed: int = 0").Attr("seed2: int = 0");
  if (!covered_is_input) op.Attr("min_object_covered: float = 0.1");
  return op.Attr("aspect_ratio_range: list(float) = [0.75, 1.33]")
      .Attr("area_range: list(float) = [0.05, 1.0]")
      .Attr("max_attempts: int = 100")
      .Attr("use_image_if_no_bounding_boxes: bool = false")
      .Stateful()
      .Shape([](InferenceContext& c) -> absl::Status {
        TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
        TROUPE_RETURN_IF_ERROR(c.WithRank(1, 3).status());
        if (c.num_inputs() > 2) TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
        c.set_output(0, PartialTensorShape{3});
        c.set_output(1, PartialTensorShape{3});
        c.set_output(2, PartialTensorShape{1, 1, 4});
        return absl::OkStatus();
      })
      .NotDifferentiable(kBoxesAreDrawn)
      .Doc(covered_is_input
               ? "As SampleDistortedBoundingBox, with min_object_covered as an input."
               : "Begin and size of a random part of an image of image_size [height, width, channels], as Slice takes "
                 "them, and the part as a box: its area and aspect ratio are within the ranges, and it contains at "
                 "least min_object_covered of one of the boxes [y1, x1, y2, x2] of [0, 1]. The whole image when "
                 "max_attempts fail.");
}
const OpRegistrar sample_distorted_bounding_box = SampleOp("SampleDistortedBoundingBox", false);
const OpRegistrar sample_distorted_bounding_box_v2 = SampleOp("SampleDistortedBoundingBoxV2", true);

struct Rectangle {
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  float Area() const { return x2 > x1 && y2 > y1 ? static_cast<float>(x2 - x1) * static_cast<float>(y2 - y1) : 0; }
  Rectangle Within(const Rectangle& r) const {
    return {std::max(x1, r.x1), std::max(y1, r.y1), std::min(x2, r.x2), std::min(y2, r.y2)};
  }
};

// Numbers from a stream: floats of [0, 1), and whole numbers of [0, n), each equally likely.
class Draws {
 public:
  explicit Draws(const random::Philox& start) : words_(start) {}
  float Float() { return random::UniformFloat(words_()); }
  int Below(int n) {
    const auto m = static_cast<uint32_t>(n);
    if ((m & (m - 1)) == 0) return static_cast<int>(words_() & (m - 1));
    const uint32_t uneven = UINT32_MAX % m + 1;
    uint32_t word = words_();
    while (word < uneven) word = words_();
    return static_cast<int>(word % m);
  }

 private:
  random::PhiloxWords words_;
};

struct Limits {
  float min_area, max_area;  // parts of the image
};

int Round(float x) { return static_cast<int>(std::lrintf(x)); }

// A part of an image of this aspect ratio (width / height). False when none fits.
bool DrawPart(int width, int height, const Limits& limits, float ratio, Draws* draws, Rectangle* part) {
  const float w = static_cast<float>(width), h = static_cast<float>(height);
  if (limits.max_area <= 0 || ratio <= 0 || width <= 0 || height <= 0 || limits.min_area > limits.max_area)
    return false;
  const float min_area = limits.min_area * w * h, max_area = limits.max_area * w * h;
  int rows = Round(std::sqrt(min_area / ratio)), most = Round(std::sqrt(max_area / ratio));
  if (Round(static_cast<float>(most) * ratio) > width) {
    // The largest number of rows whose columns fit.
    most = static_cast<int>((w + 0.5 - 0.0000001) / ratio);
    if (Round(static_cast<float>(most) * ratio) > width) --most;
  }
  most = std::min(most, height);
  rows = std::min(rows, most);
  if (rows < most) rows += draws->Below(most - rows + 1);
  int columns = 0;
  float area = 0;
  const auto set_rows = [&](int n) {
    rows = n;
    columns = Round(static_cast<float>(n) * ratio);
    area = static_cast<float>(columns) * static_cast<float>(n);
  };
  set_rows(rows);
  // Rounding may have gone over a limit.
  if (area < min_area) set_rows(rows + 1);
  if (area > max_area) set_rows(rows - 1);
  if (area < min_area || area > max_area || columns > width || rows > height || columns <= 0 || rows <= 0) return false;
  const int y = rows < height ? draws->Below(height - rows) : 0;
  const int x = columns < width ? draws->Below(width - columns) : 0;
  *part = {x, y, x + columns, y + rows};
  return true;
}

bool Covers(const Rectangle& part, const std::vector<Rectangle>& boxes, float least) {
  if (part.Area() < 1) return false;
  return std::any_of(boxes.begin(), boxes.end(), [&](const Rectangle& box) {
    return box.Area() >= 1 && part.Within(box).Area() / box.Area() >= least;
  });
}

template <bool kCoveredIsInput>
class SampleKernel {
 public:
  explicit SampleKernel(KernelInit& init)
      : source_(init),
        ratios_(init.Attr<std::vector<float>>("aspect_ratio_range")),
        areas_(init.Attr<std::vector<float>>("area_range")),
        attempts_(init.Attr<int64_t>("max_attempts")),
        whole_image_(init.Attr<bool>("use_image_if_no_bounding_boxes")) {
    if constexpr (!kCoveredIsInput) {
      covered_ = init.Attr<float>("min_object_covered");
      if (!(covered_ >= 0)) init.Fail(InvalidArgument("min_object_covered must not be negative, but is ", covered_));
    }
    if (ratios_.size() != 2 || !(ratios_[0] > 0) || !(ratios_[1] > 0)) {
      init.Fail(InvalidArgument("aspect_ratio_range must be two positive numbers"));
    }
    if (areas_.size() != 2 || !(areas_[0] > 0) || !(areas_[1] > 0) || areas_[0] > 1 || areas_[1] > 1) {
      init.Fail(InvalidArgument("area_range must be two numbers of (0, 1]"));
    }
    if (attempts_ < 1 || attempts_ > (1 << 20)) {
      init.Fail(InvalidArgument("max_attempts must be in [1, 2^20], but is ", attempts_));
    }
  }

  absl::Status Compute(KernelContext& ctx) {
    const Tensor &size = ctx.input(0), &boxes = ctx.input(1);
    if (size.rank() != 1 || size.dim(0) != 3) {
      return InvalidArgument("image_size must be [height, width, channels], but has shape ",
                             size.shape().DebugString());
    }
    if (boxes.rank() != 3 || (boxes.num_elements() > 0 && boxes.dim(2) != 4)) {
      return InvalidArgument("bounding_boxes must have shape [batch, boxes, 4], but have ",
                             boxes.shape().DebugString());
    }
    float covered = covered_;
    if constexpr (kCoveredIsInput) {
      if (ctx.input(2).rank() != 0) return InvalidArgument("min_object_covered must be a scalar");
      covered = ctx.input(2).scalar<float>();
      if (!(covered >= 0)) return InvalidArgument("min_object_covered must not be negative, but is ", covered);
    }
    const int64_t h = array::IntAt(size, 0), w = array::IntAt(size, 1);
    if (h <= 0 || w <= 0 || h > (1 << 24) || w > (1 << 24)) {
      return InvalidArgument("image_size must be positive, and at most 2^24, but is ", h, " x ", w);
    }
    const int height = static_cast<int>(h), width = static_cast<int>(w);
    std::vector<Rectangle> rectangles;
    for (int64_t i = 0; i < boxes.num_elements(); i += 4) {
      const float* const box = boxes.data<float>() + i;
      for (int k = 0; k < 4; ++k) {
        if (!(box[k] >= 0 && box[k] <= 1)) return InvalidArgument("box ", i / 4, " is not in [0, 1]: ", box[k]);
      }
      const auto scaled = [](float part, int all) { return static_cast<int>(part * static_cast<float>(all)); };
      rectangles.push_back(
          {scaled(box[1], width), scaled(box[0], height), scaled(box[3], width), scaled(box[2], height)});
    }
    const Rectangle image = {0, 0, width, height};
    if (rectangles.empty()) {
      if (!whole_image_) return InvalidArgument("there are no boxes, and use_image_if_no_bounding_boxes is not set");
      rectangles.push_back(image);
    }
    TROUPE_ASSIGN_OR_RETURN(const random::Philox start, source_.Reserve(ctx, static_cast<uint64_t>(attempts_)));
    Draws draws(start);
    Rectangle part = image;
    for (int64_t i = 0; i < attempts_; ++i) {
      if (i % 1024 == 0 && ctx.cancelled()) return Cancelled("the step was told to end");
      const float ratio = draws.Float() * (ratios_[1] - ratios_[0]) + ratios_[0];
      Rectangle tried;
      if (!DrawPart(width, height, {areas_[0], areas_[1]}, ratio, &draws, &tried)) continue;
      if (!Covers(tried, rectangles, covered)) continue;
      part = tried;
      break;
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * begin, ctx.AllocateOutput(0, TensorShape({3})));
    TROUPE_ASSIGN_OR_RETURN(Tensor * extent, ctx.AllocateOutput(1, TensorShape({3})));
    TROUPE_ASSIGN_OR_RETURN(Tensor * box, ctx.AllocateOutput(2, TensorShape({1, 1, 4})));
    Put(begin, {part.y1, part.x1, 0});
    Put(extent, {part.y2 - part.y1, part.x2 - part.x1, -1});
    float* const b = box->data<float>();
    b[0] = static_cast<float>(part.y1) / static_cast<float>(height);
    b[1] = static_cast<float>(part.x1) / static_cast<float>(width);
    b[2] = static_cast<float>(part.y2) / static_cast<float>(height);
    b[3] = static_cast<float>(part.x2) / static_cast<float>(width);
    return absl::OkStatus();
  }

 private:
  // The image's size has the same type, so the numbers fit; -1 of a type without a sign wraps.
  static void Put(Tensor* t, std::initializer_list<int> values) {
    VisitNumeric(t->dtype(), false, [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        T* to = t->data<T>();
        for (const int v : values) *to++ = static_cast<T>(v);
      }
      return true;
    });
  }

  random::RandomSource source_;
  const std::vector<float> ratios_, areas_;
  const int64_t attempts_;
  const bool whole_image_;
  float covered_ = 0;
};
TROUPE_CPU_KERNEL("SampleDistortedBoundingBox").Class<SampleKernel<false>>();
TROUPE_CPU_KERNEL("SampleDistortedBoundingBoxV2").Class<SampleKernel<true>>();

}  // namespace
}  // namespace troupe::image
