// The direct convolutions against naive sums: every level of instructions, odd sizes, strides,
// dilations, paddings, batches that are no multiple of four.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "kernels/common/isa.h"
#include "kernels/nn/conv_direct.h"
#include "tests/nn/conv_oracle.h"

namespace troupe {
namespace conv_direct_test {

std::vector<int> Levels() {
  std::vector<int> levels = {IsaLevel()};
  for (int l = levels[0] - 1; l >= 2; --l) levels.push_back(l);
  return levels;
}

void CheckAllLevels(const ConvShape& s, bool plain) {
  const ConvProblem p(s);
  for (int level : Levels()) {
    const int taken = CheckConvolution(
        p, plain,
        [&](ConvPass pass, const ConvShape& s, const float* a, const float* b, float* out,
            const ConvEpilogue<float>& e) { return DirectConv(pass, s, a, b, out, e, level); },
        StrCat("direct v", level));
    BOOST_CHECK_MESSAGE(taken == (plain ? 3 : 12), Text(s) << " was not taken");
  }
}

BOOST_AUTO_TEST_CASE(every_number_of_channels) {
  for (int64_t c = 1; c <= 33; ++c) {
    CheckAllLevels(MakeConvShape(c % 2 == 0 ? 7 : 4, 5, 6, c, 3, 2, 34 - c, 1 + c % 2), true);
    CheckAllLevels(MakeConvShape(1, 4, 5, c, 2, 3, c, 1), true);
  }
}

BOOST_AUTO_TEST_CASE(every_width_stride_and_batch) {
  for (int64_t w = 1; w <= 29; w += w < 18 ? 1 : 5) {
    for (int64_t stride = 1; stride <= 3; ++stride)
      CheckAllLevels(MakeConvShape(1 + (w + stride) % 7, 4, w, 3, 3, 4, 5, stride), true);
  }
}

BOOST_AUTO_TEST_CASE(random_shapes_with_epilogues) {
  std::mt19937 rng(5);
  const auto pick = [&](int64_t from, int64_t to) { return from + static_cast<int64_t>(rng() % (to - from + 1)); };
  for (int i = 0; i < 120; ++i) {
    ConvShape s;
    s.n = pick(1, 9), s.c = pick(1, 9), s.oc = pick(1, 14), s.h = pick(1, 9), s.w = pick(1, 17), s.kh = pick(1, 5),
    s.kw = pick(1, 5);
    s.stride_h = pick(1, 3), s.stride_w = pick(1, 3), s.dilation_h = pick(0, 2) / 2 + 1,
    s.dilation_w = pick(0, 2) / 2 + 1;
    const int64_t eh = (s.kh - 1) * s.dilation_h + 1, ew = (s.kw - 1) * s.dilation_w + 1;
    // Paddings wider than the filter too: then whole windows see nothing.
    s.top = pick(0, 2) * pick(0, 3), s.bottom = pick(0, 3), s.left = pick(0, 2) * pick(0, 3), s.right = pick(0, 3);
    if (s.h + s.top + s.bottom < eh) s.bottom = eh - s.h - s.top;
    if (s.w + s.left + s.right < ew) s.right = ew - s.w - s.left;
    s.oh = (s.h + s.top + s.bottom - eh) / s.stride_h + 1, s.ow = (s.w + s.left + s.right - ew) / s.stride_w + 1;
    CheckAllLevels(s, i % 4 != 0);
  }
}

BOOST_AUTO_TEST_CASE(layers_of_a_real_net) {
  CheckAllLevels(MakeConvShape(5, 28, 28, 1, 6, 6, 6, 1), true);
  CheckAllLevels(MakeConvShape(6, 28, 28, 6, 5, 5, 12, 2), false);
  CheckAllLevels(MakeConvShape(7, 14, 14, 12, 4, 4, 24, 2), false);
  CheckAllLevels(MakeConvShape(4, 14, 14, 6, 5, 5, 16, 1, 1, true), true);
}

BOOST_AUTO_TEST_CASE(splitting_the_images_changes_no_bit) {
  const ConvShape s = MakeConvShape(11, 9, 10, 6, 5, 5, 12, 2);
  const ConvProblem p(s);
  const std::vector<float> x = Floats(p.x), f = Floats(p.f), d = Floats(p.d);
  std::vector<float> y(s.output_size()), dx(s.input_size());
  BOOST_REQUIRE(DirectConv(ConvPass::kForward, s, x.data(), f.data(), y.data(), {}));
  BOOST_REQUIRE(DirectConv(ConvPass::kBackwardInput, s, f.data(), d.data(), dx.data(), {}));
  for (int64_t first : {1, 3, 4, 6, 10}) {
    ConvShape a = s, b = s;
    a.n = first, b.n = s.n - first;
    const int64_t in = first * s.h * s.w * s.c, to = first * s.oh * s.ow * s.oc;
    std::vector<float> y2(y.size()), dx2(dx.size());
    BOOST_REQUIRE(DirectConv(ConvPass::kForward, a, x.data(), f.data(), y2.data(), {}) &&
                  DirectConv(ConvPass::kForward, b, x.data() + in, f.data(), y2.data() + to, {}));
    BOOST_REQUIRE(DirectConv(ConvPass::kBackwardInput, a, f.data(), d.data(), dx2.data(), {}) &&
                  DirectConv(ConvPass::kBackwardInput, b, f.data(), d.data() + to, dx2.data() + in, {}));
    BOOST_CHECK(y == y2);
    BOOST_CHECK(dx == dx2);
  }
}

BOOST_AUTO_TEST_CASE(splitting_the_rows_changes_no_bit) {
  const ConvShape s = MakeConvShape(6, 9, 10, 6, 5, 5, 12, 2);
  const ConvProblem p(s);
  const std::vector<float> x = Floats(p.x), f = Floats(p.f), d = Floats(p.d), bias(s.oc, -0.25f);
  ConvEpilogue<float> forward, backward;
  forward.bias = bias.data(), forward.activation = ConvActivation::kElu;
  backward.relu_output = x.data();
  std::vector<float> y(s.output_size()), dx(s.input_size());
  BOOST_REQUIRE(DirectConv(ConvPass::kForward, s, x.data(), f.data(), y.data(), forward));
  BOOST_REQUIRE(DirectConv(ConvPass::kBackwardInput, s, f.data(), d.data(), dx.data(), backward));
  for (const int64_t row : {0, 1, 2, 4, 5}) {
    std::vector<float> y2(y.size(), 7), dx2(dx.size(), 7);
    for (const ConvRows& rows : {ConvRows{0, row}, ConvRows{row, s.oh}}) {
      BOOST_REQUIRE(DirectConv(ConvPass::kForward, s, x.data(), f.data(), y2.data(), forward, rows));
    }
    for (const ConvRows& rows : {ConvRows{row, s.h}, ConvRows{0, row}}) {
      BOOST_REQUIRE(DirectConv(ConvPass::kBackwardInput, s, f.data(), d.data(), dx2.data(), backward, rows));
    }
    BOOST_CHECK(y == y2);
    BOOST_CHECK(dx == dx2);
  }
}

BOOST_AUTO_TEST_CASE(nan_goes_where_it_would_go) {
  const ConvShape s = MakeConvShape(5, 7, 7, 2, 3, 3, 3, 1);
  const ConvProblem p(s);
  std::vector<float> x = Floats(p.x), f = Floats(p.f), y(s.output_size());
  const int64_t at = ((1 * s.h + 3) * s.w + 3) * s.c;
  x[at] = std::numeric_limits<float>::quiet_NaN();
  ConvEpilogue<float> e;
  e.activation = ConvActivation::kRelu;
  BOOST_REQUIRE(DirectConv(ConvPass::kForward, s, x.data(), f.data(), y.data(), e));
  for (int64_t i = 0; i < s.output_size(); ++i) {
    const int64_t pixel = i / s.oc, n = pixel / (s.oh * s.ow), r = pixel / s.ow % s.oh, q = pixel % s.ow;
    const bool reached = n == 1 && std::abs(r - 3) <= 1 && std::abs(q - 3) <= 1;
    BOOST_CHECK_MESSAGE(std::isnan(y[i]) == reached, "image " << n << " row " << r << " column " << q);
  }
}

BOOST_AUTO_TEST_CASE(the_choice_is_by_shape_alone) {
  for (ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardInput, ConvPass::kBackwardFilter}) {
    BOOST_CHECK(!PreferDirectConv(pass, MakeConvShape(32, 14, 14, 256, 3, 3, 256, 1)));
    BOOST_CHECK(!PreferDirectConv(pass, MakeConvShape(32, 14, 14, 64, 1, 1, 64, 1)));
    if (IsaLevel() >= 3) BOOST_CHECK(PreferDirectConv(pass, MakeConvShape(100, 28, 28, 6, 5, 5, 12, 2)));
  }
}

}  // namespace conv_direct_test
}  // namespace troupe
