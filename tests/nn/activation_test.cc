// The Relu family, BiasAdd, softmax and the losses against plain formulas in double.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>

#include "tests/nn/nn_test_util.h"

namespace troupe {
namespace activation_test {

const DType kFloats[] = {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16};
const DType kReals[] = {DType::kFloat, DType::kDouble, DType::kHalf,  DType::kBfloat16, DType::kInt32,  DType::kInt64,
                        DType::kInt8,  DType::kInt16,  DType::kUint8, DType::kUint16,   DType::kUint32, DType::kUint64};

struct ActivationCase {
  const char* op;
  bool integers, grad_of_output;
  std::function<double(double)> f;
  std::function<double(double, double)> g;  // (gradient, what the gradient op reads)
};

constexpr double kScale = 1.0507009873554805, kScaleAlpha = 1.7580993408473769;
const ActivationCase kActivationCases[] = {
    {"Relu", true, false, [](double x) { return std::max(x, 0.); }, [](double g, double x) { return x > 0 ? g : 0; }},
    {"Relu6", true, false, [](double x) { return std::min(std::max(x, 0.), 6.); },
     [](double g, double x) { return x > 0 && x < 6 ? g : 0; }},
    {"Elu", false, true, [](double x) { return x < 0 ? std::expm1(x) : x; },
     [](double g, double y) { return y < 0 ? g * (y + 1) : g; }},
    {"Selu", false, true, [](double x) { return x < 0 ? kScaleAlpha * std::expm1(x) : kScale * x; },
     [](double g, double y) { return y < 0 ? g * (y + kScaleAlpha) : g * kScale; }},
    {"LeakyRelu", false, false, [](double x) { return x > 0 ? x : 0.2f * x; },
     [](double g, double x) { return x > 0 ? g : 0.2f * g; }},
    {"Softplus", false, false, [](double x) { return std::max(x, 0.) + std::log1p(std::exp(-std::abs(x))); },
     [](double g, double x) { return g / (1 + std::exp(-x)); }},
    {"Softsign", false, false, [](double x) { return x / (1 + std::abs(x)); },
     [](double g, double x) { return g / ((1 + std::abs(x)) * (1 + std::abs(x))); }},
};

BOOST_AUTO_TEST_CASE(activations_of_every_type) {
  for (const ActivationCase& c : kActivationCases) {
    for (DType t : kReals) {
      if (!c.integers && !IsFloating(t)) continue;
      for (int64_t n : {0, 1, 7, 16, 33, 1000, 200001}) {
        if (n > 1000 && t != DType::kFloat) continue;
        Tensor x = RandomTensor(t, TensorShape({n}), 11);
        if (n == 1000) {  // the ends of the range too
          std::vector<double> v = ToDoubles(x);
          for (double& d : v) d *= IsFloating(t) ? 20 : 1;
          x = MakeTensor(t, TensorShape({n}), v);
        }
        const Tensor g = RandomTensor(t, TensorShape({n}), 12);
        const std::vector<double> xv = ToDoubles(x), gv = ToDoubles(g);
        std::vector<double> want(n), want_grad(n);
        for (int64_t i = 0; i < n; ++i) {
          want[i] = c.f(xv[i]);
          want_grad[i] = c.g(gv[i], xv[i]);
        }
        for (int threads : {1, 2}) {
          CheckClose(Run(c.op, {x.Clone()}, {}, threads)[0], want, StrCat(c.op, " ", x.TypeAndShape()));
          CheckClose(Run(StrCat(c.op, "Grad"), {g, x}, {}, threads)[0], want_grad,
                     StrCat(c.op, "Grad ", x.TypeAndShape()));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(activations_at_the_edges) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  auto run = [](const char* op, float x) { return Run(op, {Tensor::Scalar<float>(x)})[0].scalar<float>(); };
  for (const ActivationCase& c : kActivationCases) {
    if (std::string_view(c.op) != "Softsign") BOOST_CHECK(std::isnan(run(c.op, nan)));
    for (float x : {-1e-6f, 1e-6f, -1e-3f, -20.f, -90.f, 90.f, -1000.f, 1000.f}) {
      BOOST_CHECK_MESSAGE(std::abs(run(c.op, x) - c.f(x)) <= 4e-7 * std::abs(c.f(x)) + 1e-38,
                          c.op << "(" << x << ") = " << run(c.op, x));
    }
  }
  BOOST_CHECK_EQUAL(run("Relu", inf), inf);
  BOOST_CHECK_EQUAL(run("Relu6", inf), 6);
  BOOST_CHECK_EQUAL(run("Elu", -inf), -1);
  BOOST_CHECK_EQUAL(run("Softplus", inf), inf);
  CheckRefused("ReluGrad", {Tensor(DType::kFloat, TensorShape({2})), Tensor(DType::kFloat, TensorShape({3}))}, {},
               "must have the same shape");
}

BOOST_AUTO_TEST_CASE(bias_add_and_its_gradient) {
  struct {
    std::vector<int64_t> shape;
    bool first;
  } cases[] = {{{3, 5}, false},   {{2, 4, 4, 6}, false},    {{700, 3}, false},
               {{9, 300}, false}, {{2, 3, 4, 5}, true},     {{2, 3, 70}, true},
               {{0, 4}, false},   {{50, 20, 20, 6}, false}, {{2, 300, 1, 1}, true}};
  for (auto& c : cases) {
    for (DType t :
         {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt32, DType::kInt64, DType::kUint8,
          DType::kInt8, DType::kInt16, DType::kUint16, DType::kComplex64, DType::kComplex128}) {
      const TensorShape shape(absl::MakeConstSpan(c.shape));
      if (shape.num_elements() > 1000 && (t == DType::kUint8 || t == DType::kInt8 || IsSmall(t))) continue;
      const int at = c.first ? 1 : shape.rank() - 1;
      const int64_t channels = shape.dim(at);
      int64_t inner = 1;
      for (int i = at + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
      const Tensor x = RandomTensor(t, shape, 21), b = RandomTensor(t, TensorShape({channels}), 22);
      const std::vector<double> xv = ToDoubles(x), bv = ToDoubles(b);
      std::vector<double> want(xv.size()), sums(channels);
      for (size_t i = 0; i < xv.size(); ++i) {
        want[i] = xv[i] + bv[i / inner % channels];
        sums[i / inner % channels] += xv[i];
      }
      const AttrMap attrs = {{"data_format", c.first ? "NCHW" : "NHWC"}};
      for (int threads : {1, 2}) {
        const Tensor y = Run("BiasAdd", {x.Clone(), b}, attrs, threads)[0],
                     s = Run("BiasAddGrad", {x}, attrs, threads)[0];
        CheckValues(y, want, StrCat("BiasAdd ", x.TypeAndShape()));
        if (t != DType::kUint8 && t != DType::kInt8 && sums[0] < 65536)
          CheckValues(s, sums, StrCat("BiasAddGrad ", x.TypeAndShape()));
        BOOST_CHECK(SameBytes(s, Run("BiasAddGrad", {x}, attrs, threads)[0]));
      }
      if (!c.first) CheckValues(Run("BiasAddV1", {x, b})[0], want, "BiasAddV1");
    }
  }
  const DType f = DType::kFloat;
  CheckRefused("BiasAdd", {Tensor(f, TensorShape({2, 3})), Tensor(f, TensorShape({2}))}, {},
               "as many biases as the channel dimension");
  CheckRefused("BiasAdd", {Tensor(f, TensorShape({2, 3})), Tensor(f, TensorShape({3, 1}))}, {}, "Biases must be 1D");
  CheckRefused("BiasAdd", {Tensor(f, TensorShape({3})), Tensor(f, TensorShape({3}))}, {}, "rank 2 or more");
}

std::vector<double> NaiveLogSoftmax(const std::vector<double>& x, int64_t columns) {
  std::vector<double> y(x.size());
  for (size_t r = 0; r < x.size(); r += columns) {
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < columns; ++c) top = std::max(top, x[r + c]);
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(x[r + c] - top);
    for (int64_t c = 0; c < columns; ++c) y[r + c] = x[r + c] - top - std::log(sum);
  }
  return y;
}

BOOST_AUTO_TEST_CASE(softmax_and_log_softmax) {
  for (DType t : kFloats) {
    for (auto shape : {TensorShape({5}), TensorShape({3, 1}), TensorShape({100, 10}), TensorShape({2, 3, 40}),
                       TensorShape({3, 5000}), TensorShape({0, 4}), TensorShape({1000, 17})}) {
      std::vector<double> v = RandomValues(shape.num_elements(), 31);
      for (double& x : v) x *= 8;
      const Tensor x = MakeTensor(t, shape, v);
      std::vector<double> logs = NaiveLogSoftmax(ToDoubles(x), shape.dim(shape.rank() - 1)), want = logs;
      for (double& w : want) w = std::exp(w);
      for (int threads : {1, 2}) {
        CheckClose(Run("Softmax", {x.Clone()}, {}, threads)[0], want, StrCat("Softmax ", x.TypeAndShape()));
        CheckClose(Run("LogSoftmax", {x.Clone()}, {}, threads)[0], logs, StrCat("LogSoftmax ", x.TypeAndShape()));
      }
    }
  }
  BOOST_CHECK(Run("Softmax", {Tensor(DType::kFloat, TensorShape({3, 0}))})[0].HasShape(TensorShape({3, 0})));
  const Tensor large = Run("Softmax", {Tensor::Vector<float>({1000, 1000, -1000})})[0];
  CheckClose(large, {0.5, 0.5, 0}, "no overflow");
  CheckRefused("Softmax", {Tensor::Scalar<float>(1)}, {}, "logits must have >= 1 dimension");
}

BOOST_AUTO_TEST_CASE(cross_entropies) {
  struct {
    TensorShape x, labels;
  } cases[] = {{{100, 10}, {100, 10}}, {{7, 3}, {7, 3}}, {{2, 3000}, {2, 3000}}, {{1, 5}, {4, 5}},
               {{4, 5}, {1, 5}},       {{4, 5}, {5}},    {{4, 1}, {4, 5}},       {{600, 33}, {600, 33}}};
  for (auto& c : cases) {
    for (DType t : kFloats) {
      const int64_t rows = std::max(c.x.dim(0), c.labels.rank() > 1 ? c.labels.dim(0) : 1);
      const int64_t columns = std::max(c.x.dim(1), c.labels.dim(c.labels.rank() - 1));
      const Tensor x = RandomTensor(t, c.x, 41);
      std::vector<double> lv = RandomValues(c.labels.num_elements(), 42);
      for (double& l : lv) l = std::abs(l) / static_cast<double>(columns);
      const Tensor labels = MakeTensor(t, c.labels, lv);
      auto full = [&](const Tensor& a) {
        const std::vector<double> v = ToDoubles(a);
        std::vector<double> out(rows * columns);
        for (int64_t i = 0; i < rows * columns; ++i) {
          const int64_t own_columns = a.dim(a.rank() - 1), own_rows = a.rank() > 1 ? a.dim(0) : 1;
          out[i] = v[(own_rows == 1 ? 0 : i / columns) * own_columns + (own_columns == 1 ? 0 : i % columns)];
        }
        return out;
      };
      const std::vector<double> fx = full(x), fl = full(labels), logs = NaiveLogSoftmax(fx, columns);
      std::vector<double> loss(rows), back(rows * columns);
      for (int64_t i = 0; i < rows * columns; ++i) {
        loss[i / columns] -= fl[i] * logs[i];
        back[i] = std::exp(logs[i]) - fl[i];
      }
      for (int threads : {1, 2}) {
        const std::vector<Tensor> out = Run("SoftmaxCrossEntropyWithLogits", {x, labels}, {}, threads);
        CheckClose(out[0], loss, StrCat("loss ", x.TypeAndShape()), 2);
        CheckClose(out[1], back, StrCat("backprop ", x.TypeAndShape()), 2);
        BOOST_CHECK(out[1].HasShape(TensorShape({rows, columns})));
      }
      if (c.x.dim(0) != rows || c.x.dim(1) != columns) continue;
      for (DType lt : {DType::kInt32, DType::kInt64}) {
        std::vector<double> index(rows), sparse_loss(rows), sparse_back(rows * columns);
        for (int64_t r = 0; r < rows; ++r) index[r] = r * 7 % columns;
        for (int64_t i = 0; i < rows * columns; ++i)
          sparse_back[i] = std::exp(logs[i]) - (i % columns == index[i / columns]);
        for (int64_t r = 0; r < rows; ++r) sparse_loss[r] = -logs[r * columns + static_cast<int64_t>(index[r])];
        const std::vector<Tensor> out =
            Run("SparseSoftmaxCrossEntropyWithLogits", {x, MakeTensor(lt, TensorShape({rows}), index)}, {}, 2);
        CheckClose(out[0], sparse_loss, "sparse loss", 2);
        CheckClose(out[1], sparse_back, "sparse backprop", 2);
      }
    }
  }
  const DType f = DType::kFloat;
  const Tensor x(f, TensorShape({2, 3}));
  CheckRefused("SparseSoftmaxCrossEntropyWithLogits", {x, Tensor::Vector<int32_t>({0, 3})}, {},
               "label value of 3 which is outside the valid range of [0, 3)");
  CheckRefused("SparseSoftmaxCrossEntropyWithLogits", {x, Tensor::Vector<int64_t>({-1, 1})}, {}, "label value of -1");
  CheckRefused("SparseSoftmaxCrossEntropyWithLogits", {x, Tensor::Vector<int64_t>({1})}, {}, "same first dimension");
  CheckRefused("SparseSoftmaxCrossEntropyWithLogits", {Tensor(f, TensorShape({2, 0})), Tensor::Vector<int64_t>({1, 1})},
               {}, "at least one class");
  CheckRefused("SoftmaxCrossEntropyWithLogits", {x, Tensor(f, TensorShape({2, 4}))}, {},
               "logits and labels must be broadcastable");
  CheckRefused("SoftmaxCrossEntropyWithLogits", {Tensor(f, TensorShape({3})), Tensor(f, TensorShape({3}))}, {},
               "2-dimensional");
  // Small operands whose product nobody has room for.
  const auto vast = EvaluateOp("SoftmaxCrossEntropyWithLogits",
                               {Tensor(f, TensorShape({1 << 21, 1})), Tensor(f, TensorShape({1, 1 << 21}))});
  BOOST_CHECK_MESSAGE(vast.status().code() == absl::StatusCode::kResourceExhausted, vast.status());
  const std::vector<Tensor> empty =
      Run("SoftmaxCrossEntropyWithLogits", {Tensor(f, TensorShape({2, 0})), Tensor(f, TensorShape({2, 0}))});
  CheckClose(empty[0], {0, 0}, "no classes");
}

BOOST_AUTO_TEST_CASE(l2_loss_and_in_top_k) {
  for (DType t : kFloats) {
    for (int64_t n : {0, 1, 13, 500}) {
      const Tensor x = RandomTensor(t, TensorShape({n}), 51);
      double sum = 0;
      for (double v : ToDoubles(x)) sum += v * v / 2;
      const Tensor got = Run("L2Loss", {x}, {}, 2)[0];
      BOOST_CHECK_EQUAL(got.rank(), 0);
      CheckClose(got, {sum}, "L2Loss");
    }
  }
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor p =
      Tensor::Of<float>({1, 2, 3, 4, inf, 0, 0, 0, nan, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4}, TensorShape({5, 4}));
  for (DType t : {DType::kInt32, DType::kInt64}) {
    const Tensor targets = MakeTensor(t, TensorShape({5}), {3, 1, 1, 5, 1});
    CheckValues(Run("InTopK", {p, targets}, {{"k", 2}})[0], {1, 0, 0, 0, 1}, "InTopK");
    CheckValues(Run("InTopKV2", {p, targets, MakeTensor(t, TensorShape(), {0})})[0], {0, 0, 0, 0, 0}, "InTopKV2");
    CheckValues(Run("InTopKV2", {p, targets, MakeTensor(t, TensorShape(), {1})})[0], {1, 0, 0, 0, 0}, "InTopKV2");
  }
  CheckRefused("InTopK", {p, Tensor::Vector<int32_t>({1})}, {{"k", 1}}, "must match length of targets");
  CheckRefused("InTopK", {Tensor::Vector<float>({1}), Tensor::Vector<int32_t>({1})}, {{"k", 1}}, "2-dimensional");
}

}  // namespace activation_test
}  // namespace troupe
