#include "troupe/image.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::image {
namespace {

using train::Build;

Output Ints(const Scope& s, std::vector<int32_t> v) { return Const(s, Literal(std::move(v))); }

// The rank, which must be known: 3 or 4. 0 after an error.
int RankOf(const ScopeAt& at, const Output& image) {
  const int rank = image.valid() ? image.shape().rank() : -1;
  if (rank == 3 || rank == 4) return rank;
  at.Fail(InvalidArgument("an image has three dimensions, or four in a batch, but the shape is ",
                          image.valid() ? image.shape().DebugString() : "of nothing"));
  return 0;
}
// The size (an int32 scalar) of dimension `d`.
Output SizeOf(const Scope& s, const Output& image, int d) {
  return Build(s, "Squeeze", {Build(s, "Slice", {Build(s, "Shape", {image}), Ints(s, {d}), Ints(s, {1})})});
}

Output Uniform(const Scope& s, double lower, double upper, int64_t seed) {
  const Output unit = Build(s, "RandomUniform", {Const(s, Tensor(DType::kInt32, {0}))},
                            {{"dtype", DType::kFloat}, {"seed", seed}, {"seed2", seed == 0 ? int64_t{0} : int64_t{1}}});
  return Build(s, "Add", {Build(s, "Mul", {unit, static_cast<float>(upper - lower)}), static_cast<float>(lower)});
}

Output RandomFlip(const Scope& s, const Output& image, int axis, int64_t seed) {
  const Output flips = Build(s, "Less", {Uniform(s, 0, 1, seed), 0.5f});
  return Build(s, "Select", {flips, Build(s, "ReverseV2", {image, Ints(s, {axis})}), image});
}

}  // namespace

Output CropToBoundingBox(const ScopeAt& at, const Output& image, int64_t y, int64_t x, int64_t height, int64_t width) {
  const Scope s = at.Sub("crop_to_bounding_box");
  const int rank = RankOf(at, image);
  if (rank == 0) return {};
  std::vector<int32_t> begin = {static_cast<int32_t>(y), static_cast<int32_t>(x), 0};
  std::vector<int32_t> size = {static_cast<int32_t>(height), static_cast<int32_t>(width), -1};
  if (rank == 4) {
    begin.insert(begin.begin(), 0);
    size.insert(size.begin(), -1);
  }
  return Build(s, "Slice", {image, Ints(s, begin), Ints(s, size)});
}

Output CentralCrop(const ScopeAt& at, const Output& image, double fraction) {
  const Scope s = at.Sub("central_crop");
  const int rank = RankOf(at, image);
  if (rank == 0) return {};
  if (!(fraction > 0 && fraction <= 1)) {
    at.Fail(InvalidArgument("CentralCrop takes a fraction of (0, 1], not ", fraction));
    return {};
  }
  std::vector<Output> begin, size;
  for (int d = 0; d < rank; ++d) {
    const Output all = SizeOf(s, image, d);
    if (d < rank - 3 || d == rank - 1) {
      begin.push_back(Const(s, int32_t{0}));
      size.push_back(all);
      continue;
    }
    const Output wide = Build(s, "Cast", {all}, {{"DstT", DType::kDouble}});
    const Output left = Build(s, "Cast", {Build(s, "Mul", {wide, (1 - fraction) / 2})}, {{"DstT", DType::kInt32}});
    begin.push_back(left);
    size.push_back(Build(s, "Sub", {all, Build(s, "Add", {left, left})}));
  }
  const auto pack = [&](const std::vector<Output>& list) { return EmitLists(s, "Pack", {InputList(list)}).output(0); };
  return Build(s, "Slice", {image, pack(begin), pack(size)});
}

