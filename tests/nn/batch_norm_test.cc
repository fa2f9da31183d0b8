// Batch normalisation by the batch's own statistics: against a naive oracle, and with the
// activation behind it, forward and backward, as one node with the bits of the separate ones.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/common/run_text.h"

namespace troupe {
namespace batch_norm_test {

struct Case {
  std::string version = "V3", activation = "Relu", format = "NHWC";
  bool training = true;
  TensorShape image{2, 5, 7, 6};
  int64_t channels = 6;
  double epsilon = 0.01;
};

// y, and the gradients of x, scale and offset for the gradient dy of y.
std::string Text(const Case& c) {
  const std::string attrs = StrCat("[is_training=", c.training ? "true" : "false", ", epsilon=", c.epsilon,
                                   ", data_format=\"", c.format, "\"]");
  const std::string statistics = c.training ? "n:3, n:4" : "mean, variance";
  const std::string d = c.activation.empty() ? "dy" : "g";
  return StrCat(R"(x = Placeholder[dtype=float32]
                   dy = Placeholder[dtype=float32]
                   scale = Placeholder[dtype=float32]
                   offset = Placeholder[dtype=float32]
                   mean = Placeholder[dtype=float32]
                   variance = Placeholder[dtype=float32]
                   n = FusedBatchNorm)",
                c.version, attrs, "(x, scale, offset, mean, variance)\n",
                c.activation.empty() ? "y = Identity(n)\n" : StrCat("y = ", c.activation, "(n)\n"),
                c.activation.empty() ? "" : StrCat("g = ", c.activation, "Grad(dy, y)\n"), "d = FusedBatchNormGrad",
                c.version, attrs, "(", d, ", x, scale, ", statistics, c.version == "V3" ? ", n:5)\n" : ")\n");
}

const Names kFetches = {"y", "n:1", "n:2", "n:3", "n:4", "d", "d:1", "d:2"};

Feeds FeedsOf(const Case& c, float middle = 0) {
  const TensorShape vector({c.channels});
  return {{"x", Uniform(c.image, middle - 3, middle + 3, 1)},
          {"dy", Uniform(c.image, -1, 1, 2)},
          {"scale", Uniform(vector, 0.5, 2, 3)},
          {"offset", Uniform(vector, -1, 4, 4)},
          {"mean", Uniform(vector, -1, 1, 5)},
          {"variance", Uniform(vector, 0.5, 2, 6)}};
}

// Small, larger than a block of rows, of one channel, and of many.
std::vector<Case> Shapes() {
  std::vector<Case> cases;
  for (const auto& [image, channels] : std::vector<std::pair<TensorShape, int64_t>>{{{2, 5, 7, 6}, 6},
                                                                                    {{3, 20, 20, 16}, 16},
                                                                                    {{5, 33, 31, 1}, 1},
                                                                                    {{1, 1, 1, 40}, 40},
                                                                                    {{8, 7, 7, 1100}, 1100},
                                                                                    {{4, 40, 40, 33}, 33}}) {
    Case c;
    c.image = image;
    c.channels = channels;
    cases.push_back(c);
  }
  return cases;
}

// What the ops say, in float64.
struct Oracle {
  std::vector<double> y, dx, d_scale, d_offset, mean, variance;

