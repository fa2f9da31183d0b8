// A convolution of few images is split by rows among the threads, and a constant filter is put into
// the library's layout once; neither changes a bit of the result.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "kernels/nn/conv_ways.h"
#include "kernels/nn/dnnl_conv.h"
#include "tests/nn/conv_oracle.h"
#include "tests/nn/nn_test_util.h"
#include "troupe/troupe.h"

namespace troupe {
namespace conv_split_test {

BOOST_AUTO_TEST_SUITE(conv_split)

// One image by hand: the output's rows, each from the rows of the input that it sees.
BOOST_AUTO_TEST_CASE(rows_of_a_convolution) {
  ConvShape s = MakeConvShape(1, 9, 4, 2, 3, 3, 5, /*stride=*/2);
  BOOST_REQUIRE(s.oh == 5 && s.top == 1 && s.bottom == 1);
  int64_t first;
  ConvShape some = s.Rows(0, 2, &first);  // rows -1..3 of the input
  BOOST_CHECK(first == 0 && some.top == 1 && some.h == 4 && some.bottom == 0 && some.oh == 2);
  some = s.Rows(2, 5, &first);  // 3..9
  BOOST_CHECK(first == 3 && some.top == 0 && some.h == 6 && some.bottom == 1 && some.oh == 3);
  some = s.Rows(0, 5, &first);
  BOOST_CHECK(first == 0 && some == s);
  s.top = 20, s.oh = 15;  // -20..: rows of padding alone
  BOOST_CHECK_EQUAL(s.Rows(0, 5, &first).h, 0);
  BOOST_CHECK_EQUAL(s.Rows(0, 10, &first).h, 1);
}

// By what each row of the output sees, for all bands of many shapes: a band of the gradient of the
// input reads the outputs that see one of its rows, and no others, each where it saw it.
BOOST_AUTO_TEST_CASE(rows_of_a_gradient_of_the_input) {
  int bands = 0;
  for (const int64_t kh : {1, 2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t dilation : {1, 2}) {
        for (const int64_t top : {0, 1, 2}) {
          ConvShape s;
          s.n = 1, s.h = 13, s.w = 4, s.c = 2, s.oc = 3, s.kh = kh, s.kw = 1, s.ow = 4;
          s.stride_h = stride, s.dilation_h = dilation, s.top = top;
          const int64_t reach = (kh - 1) * dilation;
          s.oh = (s.h + top - reach - 1) / stride + 1;
          s.bottom = (s.oh - 1) * stride + reach + 1 - s.h - top;
          for (int64_t begin = 0; begin < s.h; ++begin) {
            for (int64_t limit = begin + 1; limit <= s.h; ++limit) {
              int64_t first = -1;
              const ConvShape some = s.InputRows(begin, limit, &first);
              if (some.oh == 0) continue;
              ++bands;
              for (int64_t y = 0; y < s.oh; ++y) {
                // From its first row to its last, those between the taps included.
                const bool sees = y * stride - top < limit && y * stride - top + reach >= begin;
                BOOST_REQUIRE_EQUAL(sees, y >= first && y < first + some.oh);
                if (sees) BOOST_REQUIRE_EQUAL((y - first) * stride - some.top, y * stride - top - begin);
              }
              BOOST_REQUIRE(some.h == limit - begin && some.top >= 0 && some.bottom >= 0);
              BOOST_REQUIRE_EQUAL((some.h + some.top + some.bottom - reach - 1) / stride + 1, some.oh);
            }
          }
        }
      }
    }
  }
  BOOST_CHECK_GT(bands, 2000);
}

BOOST_AUTO_TEST_CASE(a_gradient_of_one_input_is_split_by_rows) {
  // The last two cannot be: windows of one pixel that leave rows out; an image of one row.
  struct Gradient {
    TensorShape image, filter;
    int64_t stride, dilation;
    bool split = true;
  };
  for (const Gradient& g : std::vector<Gradient>{{{1, 64, 40, 32}, {3, 3, 32, 64}, 2, 1},
                                                 {{1, 33, 40, 32}, {3, 3, 32, 64}, 1, 2},
                                                 {{3, 30, 30, 20}, {5, 5, 20, 32}, 1, 1},
                                                 {{1, 28, 28, 96}, {1, 1, 96, 64}, 1, 1},
                                                 {{1, 28, 28, 48}, {1, 1, 48, 64}, 1, 1},
                                                 {{1, 31, 64, 48}, {7, 7, 48, 24}, 3, 1},
                                                 {{1, 28, 28, 96}, {1, 1, 96, 64}, 2, 1, false},
                                                 {{1, 1, 900, 48}, {3, 3, 48, 24}, 1, 1, false}}) {
    const AttrMap a = {{"strides", std::vector<int64_t>{1, g.stride, g.stride, 1}},
                       {"dilations", std::vector<int64_t>{1, g.dilation, g.dilation, 1}},
                       {"padding", "SAME"}};
    const Tensor w = RandomTensor(DType::kFloat, g.filter, 2);
    const TensorShape out({g.image.dim(0), (g.image.dim(1) + g.stride - 1) / g.stride,
                           (g.image.dim(2) + g.stride - 1) / g.stride, g.filter.dim(3)});
    const Tensor d = RandomTensor(DType::kFloat, out, 3);
    std::vector<int32_t> dims;
    for (const int64_t n : g.image.dims()) dims.push_back(static_cast<int32_t>(n));
    const Tensor sizes = Tensor::Vector<int32_t>(dims);
    const ConvShape shape = MakeConvShape(g.image.dim(0), g.image.dim(1), g.image.dim(2), g.image.dim(3),
                                          g.filter.dim(0), g.filter.dim(1), g.filter.dim(3), g.stride, g.dilation);
    BOOST_CHECK_EQUAL(ConvBands(ConvPass::kBackwardInput, shape, 2) > 1, g.split);
    BOOST_CHECK_EQUAL(ConvBands(ConvPass::kBackwardFilter, shape, 2), 1);
    const Tensor one = Run("Conv2DBackpropInput", {sizes, w, d}, a, 1)[0];
    for (const int threads : {2, 3, 4}) {
      CheckClose(Run("Conv2DBackpropInput", {sizes, w, d}, a, threads)[0], ToDoubles(one),
                 g.image.DebugString() + " on " + std::to_string(threads) + " threads", 2);
    }
  }
}

// As many multiplications are worth two threads when each channel is by itself.
BOOST_AUTO_TEST_CASE(few_multiplications_that_wait_for_memory_are_split) {
  ConvShape s = MakeConvShape(1, 14, 14, 384, 3, 3, 384, /*stride=*/1);
  s.groups = 384;
  BOOST_CHECK_EQUAL(ConvWayByRule(2, ConvPass::kForward, s, {}).ranges, 2);
  BOOST_CHECK_EQUAL(ConvWayByRule(1, ConvPass::kForward, s, {}).ranges, 1);
  const ConvShape dense = MakeConvShape(1, 14, 14, 64, 3, 3, 6, /*stride=*/1);
  BOOST_REQUIRE_EQUAL(dense.work(), s.work());
  BOOST_CHECK_EQUAL(ConvWayByRule(2, ConvPass::kForward, dense, {}).ranges, 1);
}

struct Case {
  const char* op;
  DType dtype;
  TensorShape image, filter;
  AttrMap attrs;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* op, DType dtype, TensorShape image, TensorShape filter, int64_t stride,
                       int64_t dilation, std::vector<int64_t> padding = {}) {
    AttrMap a = {{"strides", std::vector<int64_t>{1, stride, stride, 1}},
                 {"dilations", std::vector<int64_t>{1, dilation, dilation, 1}},
                 {"padding", padding.empty() ? "SAME" : "EXPLICIT"}};
    if (!padding.empty()) a.Set("explicit_paddings", padding);
    cases.push_back({op, dtype, std::move(image), std::move(filter), std::move(a)});
  };
  const DType f = DType::kFloat, d = DType::kDouble;
  for (int64_t n : {1, 2, 3, 5}) {
    add("Conv2D", f, TensorShape({n, 30, 20, 32}), TensorShape({3, 3, 32, 64}), 1, 1);
    add("Conv2D", f, TensorShape({n, 31, 23, 16}), TensorShape({5, 3, 16, 48}), 2, 1);
    add("Conv2D", f, TensorShape({n, 33, 24, 32}), TensorShape({3, 3, 32, 64}), 1, 2);
    add("Conv2D", f, TensorShape({n, 28, 28, 96}), TensorShape({1, 1, 96, 64}), 1, 1);
    add("Conv2D", f, TensorShape({n, 60, 40, 20}), TensorShape({1, 1, 20, 41}), 1, 1);
    add("Conv2D", f, TensorShape({n, 64, 64, 3}), TensorShape({7, 7, 3, 6}), 2, 1);
    // Of so much work that each thread gets a part of two images.
    add("Conv2D", f, TensorShape({n, 76, 76, 3}), TensorShape({7, 7, 3, 6}), 1, 1);
    add("Conv2D", f, TensorShape({n, 76, 76, 3}), TensorShape({7, 7, 3, 3}), 1, 1);
    add("Conv2D", d, TensorShape({n, 21, 20, 16}), TensorShape({3, 3, 16, 24}), 1, 1);
    add("DepthwiseConv2dNative", f, TensorShape({n, 56, 50, 64}), TensorShape({3, 3, 64, 1}), 1, 1);
    // A band would see nothing but padding.
    add("Conv2D", f, TensorShape({n, 3, 20, 64}), TensorShape({3, 3, 64, 64}), 1, 1, {0, 0, 40, 2, 1, 1, 0, 0});
  }
  // Fewer rows than threads.
  add("Conv2D", f, TensorShape({1, 2, 90, 128}), TensorShape({3, 3, 128, 64}), 1, 1);
  return cases;
}

