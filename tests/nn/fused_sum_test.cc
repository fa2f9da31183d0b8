// A convolution with the residual sum, or the gate of swish, behind it is one node, and gives the
// bits and the errors of the separate ones.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/common/run_text.h"

namespace troupe {
namespace fused_sum_test {

// By each of the ways to compute a convolution, small and larger than a second-level cache.
struct Shape {
  const char* conv;
  std::initializer_list<int64_t> image, filter;
  int64_t channels;
};
const Shape kShapes[] = {
    {"Conv2D", {2, 14, 12, 32}, {3, 3, 32, 40}, 40}, {"Conv2D", {5, 12, 9, 3}, {3, 3, 3, 6}, 6},
    {"Conv2D", {3, 30, 30, 20}, {1, 1, 20, 41}, 41}, {"Conv2D", {1, 40, 40, 16}, {3, 3, 16, 96}, 96},
    {"Conv2D", {3, 40, 40, 16}, {3, 3, 16, 96}, 96}, {"DepthwiseConv2dNative", {2, 20, 20, 24}, {3, 3, 24, 2}, 48}};

TensorShape Dims(std::initializer_list<int64_t> d) {
  const std::vector<int64_t> dims(d);
  return TensorShape(absl::MakeConstSpan(dims));
}

std::string Text(const Shape& s, bool norm, const std::string& tail, const std::string& format = "NHWC",
                 const std::string& type = "float32") {
  const std::string attr = StrCat("data_format=\"", format, "\"");
  std::vector<int64_t> image(s.image);
  const std::string sizes = format == "NHWC" ? StrCat("[?,", image[1], ",", image[2], ",", s.channels, "]")
                                             : StrCat("[?,", s.channels, ",", image[1], ",", image[2], "]");
  const std::string input = format == "NHWC" ? StrCat("[?,", image[1], ",", image[2], ",", image[3], "]")
                                             : StrCat("[?,", image[3], ",", image[1], ",", image[2], "]");
  std::vector<int64_t> f(s.filter);
  return StrCat("x = Placeholder[dtype=", type, ", shape=", input, "]\nw = Placeholder[dtype=", type, ", shape=[", f[0],
                ",", f[1], ",", f[2], ",", f[3], "]]\nother = Placeholder[dtype=", type, ", shape=", sizes, "]\n", R"(
                scale = Placeholder[dtype=float32]
                offset = Placeholder[dtype=float32]
                mean = Placeholder[dtype=float32]
                variance = Placeholder[dtype=float32]
                c = )",
                s.conv, "[strides={1, 1, 1, 1}, padding=\"SAME\", ", attr, "](x, w)\n",
                norm ? StrCat("n = FusedBatchNormV3[is_training=false, epsilon=0.01, ", attr,
                              "](c, scale, offset, mean, variance)\n")
                     : "n = Identity(c)\n",
                tail);
}

// The text without an Identity where there is no norm.
std::string Plain(std::string text) {
  const std::string copy = "n = Identity(c)\n";
  if (const size_t at = text.find(copy); at != std::string::npos) {
    text.erase(at, copy.size());
    for (size_t i = text.find("(n", at); i != std::string::npos; i = text.find("(n", i)) text[i + 1] = 'c';
    for (size_t i = text.find(", n)", at); i != std::string::npos; i = text.find(", n)", i)) text[i + 2] = 'c';
  }
  return text;
}

Feeds FeedsOf(const Shape& s, bool norm, bool first = false) {
  std::vector<int64_t> image(s.image);
  TensorShape in = Dims(s.image), sum({image[0], image[1], image[2], s.channels});
  if (first)
    in = TensorShape({image[0], image[3], image[1], image[2]}),
    sum = TensorShape({image[0], s.channels, image[1], image[2]});
  Feeds feeds = {
      {"x", Uniform(in, -1, 1, 1)}, {"w", Uniform(Dims(s.filter), -1, 1, 2)}, {"other", Uniform(sum, -3, 3, 8)}};
  if (norm) {
    feeds.emplace_back("scale", Uniform(TensorShape({s.channels}), 0.5, 2, 3));
    feeds.emplace_back("offset", Uniform(TensorShape({s.channels}), -1, 1, 4));
    feeds.emplace_back("mean", Uniform(TensorShape({s.channels}), -1, 1, 5));
    feeds.emplace_back("variance", Uniform(TensorShape({s.channels}), 0.1, 2, 6));
  }
  return feeds;
}

struct Tail {
  const char* text;
  bool adds;
};
const Tail kTails[] = {{"y = AddV2(n, other)", true},
                       {"a = AddV2(other, n)\ny = Relu(a)", true},
                       {"a = Add(n, other)\ny = Relu6(a)", true},
                       {"a = AddV2(n, other)\ny = Elu(a)", true},
                       {"a = AddV2(n, other)\ns = Sigmoid(a)\ny = Mul(a, s)", true},
                       {"s = Sigmoid(n)\ny = Mul(n, s)", false},
                       {"s = Sigmoid(n)\ny = Mul(s, n)", false}};

BOOST_AUTO_TEST_SUITE(fused_sum)

BOOST_AUTO_TEST_CASE(bits_are_those_of_the_separate_nodes) {
  for (const Shape& s : kShapes) {
    for (const Tail& tail : kTails) {
      for (const bool norm : {false, true}) {
        for (const char* format : {"NHWC", "NCHW"}) {
          const bool first = format == std::string("NCHW");
          if (first && s.conv != std::string("Conv2D")) continue;
          BOOST_TEST_CONTEXT(s.conv << " " << s.channels << " " << tail.text << " " << norm << " " << format) {
            const std::string text = Plain(Text(s, norm, tail.text, format));
            const Feeds feeds = FeedsOf(s, norm, first);
            const Result off = RunText(text, feeds, {"y"}, false), on = RunText(text, feeds, {"y"}, true);
            BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
            BOOST_TEST(Has(on, s.conv == std::string("Conv2D") ? "_FusedConv2D" : "_FusedDepthwiseConv2dNative"),
                       on.ops);
            for (const char* op : {"Add", "AddV2", "Mul", "Sigmoid", "Relu", "_FusedElementwise"})
              BOOST_TEST(!Has(on, op), on.ops);
            BOOST_TEST(SameBits(on.values[0], off.values[0]));
          }
        }
      }
    }
  }
}

// Float64 has sums, and no gates.
BOOST_AUTO_TEST_CASE(other_types) {
  const Shape& s = kShapes[0];
  for (const Tail& tail : kTails) {
    const std::string text = Plain(Text(s, false, tail.text, "NHWC", "float64"));
    Feeds feeds;
    for (const auto& [name, value] : FeedsOf(s, false)) {
      Tensor wide(DType::kDouble, value.shape());
      for (int64_t i = 0; i < value.num_elements(); ++i) wide.data<double>()[i] = value.data<float>()[i];
      feeds.emplace_back(name, wide);
    }
    const Result off = RunText(text, feeds, {"y"}, false), on = RunText(text, feeds, {"y"}, true);
    BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
    BOOST_TEST(Has(on, "_FusedConv2D") == tail.adds, on.ops);
    BOOST_TEST(SameBits(on.values[0], off.values[0]), tail.text);
  }
}

// What broadcasts against the convolution only when it runs.
BOOST_AUTO_TEST_CASE(an_addend_of_another_number_of_images) {
  const Shape& s = kShapes[0];
  for (const bool norm : {false, true}) {
    for (const int64_t images : {int64_t{1}, int64_t{3}}) {
      const std::string text = Plain(Text(s, norm, "a = AddV2(n, other)\ny = Relu(a)"));
      Feeds feeds = FeedsOf(s, norm);
      feeds[2].second = Uniform(TensorShape({images, 14, 12, 40}), -3, 3, 9);
      const Result off = RunText(text, feeds, {"y"}, false), on = RunText(text, feeds, {"y"}, true);
      BOOST_TEST(on.status.code() == off.status.code());
      BOOST_TEST(on.status.ok() == (images == 1));
      if (images == 1) {
        BOOST_TEST(SameBits(on.values[0], off.values[0]));
      } else {
        BOOST_TEST(on.status.message().find("Incompatible shapes") != std::string::npos, on.status.message());
        BOOST_TEST(on.status.message().find("'a'") != std::string::npos, on.status.message());
      }
      // One image, and an addend of several.
      feeds[0].second = Uniform(TensorShape({1, 14, 12, 32}), -1, 1, 1);
      const Result wide_off = RunText(text, feeds, {"y"}, false), wide_on = RunText(text, feeds, {"y"}, true);
      BOOST_REQUIRE_MESSAGE(wide_off.status.ok() && wide_on.status.ok(), wide_on.status.ToString());
      BOOST_TEST(SameBits(wide_on.values[0], wide_off.values[0]));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_fused) {
  const Shape& s = kShapes[0];
  const Feeds feeds = FeedsOf(s, true);
  const struct {
    const char* tail;
    Names fetches;
    const char* stays;
  } kCases[] = {{"a = AddV2(n, other)\ny = Relu(a)", {"y", "n"}, "_FusedElementwise"},
                {"a = AddV2(n, other)\ny = Relu(a)", {"y", "a"}, "Relu"},
                {"a = AddV2(n, n)\ny = Relu(a)", {"y"}, "_FusedElementwise"},
                {"a = AddV2(n, other)\nb = Neg(other, ^n)\ny = Sub(a, b)", {"y"}, "_FusedElementwise"},
                {"s = Sigmoid(n)\ny = Mul(n, s)", {"y", "s"}, "Sigmoid"},
                {"s = Sigmoid(n)\ny = Mul(n, s)\nz = Neg(n)", {"y", "z"}, "_FusedElementwise"},
                {"s = Sigmoid(n)\ny = Mul(n, n)\nz = Neg(s)", {"y", "z"}, "_FusedElementwise"},
                {"s = Sigmoid(n)\ny = Mul(other, s)", {"y"}, "_FusedElementwise"},
                {"s = Sigmoid(n)\ny = AddV2(n, s)", {"y"}, "_FusedElementwise"}};
  for (const auto& c : kCases) {
    const std::string text = Text(s, true, c.tail);
    const Result off = RunText(text, feeds, c.fetches, false), on = RunText(text, feeds, c.fetches, true);
    BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
    BOOST_TEST(Has(on, c.stays), c.tail << ": " << on.ops);
    for (size_t i = 0; i < c.fetches.size(); ++i) BOOST_TEST(SameBits(on.values[i], off.values[i]), c.tail);
  }
}

// Blocks one behind the other, with a convolution in the short cut.
BOOST_AUTO_TEST_CASE(residual_blocks) {
  std::string text = "x = Placeholder[dtype=float32, shape=[?,20,20,16]]\nf0 = Identity(x)\n";
  Feeds feeds = {{"x", Uniform(TensorShape({2, 20, 20, 16}), -1, 1, 1)},
                 {"seed", Uniform(TensorShape({16}), -1, 1, 2)}};
  text += "seed = Placeholder[dtype=float32]\n";
  for (int i = 0; i < 3; ++i) {
    const std::string in = StrCat("f", i);
    StrAppend(&text, "v", i, " = Placeholder[dtype=float32, shape=[1,1,16,16]]\nu", i,
              " = Placeholder[dtype=float32, shape=[1,1,16,16]]\nc", i,
              " = Conv2D[strides={1, 1, 1, 1}, padding=\"SAME\"](", in, ", v", i, ")\nn", i, " = BiasAdd(c", i,
              ", seed)\n");
    const std::string cut = i == 0 ? "k0" : in;
    if (i == 0)
      StrAppend(&text, "j0 = Conv2D[strides={1, 1, 1, 1}, padding=\"SAME\"](", in, ", u0)\nk0 = BiasAdd(j0, seed)\n");
    StrAppend(&text, "a", i, " = AddV2(n", i, ", ", cut, ")\nf", i + 1, " = Relu(a", i, ")\n");
    feeds.emplace_back(StrCat("v", i), Uniform(TensorShape({1, 1, 16, 16}), -0.3, 0.3, 10 + i));
  }
  feeds.emplace_back("u0", Uniform(TensorShape({1, 1, 16, 16}), -0.3, 0.3, 20));
  const Result off = RunText(text, feeds, {"f3"}, false), on = RunText(text, feeds, {"f3"}, true);
  BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
  BOOST_TEST(!Has(on, "AddV2"), on.ops);
  BOOST_TEST(!Has(on, "_FusedElementwise"), on.ops);
  const Tensor &got = on.values[0], &want = off.values[0];
  int wrong = 0;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    // The library may add its bias before other terms.
    wrong +=
        !(std::abs(got.data<float>()[i] - want.data<float>()[i]) <= 1e-5f * std::abs(want.data<float>()[i]) + 1e-6f);
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_goes_the_same_ways) {
  for (const Shape& s : kShapes) {
    for (const Tail& tail : kTails) {
      for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
        for (int where = 0; where < 3; ++where) {
          Feeds feeds = FeedsOf(s, true);
          Tensor& t = feeds[where].second;
          t.data<float>()[t.num_elements() / 2] = bad;
          const std::string text = Text(s, true, tail.text);
          const Result off = RunText(text, feeds, {"y"}, false), on = RunText(text, feeds, {"y"}, true);
          BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
          int wrong = 0;
          for (int64_t i = 0; i < on.values[0].num_elements(); ++i) {
            const float got = on.values[0].data<float>()[i], want = off.values[0].data<float>()[i];
            wrong += !(got == want || (std::isnan(got) && std::isnan(want)));
          }
          BOOST_TEST(wrong == 0,
                     s.conv << s.channels << " " << tail.text << ", " << bad << " in " << feeds[where].first);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fused_sum_test
}  // namespace troupe