  Oracle(const Case& c, const Feeds& feeds) {
    const auto number = [&](int i, int64_t k) { return static_cast<double>(feeds[i].second.data<float>()[k]); };
    const int64_t all = feeds[0].second.num_elements(), channels = c.channels, rows = all / channels;
    const bool first = c.format == "NCHW";
    const int64_t inner = first ? c.image.dim(2) * c.image.dim(3) : 1;
    const auto channel = [&](int64_t k) { return first ? k / inner % channels : k % channels; };
    mean.resize(channels), variance.resize(channels), d_scale.resize(channels), d_offset.resize(channels);
    y.resize(all), dx.resize(all);
    std::vector<double> g(all), products(channels), sums(channels);
    const double n = static_cast<double>(rows);
    for (int64_t k = 0; k < all; ++k) mean[channel(k)] += number(0, k) / n;
    for (int64_t k = 0; k < all; ++k) variance[channel(k)] += std::pow(number(0, k) - mean[channel(k)], 2) / n;
    for (int64_t i = 0; i < channels && !c.training; ++i) mean[i] = number(4, i), variance[i] = number(5, i);
    for (int64_t k = 0; k < all; ++k) {
      const int64_t i = channel(k);
      const double normed = (number(0, k) - mean[i]) / std::sqrt(variance[i] + c.epsilon);
      y[k] = normed * number(2, i) + number(3, i);
      const bool through = c.activation.empty() || (y[k] > 0 && (c.activation == "Relu" || y[k] < 6));
      if (!c.activation.empty()) y[k] = std::max(y[k], 0.0);
      if (c.activation == "Relu6") y[k] = std::min(y[k], 6.0);
      g[k] = through ? number(1, k) : 0;
      d_offset[i] += g[k];
      d_scale[i] += g[k] * normed;
    }
    for (int64_t k = 0; k < all; ++k) {
      const int64_t i = channel(k);
      const double inverse = 1 / std::sqrt(variance[i] + c.epsilon), normed = (number(0, k) - mean[i]) * inverse;
      dx[k] = number(2, i) * inverse * (c.training ? g[k] - (d_offset[i] + normed * d_scale[i]) / n : g[k]);
    }
  }
};

void CheckNear(const Tensor& got, const std::vector<double>& want, double tolerance, const std::string& what) {
  BOOST_REQUIRE(got.num_elements() == static_cast<int64_t>(want.size()));
  double worst = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const double e = std::abs(static_cast<double>(got.data<float>()[k]) - want[k]) / (1 + std::abs(want[k]));
    worst = e <= worst ? worst : std::isnan(e) ? INFINITY : e;
  }
  BOOST_TEST(worst <= tolerance, what << ": off by " << worst);
}

BOOST_AUTO_TEST_SUITE(batch_norm)

BOOST_AUTO_TEST_CASE(values_and_gradients_are_those_of_the_definition) {
  for (Case c : Shapes()) {
    for (const bool training : {true, false}) {
      for (const char* activation : {"", "Relu", "Relu6"}) {
        for (const bool first : {false, true}) {
          c.training = training, c.activation = activation, c.format = first ? "NCHW" : "NHWC";
          Case turned = c;
          if (first) turned.image = TensorShape({c.image.dim(0), c.image.dim(3), c.image.dim(1), c.image.dim(2)});
          const Feeds feeds = FeedsOf(turned);
          const Oracle want(turned, feeds);
          for (const int threads : {1, 3}) {
            const Result got = RunText(Text(turned), feeds, kFetches, true, threads);
            BOOST_REQUIRE_MESSAGE(got.status.ok(), got.status.ToString());
            const std::string what = StrCat(turned.image.DebugString(), " ", activation, training ? " training" : "",
                                            " ", threads, " threads: ");
            // Where y is as near to a bound as its error, a gradient may go through or not: none is
            // among these numbers.
            CheckNear(got.values[0], want.y, 1e-5, what + "y");
            CheckNear(got.values[3], want.mean, 1e-5, what + "mean");
            CheckNear(got.values[4], want.variance, 1e-5, what + "variance");
            CheckNear(got.values[5], want.dx, 1e-5, what + "dx");
            CheckNear(got.values[6], want.d_scale, 2e-4, what + "d scale");
            CheckNear(got.values[7], want.d_offset, 2e-4, what + "d offset");
          }
        }
      }
    }
  }
}

