// ResizeBilinear and ResizeNearestNeighbor against plain loops, to the last bit: all numbers of
// channels that have loops of their own, rows that are made larger, smaller and much smaller, and
// every instruction level.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/image/resize_loops.h"
#include "tests/ops/run_op.h"
#include "troupe/half.h"

TROUPE_ISA_TABLE(ResizeLoops, kResize, PickResize)

namespace troupe::testing {
namespace resize_test {

using test::Random;

enum class Way : uint8_t { kPlain, kAlignCorners, kHalfPixels };
AttrMap AttrsOf(Way way) {
  if (way == Way::kAlignCorners) return {{"align_corners", true}};
  if (way == Way::kHalfPixels) return {{"half_pixel_centers", true}};
  return {};
}
float ScaleOf(int64_t in, int64_t out, Way way) {
  if (way == Way::kAlignCorners && out > 1) return static_cast<float>(in - 1) / static_cast<float>(out - 1);
  return static_cast<float>(in) / static_cast<float>(out);
}

struct Place {
  int64_t lower, upper;
  float lerp;
};
Place PlaceOf(int64_t i, int64_t in, int64_t out, Way way) {
  const float scale = ScaleOf(in, out, way);
  const float at =
      way == Way::kHalfPixels ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
  const float floor = std::floor(at);
  const auto inside = [in](float p) { return std::min(std::max<int64_t>(static_cast<int64_t>(p), 0), in - 1); };
  return {inside(floor), inside(std::ceil(at)), at - floor};
}

template <class T>
std::vector<float> Bilinear(const Tensor& images, int64_t height, int64_t width, Way way) {
  std::vector<float> out;
  const auto at = [&](int64_t b, int64_t y, int64_t x, int64_t c) {
    return static_cast<float>(images.data<T>()[((b * images.dim(1) + y) * images.dim(2) + x) * images.dim(3) + c]);
  };
  for (int64_t b = 0; b < images.dim(0); ++b) {
    for (int64_t i = 0; i < height; ++i) {
      const Place y = PlaceOf(i, images.dim(1), height, way);
      for (int64_t j = 0; j < width; ++j) {
        const Place x = PlaceOf(j, images.dim(2), width, way);
        for (int64_t c = 0; c < images.dim(3); ++c) {
          const float tl = at(b, y.lower, x.lower, c), tr = at(b, y.lower, x.upper, c);
          const float bl = at(b, y.upper, x.lower, c), br = at(b, y.upper, x.upper, c);
          const float above = tl + (tr - tl) * x.lerp, below = bl + (br - bl) * x.lerp;
          out.push_back(above + (below - above) * y.lerp);
        }
      }
    }
  }
  return out;
}

// Of an output [2, height, width, channels].
struct Sizes {
  int32_t in_height, in_width, height, width;
};
const Sizes kSizes[] = {{5, 7, 9, 16}, {9, 16, 5, 7}, {6, 50, 4, 3}, {3, 1, 7, 5}, {4, 6, 4, 6}, {2, 3, 1, 1}};

BOOST_AUTO_TEST_CASE(bilinear_pixels_are_those_of_a_plain_loop) {
  for (const DType type : {DType::kUint8, DType::kFloat, DType::kDouble, DType::kHalf, DType::kInt32}) {
    for (const int64_t channels : {1, 2, 3, 4, 5, 8, 17, 35}) {
      for (const Sizes& s : kSizes) {
        for (const Way way : {Way::kPlain, Way::kAlignCorners, Way::kHalfPixels}) {
          const Tensor images = Random(type, {2, s.in_height, s.in_width, channels}, 0, 255);
          std::vector<float> want;
          const bool numbers = VisitNumeric(type, false, [&]<class T>() {
            if constexpr (requires(T v) { static_cast<float>(v); }) want = Bilinear<T>(images, s.height, s.width, way);
            return true;
          });
          BOOST_REQUIRE(numbers);
          for (const int threads : {1, 3}) {
            const Tensor got = test::Run("ResizeBilinear", {images, Tensor::Vector<int32_t>({s.height, s.width})},
                                         AttrsOf(way), {}, threads);
            BOOST_REQUIRE(got.HasShape({2, s.height, s.width, channels}));
            BOOST_TEST(std::memcmp(got.raw(), want.data(), got.bytes()) == 0,
                       Name(type) << ", " << channels << " channels, " << s.in_width << " to " << s.width);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nearest_pixels_are_copies) {
  for (const DType type : {DType::kUint8, DType::kHalf, DType::kFloat, DType::kDouble}) {
    for (const int64_t channels : {1, 2, 3, 4, 6, 7}) {
      for (const Sizes& s : kSizes) {
        for (const Way way : {Way::kPlain, Way::kHalfPixels}) {
          const Tensor images = Random(type, {2, s.in_height, s.in_width, channels}, 0, 255);
          const Tensor got =
              test::Run("ResizeNearestNeighbor", {images, Tensor::Vector<int32_t>({s.height, s.width})}, AttrsOf(way));
          BOOST_REQUIRE(got.HasShape({2, s.height, s.width, channels}));
          const float half = way == Way::kHalfPixels ? 0.5f : 0;
          const auto nearest = [half, way](int64_t i, int64_t in, int64_t out) {
            return std::min(static_cast<int64_t>((static_cast<float>(i) + half) * ScaleOf(in, out, way)), in - 1);
          };
          bool same = true;
          for (int64_t row = 0; row < int64_t{2} * s.height; ++row) {
            const int64_t y = row / s.height * s.in_height + nearest(row % s.height, s.in_height, s.height);
            for (int64_t x = 0; x < s.width; ++x) {
              for (int64_t c = 0; c < channels; ++c) {
                same &= test::Get(got, (row * s.width + x) * channels + c) ==
                        test::Get(images, (y * s.in_width + nearest(x, s.in_width, s.width)) * channels + c);
              }
            }
          }
          BOOST_TEST(same, Name(type) << ", " << channels << " channels, " << s.in_width << " to " << s.width);
        }
      }
    }
  }
}

// A fused multiplication would round otherwise: the levels that have one must not use it.
BOOST_AUTO_TEST_CASE(levels_give_the_same_bits) {
  BOOST_REQUIRE(!AvailableIsas().empty());
  for (const std::string_view isa : AvailableIsas()) {
    const ResizeLoops& loops = PickResize(LevelOf(isa));
    test::Numbers numbers(7);
    for (const int64_t channels : {1, 2, 3, 4, 6, 16, 33}) {
      constexpr int64_t kWidth = 37, kColumns = 61;
      std::vector<float> row(kWidth * channels + kRowMargin), to(kColumns * channels + kRowMargin);
      for (float& v : row) v = static_cast<float>(numbers.Uniform(-1, 1));
      std::vector<ColumnTap> taps;
      for (int64_t x = 0; x < kColumns; ++x) {
        const auto lower = static_cast<int64_t>(numbers.Uniform(0, kWidth));
        taps.push_back(
            {lower * channels, std::min(lower + 1, kWidth - 1) * channels, static_cast<float>(numbers.Uniform(0, 1))});
      }
      loops.mix_columns(row.data(), taps.data(), kColumns, channels, to.data());
      bool same = true;
      for (int64_t i = 0; i < kColumns * channels; ++i) {
        const ColumnTap& t = taps[i / channels];
        const float difference = row[t.upper + i % channels] - row[t.lower + i % channels];
        const float share = difference * t.lerp;
        same &= to[i] == row[t.lower + i % channels] + share;
      }
      BOOST_TEST(same, isa << ": columns of " << channels << " channels");
      const int64_t n = std::min<int64_t>(kWidth, kColumns) * channels;
      std::vector<float> mixed(n);
      loops.mix_rows(row.data(), to.data(), 0.3f, mixed.data(), n);
      same = true;
      for (int64_t i = 0; i < n; ++i) {
        const float difference = to[i] - row[i];
        const float share = difference * 0.3f;
        same &= mixed[i] == row[i] + share;
      }
      BOOST_TEST(same, isa << ": rows of " << channels << " channels");
    }
    std::vector<uint8_t> bytes(256);
    for (int i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
    std::vector<float> floats(256);
    loops.from_bytes(bytes.data(), floats.data(), 256);
    for (int i = 0; i < 256; ++i) BOOST_TEST(floats[i] == static_cast<float>(i));
  }
}

}  // namespace resize_test
}  // namespace troupe::testing