Output PadToBoundingBox(const ScopeAt& at, const Output& image, int64_t y, int64_t x, int64_t height, int64_t width) {
  const Scope s = at.Sub("pad_to_bounding_box");
  const int rank = RankOf(at, image);
  if (rank == 0) return {};
  std::vector<Output> paddings;
  for (int d = 0; d < rank; ++d) {
    if (d < rank - 3 || d == rank - 1) {
      paddings.push_back(Const(s, int32_t{0}));
      paddings.push_back(Const(s, int32_t{0}));
      continue;
    }
    const bool rows = d == rank - 3;
    const auto before = static_cast<int32_t>(rows ? y : x), whole = static_cast<int32_t>(rows ? height : width);
    paddings.push_back(Const(s, before));
    paddings.push_back(Build(s, "Sub", {whole - before, SizeOf(s, image, d)}));
  }
  const Output pairs = Build(s, "Reshape", {EmitLists(s, "Pack", {InputList(paddings)}).output(0), Ints(s, {rank, 2})});
  return Build(s, "Pad", {image, pairs});
}

Output FlipLeftRight(const ScopeAt& at, const Output& image) {
  const Scope s = at.Sub("flip_left_right");
  return Build(s, "ReverseV2", {image, Ints(s, {-2})});
}
Output FlipUpDown(const ScopeAt& at, const Output& image) {
  const Scope s = at.Sub("flip_up_down");
  return Build(s, "ReverseV2", {image, Ints(s, {-3})});
}
Output RandomFlipLeftRight(const ScopeAt& at, const Output& image, int64_t seed) {
  return RandomFlip(at.Sub("random_flip_left_right"), image, -2, seed);
}
Output RandomFlipUpDown(const ScopeAt& at, const Output& image, int64_t seed) {
  return RandomFlip(at.Sub("random_flip_up_down"), image, -3, seed);
}

Output RandomBrightness(const ScopeAt& at, const Output& image, double max_delta, int64_t seed) {
  const Scope s = at.Sub("random_brightness");
  const Output delta = Uniform(s, -max_delta, max_delta, seed);
  return Build(s, "Add", {image, Build(s, "Cast", {delta}, {{"DstT", BaseType(image.dtype())}})});
}
Output RandomContrast(const ScopeAt& at, const Output& image, double lower, double upper, int64_t seed) {
  const Scope s = at.Sub("random_contrast");
  return Build(s, "AdjustContrastv2", {image, Uniform(s, lower, upper, seed)});
}
Output RandomSaturation(const ScopeAt& at, const Output& image, double lower, double upper, int64_t seed) {
  const Scope s = at.Sub("random_saturation");
  return Build(s, "AdjustSaturation", {image, Uniform(s, lower, upper, seed)});
}
Output RandomHue(const ScopeAt& at, const Output& image, double max_delta, int64_t seed) {
  const Scope s = at.Sub("random_hue");
  return Build(s, "AdjustHue", {image, Uniform(s, -max_delta, max_delta, seed)});
}

Output RgbToGrayscale(const ScopeAt& at, const Output& image) {
  const Scope s = at.Sub("rgb_to_grayscale");
  const Output weights = Const(s, Tensor::Vector<float>({0.2989f, 0.5870f, 0.1140f}));
  const Output cast = Build(s, "Cast", {weights}, {{"DstT", BaseType(image.dtype())}});
  return Build(s, "Sum", {Build(s, "Mul", {image, cast}), Ints(s, {-1})}, {{"keep_dims", true}});
}
Output GrayscaleToRgb(const ScopeAt& at, const Output& image) {
  const Scope s = at.Sub("grayscale_to_rgb");
  return EmitLists(s, "ConcatV2", {InputList({image, image, image}), InputList({Input(-1)})}).output(0);
}
Output PerImageStandardization(const ScopeAt& at, const Output& image) {
  const Scope s = at.Sub("per_image_standardization");
  const int rank = RankOf(at, image);
  if (rank == 0) return {};
  const Output axes = Ints(s, {-1, -2, -3});
  const auto mean = [&](const Output& x) { return Build(s, "Mean", {x, axes}, {{"keep_dims", true}}); };
  const Output centred = Build(s, "Sub", {image, mean(image)});
  const Output deviation = Build(s, "Sqrt", {mean(Build(s, "Square", {centred}))});
  const Output ones = Build(s, "OnesLike", {image});
  const Output numbers = Build(s, "Sum", {ones, axes}, {{"keep_dims", true}});
  return Build(s, "RealDiv", {centred, Build(s, "Maximum", {deviation, Build(s, "Rsqrt", {numbers})})});
}

}  // namespace troupe::image