// A variance of 3 around a mean of 10,000, where sums of squares would have no digits left.
BOOST_AUTO_TEST_CASE(numbers_far_from_zero) {
  for (Case c : Shapes()) {
    c.activation = "";
    const Feeds feeds = FeedsOf(c, 10000);
    const Oracle want(c, feeds);
    const Result got = RunText(Text(c), feeds, kFetches, true, 3);
    BOOST_REQUIRE_MESSAGE(got.status.ok(), got.status.ToString());
    CheckNear(got.values[3], want.mean, 1e-7, "mean");
    CheckNear(got.values[4], want.variance, 1e-5, "variance");
  }
}

// One number that is far from all others, wherever it stands: of sums that begin with it, the
// others would lose their digits.
BOOST_AUTO_TEST_CASE(an_outlier_costs_no_digits) {
  Case c;
  c.activation = "";
  c.channels = 1;
  c.image = TensorShape({1, 200, 200, 1});
  for (const float far : {1.99999f, 1234567.0f}) {
    for (const int64_t at : {0, 63, 64, 20000, 39999}) {
      for (const int threads : {1, 3}) {
        Feeds feeds = FeedsOf(c);
        float* const x = feeds[0].second.data<float>();
        for (int64_t k = 0; k < 40000; ++k)
          x[k] = far > 2 ? static_cast<float>(std::sin(static_cast<double>(k))) : 0.0f;
        x[at] = far;
        const Oracle want(c, feeds);
        const Result got = RunText(Text(c), feeds, kFetches, true, threads);
        BOOST_REQUIRE_MESSAGE(got.status.ok(), got.status.ToString());
        const double mean = static_cast<double>(got.values[3].data<float>()[0]),
                     variance = static_cast<double>(got.values[4].data<float>()[0]);
        BOOST_TEST(std::abs(mean - want.mean[0]) <= 1e-6 * std::abs(want.mean[0]), far << " at " << at);
        BOOST_TEST(std::abs(variance - want.variance[0]) <= 1e-5 * want.variance[0], far << " at " << at);
      }
    }
  }
}

