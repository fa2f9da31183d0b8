// NaN and infinities: whatever computes an activation or an extreme, at whatever place of a vector,
// for every shape of a convolution and fused or not, the value is the one that the separate op has.
// ctest runs this suite at each instruction level (nn_v2, nn_v3 beside nn).
#include <array>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>

#include "kernels/common/isa.h"
#include "kernels/nn/conv_direct.h"
#include "kernels/nn/conv_generic.h"
#include "kernels/nn/conv_pointwise.h"
#include "kernels/nn/dnnl_conv.h"
#include "tests/nn/conv_oracle.h"

namespace troupe {
namespace not_finite_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

bool Same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Where the values differ at all: "" when nowhere.
std::string Difference(const std::vector<float>& got, const std::vector<float>& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (!Same(got[i], want[i])) return StrCat("element ", i, " is ", got[i], ", not ", want[i]);
  }
  return "";
}

using ConvRun =
    std::function<bool(ConvPass, const ConvShape&, const float*, const float*, float*, const ConvEpilogue<float>&)>;

// Checks that run's activations are those of FinishForward on its own sums. A NaN or an infinity is
// put into one element of input, filter or bias.
void CheckActivations(const ConvShape& s, const char* who, const ConvRun& run, int* taken) {
  const ConvProblem p(s);
  for (const float bad : {kNaN, kInf, -kInf}) {
    for (int where = 0; where < 3; ++where) {
      std::vector<float> x = Floats(p.x), f = Floats(p.f), bias = Floats(p.bias);
      std::vector<float>& in = where == 0 ? x : where == 1 ? f : bias;
      in[in.size() / 2] = bad;
      for (const bool with_bias : {true, false}) {
        ConvEpilogue<float> e;
        e.bias = with_bias ? bias.data() : nullptr;
        std::vector<float> plain(s.output_size());
        if (!run(ConvPass::kForward, s, x.data(), f.data(), plain.data(), e)) continue;
        ++*taken;
        if (std::isnan(bad) && (with_bias || where < 2)) {
          BOOST_CHECK_MESSAGE(std::any_of(plain.begin(), plain.end(), [](float v) { return std::isnan(v); }),
                              who << " " << Text(s) << ": a NaN in operand " << where << " is lost");
        }
        for (const ConvActivation a : {ConvActivation::kRelu, ConvActivation::kRelu6, ConvActivation::kElu}) {
          std::vector<float> got(s.output_size()), want = plain;
          FinishForward<float>({nullptr, a}, s.n * s.oh * s.ow, s.oc, want.data());
          e.activation = a;
          BOOST_REQUIRE(run(ConvPass::kForward, s, x.data(), f.data(), got.data(), e));
          const std::string difference = Difference(got, want);
          BOOST_CHECK_MESSAGE(difference.empty(), who << " " << Text(s) << " operand " << where << " " << bad
                                                      << (with_bias ? " bias" : "") << " activation "
                                                      << static_cast<int>(a) << ": " << difference);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE(not_finite)

BOOST_AUTO_TEST_CASE(activations_of_every_way_to_convolve) {
  int library = 0, direct = 0, pointwise = 0, generic = 0;
  for (const auto& [n, k, c, oc] : std::vector<std::array<int64_t, 4>>{{1, 2, 4, 16},
                                                                       {1, 3, 4, 8},
                                                                       {1, 3, 16, 16},
                                                                       {1, 3, 16, 32},
                                                                       {1, 3, 2, 2},
                                                                       {2, 3, 3, 3},
                                                                       {5, 5, 1, 6},
                                                                       {4, 3, 6, 12},
                                                                       {1, 1, 8, 16},
                                                                       {3, 1, 9, 33},
                                                                       {1, 1, 16, 50},
                                                                       {2, 3, 5, 7},
                                                                       {6, 3, 64, 64}}) {
    const ConvShape s = MakeConvShape(n, 7, 6, c, k, k, oc, k == 5 ? 2 : 1);
    DnnlConv dnnl(ConvPass::kForward);
    CheckActivations(
        s, "library", [&](ConvPass, auto... a) { return dnnl.Run(a...); }, &library);
    CheckActivations(
        s, "direct", [](auto... a) { return DirectConv(a...); }, &direct);
    if (k == 1)
      CheckActivations(
          s, "pointwise", [](auto... a) { return PointwiseConv(a...), true; }, &pointwise);
    CheckActivations(
        s, "generic",
        [](ConvPass pass, const ConvShape& s, const float* a, const float* b, float* out,
           const ConvEpilogue<float>& e) {
          GenericConv<float>(pass, s, a, b, out);
          FinishForward(e, s.n * s.oh * s.ow, s.oc, out);
          return true;
        },
        &generic);
  }
  BOOST_TEST(library > 0);
  BOOST_TEST(pointwise > 0);
  BOOST_TEST(generic > 0);
  if (IsaLevel() >= 3) BOOST_TEST(direct > 0);
}

// Images are taken by fours. Where windows stay within the image, what is not finite reaches the
// elements of the filter's gradient that it reaches by the plain sum, and as that.
BOOST_AUTO_TEST_CASE(images_that_are_not_there_make_no_infinity_a_nan) {
  int direct = 0;
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7}) {
    for (const auto& [c, oc] : std::vector<std::array<int64_t, 2>>{{1, 1}, {2, 8}, {4, 16}, {3, 5}}) {
      const ConvShape s = MakeConvShape(n, 5, 5, c, 3, 3, oc, 1, 1, /*valid=*/true);
      std::vector<float> x = Floats(RandomValues(n * 25 * c, 1)), d(static_cast<size_t>(n * 9 * oc), 1.0f);
      x[static_cast<size_t>((n - 1) / 4 * 4 * 25 * c + 12 * c)] = kInf;  // the centre of the last group's first
      std::vector<float> got(static_cast<size_t>(9 * c * oc), 0.0f), want = got;
      if (!DirectConv(ConvPass::kBackwardFilter, s, x.data(), d.data(), got.data(), {})) continue;
      ++direct;
      GenericConv<float>(ConvPass::kBackwardFilter, s, x.data(), d.data(), want.data());
      for (size_t i = 0; i < want.size(); ++i) {
        BOOST_CHECK_MESSAGE(Same(got[i], want[i]) || std::abs(got[i] - want[i]) < 1e-4f,
                            Text(s) << ": element " << i << " is " << got[i] << ", not " << want[i]);
      }
    }
  }
  if (IsaLevel() >= 3) BOOST_TEST(direct > 0);
}

// Many images: the library takes some at a time when an activation follows.
BOOST_AUTO_TEST_CASE(images_taken_a_few_at_a_time_have_the_bits_of_all_at_once) {
  for (const int64_t n : {1, 7, 12, 13, 64}) {
    const ConvShape s = MakeConvShape(n, 32, 33, 5, 3, 3, 32, 1);
    const ConvProblem p(s);
    std::vector<float> x = Floats(p.x), f = Floats(p.f), bias = Floats(p.bias), want(s.output_size()),
                       got(s.output_size());
    x[x.size() - 3] = kNaN;
    DnnlConv dnnl(ConvPass::kForward);
    ConvEpilogue<float> e;
    e.bias = bias.data();
    BOOST_REQUIRE(dnnl.Run(s, x.data(), f.data(), want.data(), e));
    FinishForward<float>({nullptr, ConvActivation::kRelu6}, n * s.oh * s.ow, s.oc, want.data());
    e.activation = ConvActivation::kRelu6;
    for (int i = 0; i < 2; ++i) {
      BOOST_REQUIRE(dnnl.Run(s, x.data(), f.data(), got.data(), e));
      const std::string difference = Difference(got, want);
      BOOST_CHECK_MESSAGE(difference.empty(), Text(s) << ": " << difference);
    }
  }
}

// The ops themselves, in every type.
BOOST_AUTO_TEST_CASE(fused_ops_against_separate_ones) {
  const AttrMap window = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  for (const DType type : {DType::kFloat, DType::kDouble, DType::kHalf}) {
    for (const auto& [k, c, oc] :
         std::vector<std::array<int64_t, 3>>{{2, 4, 16}, {3, 16, 16}, {3, 4, 8}, {1, 4, 8}, {3, 3, 5}}) {
      for (const float bad : {kNaN, kInf, -kInf}) {
        for (int where = 0; where < 3; ++where) {
          Tensor in[3] = {RandomTensor(type, TensorShape({2, 6, 6, c}), 1),
                          RandomTensor(type, TensorShape({k, k, c, oc}), 2), RandomTensor(type, TensorShape({oc}), 3)};
          std::vector<double> v = ToDoubles(in[where]);
          v[v.size() / 3] = bad;
          in[where] = MakeTensor(type, in[where].shape(), v);
          const Tensor sum = Run("BiasAdd", {Run("Conv2D", {in[0], in[1]}, window)[0], in[2]})[0];
          for (const char* op : {"Relu", "Relu6", "Elu"}) {
            AttrMap fused = window;
            fused.Set("fused_ops", std::vector<std::string>{"BiasAdd", op});
            fused.Set("num_args", int64_t{1});
            fused.Set("TArgs", std::vector<DType>{type});
            auto out = EvaluateOp("_FusedConv2D", {in[0], in[1], in[2]}, fused, {1, 0});
            BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
            const std::vector<double> got = ToDoubles((*out)[0]), want = ToDoubles(Run(op, {sum})[0]);
            for (size_t i = 0; i < want.size(); ++i) {
              if (Same(got[i], want[i])) continue;
              BOOST_CHECK_MESSAGE(std::abs(got[i] - want[i]) <= 32 * Tolerance(type),
                                  op << " " << Name(type) << " k " << k << " " << c << " -> " << oc << " operand "
                                     << where << " " << bad << ": element " << i << " is " << got[i] << ", not "
                                     << want[i]);
            }
          }
        }
      }
    }
  }
}

struct EdgeCase {
  const char* op;
  double nan, inf, minus_inf;
};
constexpr double kSelu = -1.7580993408473768;
const EdgeCase kEdges[] = {{"Relu", kNaN, kInf, 0},          {"Relu6", kNaN, 6, 0},
                           {"Elu", kNaN, kInf, -1},          {"Selu", kNaN, kInf, kSelu},
                           {"LeakyRelu", kNaN, kInf, -kInf}, {"Softplus", kNaN, kInf, 0},
                           {"Softsign", kNaN, kNaN, kNaN},   {"Tanh", kNaN, 1, -1},
                           {"Sigmoid", kNaN, 1, 0},          {"Abs", kNaN, kInf, kInf},
                           {"Square", kNaN, kInf, kInf},     {"Exp", kNaN, kInf, 0}};

BOOST_AUTO_TEST_CASE(unary_ops_at_every_place) {
  for (const EdgeCase& c : kEdges) {
    for (const DType type : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
      for (const int64_t n : {1, 5, 16, 37}) {
        const std::vector<double> base = RandomValues(n, 9);
        const std::vector<double> plain = ToDoubles(Run(c.op, {MakeTensor(type, TensorShape({n}), base)})[0]);
        for (int64_t at = 0; at < n; ++at) {
          for (const auto& [bad, want] :
               {std::pair(static_cast<double>(kNaN), c.nan), std::pair(static_cast<double>(kInf), c.inf),
                std::pair(-static_cast<double>(kInf), c.minus_inf)}) {
            std::vector<double> v = base;
            v[at] = bad;
            const std::vector<double> got = ToDoubles(Run(c.op, {MakeTensor(type, TensorShape({n}), v)})[0]);
            for (int64_t i = 0; i < n; ++i) {
              const double w = i == at ? want : plain[i];
              BOOST_CHECK_MESSAGE(Same(got[i], w) || std::abs(got[i] - w) <= 4 * Tolerance(type),
                                  c.op << " " << Name(type) << ": " << i << " of " << n << " is " << got[i] << ", not "
                                       << w << ", with " << bad << " at " << at);
            }
          }
        }
      }
    }
  }
}

// Maximum and Minimum give NaN when either is, and clip keeps one; scalars, vectors and
// broadcasting take different loops.
BOOST_AUTO_TEST_CASE(extremes_of_two_at_every_place) {
  for (const DType type : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    for (const int64_t n : {1, 16, 37}) {
      const std::vector<double> a = RandomValues(n, 4), b = RandomValues(n, 5);
      for (int64_t at = 0; at < n; ++at) {
        for (const double bad : {static_cast<double>(kNaN), static_cast<double>(kInf), -static_cast<double>(kInf)}) {
          std::vector<double> x = a;
          x[at] = bad;
          const Tensor tx = MakeTensor(type, TensorShape({n}), x), ty = MakeTensor(type, TensorShape({n}), b),
                       one = MakeTensor(type, TensorShape(), {bad}), low = MakeTensor(type, TensorShape(), {-1}),
                       high = MakeTensor(type, TensorShape(), {1});
          for (const char* op : {"Maximum", "Minimum"}) {
            const bool max = std::string_view(op) == "Maximum";
            const auto want = [&](double u, double v) {
              return std::isnan(u) || std::isnan(v) ? static_cast<double>(kNaN) : max ? std::max(u, v) : std::min(u, v);
            };
            const std::vector<double> xy = ToDoubles(Run(op, {tx, ty})[0]), yx = ToDoubles(Run(op, {ty, tx})[0]),
                                      sy = ToDoubles(Run(op, {one, ty})[0]), ys = ToDoubles(Run(op, {ty, one})[0]);
            for (int64_t i = 0; i < n; ++i) {
              BOOST_CHECK_MESSAGE(
                  Same(xy[i], want(x[i], b[i])) && Same(yx[i], want(x[i], b[i])),
                  op << " " << Name(type) << " of " << x[i] << " and " << b[i] << ": " << xy[i] << ", " << yx[i]);
              BOOST_CHECK_MESSAGE(
                  Same(sy[i], want(bad, b[i])) && Same(ys[i], want(bad, b[i])),
                  op << " " << Name(type) << " of " << bad << " and " << b[i] << ": " << sy[i] << ", " << ys[i]);
            }
          }
          if (IsSmall(type)) continue;
          const std::vector<double> clipped = ToDoubles(Run("ClipByValue", {tx, low, high})[0]);
          for (int64_t i = 0; i < n; ++i) {
            const double w = std::isnan(x[i]) ? x[i] : std::min(std::max(x[i], -1.0), 1.0);
            BOOST_CHECK_MESSAGE(Same(clipped[i], w),
                                "ClipByValue " << Name(type) << " of " << x[i] << ": " << clipped[i]);
          }
        }
      }
    }
  }
}

// What extremes start from: rows of nothing but one infinity keep it, in every reduction and type,
// whichever loop runs.
BOOST_AUTO_TEST_CASE(extremes_of_infinities_alone) {
  for (const DType type : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    for (const int64_t n : {1, 3, 16, 70, 130}) {
      for (const double inf : {static_cast<double>(kInf), -static_cast<double>(kInf)}) {
        const Tensor x = MakeTensor(type, TensorShape({n, 9}), std::vector<double>(n * 9, inf));
        const Tensor flat = MakeTensor(type, TensorShape({9, n}), std::vector<double>(n * 9, inf));
        Tensor ids(DType::kInt32, TensorShape({n}));
        for (int64_t i = 0; i < n; ++i) ids.data<int32_t>()[i] = i < n / 2 ? 0 : 1;
        const auto check = [&](const char* what, const Tensor& got) {
          for (const double v : ToDoubles(got))
            BOOST_CHECK_MESSAGE(v == inf, what << " " << Name(type) << " of " << n << " times " << inf << " is " << v);
        };
        const Tensor first = Tensor::Scalar<int32_t>(0), last = Tensor::Scalar<int32_t>(1);
        for (const char* op : {"Max", "Min"}) {
          check(op, Run(op, {x, first})[0]);
          check(op, Run(op, {flat, last})[0]);
        }
        if (n < 2) continue;
        check("SegmentMax", Run("SegmentMax", {x, ids})[0]);
        check("SegmentMin", Run("SegmentMin", {x, ids})[0]);
        BOOST_TEST(Run("ArgMax", {x, first})[0].data<int64_t>()[3] == 0);
        BOOST_TEST(Run("ArgMin", {x, first})[0].data<int64_t>()[3] == 0);
      }
      // A segment without rows is 0, beside one of infinities.
      const Tensor x = MakeTensor(type, TensorShape({2, 1}), {-kInf, -kInf});
      CheckClose(Run("SegmentMax", {x, Tensor::Vector<int32_t>({1, 1})})[0], {0, -kInf}, "SegmentMax with a gap");
    }
    // Without order there is no saying which segments have rows; those that have none are the least
    // number.
    const double lowest = type == DType::kHalf     ? -65504
                          : type == DType::kDouble ? -std::numeric_limits<double>::max()
                          : type == DType::kFloat  ? -std::numeric_limits<float>::max()
                                                   : -3.3895313892515355e38;
    const Tensor x = MakeTensor(type, TensorShape({1}), {2});
    const std::vector<double> got =
        ToDoubles(Run("UnsortedSegmentMax", {x, Tensor::Vector<int32_t>({1}), Tensor::Scalar<int32_t>(2)})[0]);
    BOOST_TEST(got[0] == lowest);
    // A pool starts at the lowest finite number of its type.
    const AttrMap window = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                            {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                            {"padding", "VALID"}};
    for (const int64_t channels : {1, 4, 19}) {
      const Tensor image = MakeTensor(type, TensorShape({1, 2, 2, channels}), std::vector<double>(4 * channels, -kInf));
      for (const double v : ToDoubles(Run("MaxPool", {image}, window)[0]))
        BOOST_CHECK_MESSAGE(v == lowest, Name(type) << " " << v);
      const Tensor high = MakeTensor(type, TensorShape({1, 2, 2, channels}), std::vector<double>(4 * channels, kInf));
      for (const double v : ToDoubles(Run("MaxPool", {high}, window)[0])) BOOST_TEST(v == kInf);
      for (const double v : ToDoubles(Run("AvgPool", {high}, window)[0])) BOOST_TEST(v == kInf);
    }
  }
}

// Element by element labels * (log(sum(exp)) - logits): 0 times infinity is NaN, infinity times
// something is infinity.
BOOST_AUTO_TEST_CASE(cross_entropy) {
  for (const int64_t columns : {3, 40}) {
    for (const DType type : {DType::kFloat, DType::kDouble, DType::kHalf}) {
      std::vector<double> x = RandomValues(4 * columns, 6), l(4 * columns, 0.0);
      for (int row = 0; row < 4; ++row) l[row * columns + 1] = 1;
      x[0 * columns + 2] = -kInf;  // a logit of -infinity where the label is 0
      l[1 * columns + 1] = kInf;   // a label of infinity
      x[2 * columns + 1] = -kInf;  // a logit of -infinity where the label is not 0
      const TensorShape shape({4, columns});
      const std::vector<Tensor> out =
          Run("SoftmaxCrossEntropyWithLogits", {MakeTensor(type, shape, x), MakeTensor(type, shape, l)});
      const std::vector<double> loss = ToDoubles(out[0]), back = ToDoubles(out[1]);
      BOOST_TEST(std::isnan(loss[0]));
      BOOST_TEST(loss[1] == kInf);
      BOOST_TEST(loss[2] == kInf);
      BOOST_TEST(std::isfinite(loss[3]));
      // The gradient is finite where the labels are.
      BOOST_TEST(std::isfinite(back[2]));
      BOOST_TEST(back[columns + 1] == -kInf);
      // The op for sparse labels looks at one logit only.
      const Tensor label = Tensor::Vector<int32_t>({1, 1, 1, 1});
      if (type == DType::kHalf) continue;
      const std::vector<double> sparse =
          ToDoubles(Run("SparseSoftmaxCrossEntropyWithLogits", {MakeTensor(type, shape, x), label})[0]);
      BOOST_TEST(std::isfinite(sparse[0]));
      BOOST_TEST(sparse[2] == kInf);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace not_finite_test
}  // namespace troupe