BOOST_AUTO_TEST_CASE(any_number_of_threads_gives_the_same_bits) {
  for (const Case& c : Cases()) {
    const Tensor x = RandomTensor(c.dtype, c.image, 1), w = RandomTensor(c.dtype, c.filter, 2);
    const Tensor one = Run(c.op, {x, w}, c.attrs, 1)[0];
    for (int threads : {2, 3, 4}) {
      BOOST_CHECK_MESSAGE(SameBytes(Run(c.op, {x, w}, c.attrs, threads)[0], one),
                          c.op << " " << c.image.DebugString() << " * " << c.filter.DebugString() << " differs on "
                               << threads << " threads");
    }
  }
}

// Different images, sizes and calls at the same time see one filter.
BOOST_AUTO_TEST_CASE(a_constant_filter_gives_the_same_bits) {
  const Tensor w = RandomTensor(DType::kFloat, TensorShape({3, 3, 64, 96}), 7);
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), fed = ops::Placeholder(root, DType::kFloat);
  const Output constant = ops::Const(root, w);
  const auto conv = [&](const Output& filter) {
    return ops::Relu(root, ops::Conv2D(root, x, filter, {1, 1, 1, 1}, "SAME"));
  };
  const Output kept = conv(constant), free = conv(fed);
  // The constant itself may be fed, too.
  const Tensor other = RandomTensor(DType::kFloat, w.shape(), 8);
  BOOST_REQUIRE(root.ok());
  SessionOptions options;
  options.runtime_options.threads = 2;
  auto session = *Session::Create(options);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int64_t i = 0; i < 6; ++i) {
        const Tensor image =
            RandomTensor(DType::kFloat, TensorShape({1 + i % 3, 7 + 3 * (caller % 2), 9, 64}), 10 * caller + i);
        const Tensor& filter = i == 4 ? other : w;
        Feeds feeds = {{x.name(), image}, {fed.name(), filter}};
        if (i == 4) feeds.push_back({constant.name(), other});
        std::vector<Tensor> out;
        if (session->Run(feeds, {kept.name(), free.name()}, {}, &out).ok() && SameBytes(out[0], out[1])) ++right;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  BOOST_CHECK_EQUAL(right, 24);
}

// Of its own: the first call's filter is used by all later ones, wherever theirs lies.
BOOST_AUTO_TEST_CASE(the_library_keeps_a_constant_filter) {
  const ConvShape s = MakeConvShape(1, 7, 7, 64, 3, 3, 64, 1), t = MakeConvShape(2, 9, 7, 64, 3, 3, 64, 1);
  for (ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardInput}) {
    DnnlConv kept(pass, true), each(pass);
    const Tensor w = RandomTensor(DType::kFloat, TensorShape({s.filter_size()}), 3);
    for (const ConvShape& shape : {s, t, s}) {
      const Tensor image = RandomTensor(DType::kFloat, TensorShape({shape.input_size()}), 4), copy = w.Clone();
      const float* const x = image.data<float>();
      const float *const a = pass == ConvPass::kForward ? x : copy.data<float>(), *const b = pass == ConvPass::kForward
                                                                                                 ? copy.data<float>()
                                                                                                 : x;
      std::vector<float> got(shape.input_size()), want(shape.input_size());
      BOOST_REQUIRE(kept.Run(shape, a, b, got.data()));
      BOOST_REQUIRE(each.Run(shape, a, b, want.data()));
      BOOST_CHECK(got == want);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conv_split_test
}  // namespace troupe