// Sums of float32 overflow, though what is asked for does not.
BOOST_AUTO_TEST_CASE(numbers_near_the_largest) {
  Case c;
  c.activation = "";
  for (const float large : {3e18f, 2e37f, 3e38f}) {
    Feeds feeds = FeedsOf(c);
    float* const x = feeds[0].second.data<float>();
    for (int64_t k = 0; k < feeds[0].second.num_elements(); ++k) x[k] = k / 6 % 2 == 0 ? large : -large / 3;
    const Oracle want(c, feeds);
    const Result got = RunText(Text(c), feeds, kFetches, true);
    BOOST_REQUIRE_MESSAGE(got.status.ok(), got.status.ToString());
    for (int64_t i = 0; i < c.channels; ++i) {
      BOOST_TEST(std::abs(static_cast<double>(got.values[3].data<float>()[i]) / want.mean[i] - 1) < 1e-6);
      const auto variance = static_cast<double>(got.values[4].data<float>()[i]);
      BOOST_TEST((large > 1e19f ? std::isinf(variance) : std::abs(variance / want.variance[i] - 1) < 1e-5));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_activation_is_taken_along) {
  for (Case c : Shapes()) {
    for (const char* version : {"", "V2", "V3"}) {
      for (const char* activation : {"Relu", "Relu6"}) {
        for (const bool training : {true, false}) {
          c.version = version, c.activation = activation, c.training = training;
          const Feeds feeds = FeedsOf(c);
          const Result off = RunText(Text(c), feeds, kFetches, false), on = RunText(Text(c), feeds, kFetches, true);
          BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
          BOOST_TEST_CONTEXT(c.image.DebugString() << " " << version << " " << activation) {
            BOOST_TEST(Count(on, "_FusedBatchNormEx") == 1, on.ops);
            BOOST_TEST(Count(on, "_FusedBatchNormGradEx") == 1, on.ops);
            BOOST_TEST(!Has(on, StrCat(activation, "Grad")), on.ops);
            BOOST_TEST(!Has(off, "_FusedBatchNormEx"), off.ops);
            for (size_t i = 0; i < kFetches.size(); ++i) BOOST_TEST(SameBits(on.values[i], off.values[i]), kFetches[i]);
          }
        }
      }
    }
  }
}

// Infinities and NaN go the same way.
BOOST_AUTO_TEST_CASE(what_is_not_finite) {
  Case c;
  for (const char* activation : {"Relu", "Relu6"}) {
    for (const bool training : {true, false}) {
      for (const int which : {0, 1, 2, 3}) {
        c.activation = activation, c.training = training;
        Feeds feeds = FeedsOf(c);
        for (const float bad : {INFINITY, -INFINITY, NAN}) {
          feeds[which].second.data<float>()[2] = bad;
          const Result off = RunText(Text(c), feeds, kFetches, false), on = RunText(Text(c), feeds, kFetches, true);
          BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
          for (size_t i = 0; i < kFetches.size(); ++i) {
            for (int64_t k = 0; k < on.values[i].num_elements(); ++k) {
              const float a = on.values[i].data<float>()[k], b = off.values[i].data<float>()[k];
              BOOST_REQUIRE(((std::isnan(a) && std::isnan(b)) || a == b));
            }
          }
        }
      }
    }
  }
}

// Where somebody needs what would vanish, waits for it, or another gradient reads it.
BOOST_AUTO_TEST_CASE(what_is_not_fused) {
  const Case c;
  const Feeds feeds = FeedsOf(c);
  for (const char* also : {"n", "g"}) {
    Names fetches = kFetches;
    fetches.push_back(also);
    const Result off = RunText(Text(c), feeds, fetches, false), on = RunText(Text(c), feeds, fetches, true);
    BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
    BOOST_TEST(Has(on, "_FusedBatchNormEx") == (std::string(also) == "g"), on.ops);
    BOOST_TEST(!Has(on, "_FusedBatchNormGradEx"), on.ops);
    for (size_t i = 0; i < fetches.size(); ++i) BOOST_TEST(SameBits(on.values[i], off.values[i]), fetches[i]);
  }
  const auto replaced = [&](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  // The Relu waits for a node that reads the statistics; the gradient is of another epsilon, scale,
  // image or activation, or of other statistics.
  const std::string text = Text(c), grad = "(g, x, scale, n:3, n:4, n:5)";
  const std::string waits = replaced(text, "y = Relu(n)\n", "late = Identity(n:1)\ny = Relu(n, ^late)\n");
  const Result on = RunText(waits, feeds, kFetches, true);
  BOOST_REQUIRE_MESSAGE(on.status.ok(), on.status.ToString());
  BOOST_TEST(!Has(on, "_FusedBatchNormEx"), on.ops);
  for (const std::string& other :
       {replaced(text, grad, "(g, dy, scale, n:3, n:4, n:5)"), replaced(text, grad, "(g, x, offset, n:3, n:4, n:5)"),
        replaced(text, grad, "(g, x, scale, n:4, n:3, n:5)"), replaced(text, grad, "(g, x, scale, n:1, n:2, n:5)"),
        replaced(text, "ReluGrad(dy, y)", "Relu6Grad(dy, y)"), replaced(text, "ReluGrad(dy, y)", "ReluGrad(dy, x)"),
        replaced(text, "GradV3[is_training=true, epsilon=0.01", "GradV3[is_training=true, epsilon=0.02")}) {
    const Result apart = RunText(other, feeds, kFetches, false), together = RunText(other, feeds, kFetches, true);
    BOOST_REQUIRE_MESSAGE(apart.status.ok() && together.status.ok(), apart.status.ToString());
    BOOST_TEST(Has(together, "_FusedBatchNormEx"), together.ops);
    BOOST_TEST(!Has(together, "_FusedBatchNormGradEx"), together.ops);
    for (size_t i = 0; i < kFetches.size(); ++i) BOOST_TEST(SameBits(together.values[i], apart.values[i]));
  }
}

BOOST_AUTO_TEST_CASE(errors_name_the_separate_nodes) {
  const Case c;
  struct Wrong {
    size_t feed;
    TensorShape shape;
    const char *fetch, *node;
  };
  for (const Wrong& w : {Wrong{2, {7}, "y", "'n'"}, Wrong{3, {6, 1}, "y", "'n'"}, Wrong{0, {6}, "y", "'n'"},
                         Wrong{1, {2, 5, 7, 5}, "d", "'g'"}}) {
    Feeds feeds = FeedsOf(c);
    feeds[w.feed].second = Uniform(w.shape, 0, 1, 8);
    const Result off = RunText(Text(c), feeds, {w.fetch}, false), on = RunText(Text(c), feeds, {w.fetch}, true);
    BOOST_TEST(on.status.code() == absl::StatusCode::kInvalidArgument);
    BOOST_TEST(on.status.message() == off.status.message());
    BOOST_TEST(on.status.message().find(w.node) != std::string::npos, on.status.message());
  }
}

// A variable that is read by reference may have another value when the gradient runs.
BOOST_AUTO_TEST_CASE(a_variable_that_changes_in_between) {
  const TensorShape image({1, 2, 2, 2}), vector({2});
  const Feeds feeds = {
      {"x", Uniform(image, -3, 3, 1)}, {"dy", Uniform(image, 1, 2, 2)}, {"v", Uniform(vector, 1, 2, 3)}};
  struct Reads {
    const char *training, *norm, *grad;
  };
  for (const Reads& reads :
       {Reads{"true", "off, v, v, v", "off, n:3, n:4"}, Reads{"true", "v, off, v, v", "v, n:3, n:4"},
        Reads{"false", "v, v, off, v", "v, off, v"}, Reads{"false", "v, v, v, off", "v, v, off"}}) {
    const std::string attrs = StrCat("[epsilon=0.01, is_training=", reads.training, "]");
    const std::string text = StrCat(R"(x = Placeholder[dtype=float32]
                                       dy = Placeholder[dtype=float32]
                                       v = Placeholder[dtype=float32]
                                       off = VariableV2[dtype=float32, shape=[2]]
                                       init = Assign(off, v)
                                       n = FusedBatchNormV3)",
                                    attrs, "(x, ", reads.norm, R"(, ^init)
                                       y = Relu(n)
                                       big = Const[value=float32[2]{100,100}]
                                       later = Assign(off, big, ^y)
                                       g = ReluGrad(dy, y, ^later)
                                       d = FusedBatchNormGradV3)",
                                    attrs, "(g, x, ", reads.grad, ", n:5)");
    const Names fetches = {"d", "d:1", "d:2"};
    const Result off = RunText(text, feeds, fetches, false, 1), on = RunText(text, feeds, fetches, true, 1);
    BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
    BOOST_TEST(Has(on, "_FusedBatchNormEx"), on.ops);
    BOOST_TEST(!Has(on, "_FusedBatchNormGradEx"), on.ops);
    for (size_t i = 0; i < fetches.size(); ++i) BOOST_TEST(SameBits(on.values[i], off.values[i]), reads.norm);
  }
}

// What the gradient is given as reserve may be dead where the normalisation is not.
BOOST_AUTO_TEST_CASE(a_dead_reserve) {
  const Case c;
  std::string text = Text(c);
  const std::string reserves = "n:3, n:4, n:5)";
  text.replace(text.find(reserves), reserves.size(), "n:3, n:4, r:0)");
  StrAppend(&text, R"(
      pp = Placeholder[dtype=bool]
      r = Switch(n:5, pp))");
  Feeds feeds = FeedsOf(c);
  feeds.emplace_back("pp", Tensor::Scalar(true));
  const Result off = RunText(text, feeds, {"d"}, false), on = RunText(text, feeds, {"d"}, true);
  BOOST_TEST(on.status.code() == absl::StatusCode::kInvalidArgument, on.status.ToString());
  BOOST_TEST(on.status.message() == off.status.message());
}

// As they may come in a file.
BOOST_AUTO_TEST_CASE(fused_ops_by_themselves) {
  const Case c;
  const auto text = [](const char* attrs, const char* sides) {
    return StrCat(R"(x = Placeholder[dtype=float32]
                     v = Placeholder[dtype=float32]
                     y = _FusedBatchNormEx[T=float32, U=float32, )",
                  attrs, "](x, v, v, v, v", sides, ")");
  };
  const Feeds feeds = {{"x", Random(c.image, 1)}, {"v", Uniform({6}, 1, 2, 2)}};
  const Result none = RunText(text("epsilon=0.01", ""), feeds, {"y"}, true);
  BOOST_TEST(none.status.ok(), none.status.ToString());
  const Result tanh = RunText(text("activation_mode=\"Tanh\"", ""), feeds, {"y"}, true);
  BOOST_TEST(tanh.status.code() == absl::StatusCode::kUnimplemented, tanh.status.ToString());
  const Result side = RunText(text("num_side_inputs=1", ", x"), feeds, {"y"}, true);
  BOOST_TEST(side.status.code() == absl::StatusCode::kUnimplemented, side.status.ToString());
}

// dx takes the place of a gradient or an image that nobody else needs, and of none that somebody
// does.
BOOST_AUTO_TEST_CASE(a_gradient_that_is_needed_stays) {
  Case c;
  c.activation = "";
  const std::string text = StrCat(Text(c), "\nz = Neg(dy)\ntwice = FusedBatchNormGradV3[is_training=true, ",
                                  "epsilon=0.01](z, x, scale, n:3, n:4, n:5)\nboth = Add(z, twice)\n");
  const Feeds feeds = FeedsOf(c);
  const Result got = RunText(text, feeds, {"dy", "d", "twice", "z"}, true);
  BOOST_REQUIRE_MESSAGE(got.status.ok(), got.status.ToString());
  BOOST_TEST(SameBits(got.values[0], feeds[1].second));
  for (int64_t k = 0; k < got.values[1].num_elements(); ++k) {
    BOOST_REQUIRE(got.values[3].data<float>()[k] == -feeds[1].second.data<float>()[k]);
    BOOST_REQUIRE(got.values[2].data<float>()[k] == -got.values[1].data<float>()[k]);
  }
}

BOOST_AUTO_TEST_CASE(an_image_that_nobody_needs_gives_its_place) {
  for (const char* activation : {"", "Relu"}) {
    Case c;
    c.activation = activation;
    // x and y are nodes of the step, and the gradient is their last reader.
    std::string text = Text(c);
    text.replace(text.find("x = Placeholder"), 1, "fed");
    text = "x = Neg(fed)\n" + text;
    Feeds feeds = FeedsOf(c);
    feeds[0].first = "fed";
    for (const Names& fetches : {Names{"d"}, Names{"d", "x"}, Names{"d", "y"}, Names{"d", "x", "y"}}) {
      const Result off = RunText(text, feeds, fetches, false, 1), on = RunText(text, feeds, fetches, true, 1);
      BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
      const Result all = RunText(text, feeds, {"d", "x", "y", "dy"}, false, 1);
      for (size_t i = 0; i < fetches.size(); ++i) {
        BOOST_TEST(SameBits(on.values[i], off.values[i]), fetches[i]);
        const size_t k = fetches[i] == "d" ? 0 : fetches[i] == "x" ? 1 : 2;
        BOOST_TEST(SameBits(on.values[i], all.values[k]), fetches[i]);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace batch_norm_test
}  // namespace troupe
