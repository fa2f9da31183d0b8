// Distributions with parameters against TensorFlow's numbers, and against their moments.
// draws/random.txt holds, for a node with its inputs, what its first runs give.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "kernels/run_kernel.h"
#include "tests/cases/same_value.h"

namespace troupe::test {
namespace draws_test {

// A node with its kernel, in a session of its own.
class Drawn {
 public:
  Drawn(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs, int threads) : inputs_(inputs) {
    static int session = 0;
    AttrMap all = attrs;
    const OpDef* def = OpRegistry::Global().Find(op);
    BOOST_REQUIRE(def != nullptr);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (const std::string& attr = def->inputs[i].type_attr; !attr.empty()) all.Set(attr, inputs[i].dtype());
    }
    node_ = *graph_.AddNode("draw", op, all);
    Device* const device = EvaluationDevice(threads);
    absl::StatusOr<PreparedKernel> kernel = PrepareKernel(*node_, device, StrCat("draws test ", session++));
    BOOST_REQUIRE_MESSAGE(kernel.ok(), kernel.status().ToString());
    kernel_ = *kernel;
    described_ = DescribeNode(*node_, device);
  }
  // The outputs of a run one by one, then those of the next run.
  absl::StatusOr<Tensor> TryNext() {
    if (left_.empty()) {
      StepContext step;
      auto out = EvaluateKernel(kernel_, described_, inputs_, &step);
      if (!out.ok()) return out.status();
      // The other outputs of a candidate sampler are expected counts, which draw nothing.
      if (node_->op().name.ends_with("CandidateSampler")) out->resize(1);
      left_.assign(out->rbegin(), out->rend());
    }
    Tensor next = std::move(left_.back());
    left_.pop_back();
    return next;
  }
  Tensor Next() {
    auto out = TryNext();
    BOOST_REQUIRE_MESSAGE(out.ok(), out.status().ToString());
    return *out;
  }

 private:
  std::vector<Tensor> inputs_, left_;
  Graph graph_;
  Node* node_;
  PreparedKernel kernel_;
  KernelNode described_;
};

BOOST_AUTO_TEST_CASE(distributions_with_parameters_draw_tensorflows_numbers) {
  const std::vector<Case> cases = ReadCases("draws");
  for (const Case& c : cases) {
    Drawn one(c.op, c.attrs, c.inputs, 1), many(c.op, c.attrs, c.inputs, 4);
    for (const Tensor& want : c.outputs) {
      const DType t = want.dtype();
      // Logarithms and powers of the C library may differ in the last bit.
      const double tolerance = t == DType::kHalf ? 2e-3 : t == DType::kFloat ? 2e-6 : 1e-12;
      const Tensor got = one.Next();
      BOOST_TEST_CONTEXT(c.where << ": " << c.text.substr(0, 150)) {
        BOOST_CHECK_EQUAL(Difference(got, want, tolerance), "");
        BOOST_CHECK_EQUAL(Difference(many.Next(), got), "");
      }
    }
  }
  BOOST_CHECK_EQUAL(cases.size(), 136u);
}

// Mean and variance of many draws.
std::pair<double, double> Moments(const Tensor& t) {
  double sum = 0, squares = 0;
  for (const double v : t.flat<double>()) sum += v, squares += v * v;
  const auto n = static_cast<double>(t.num_elements());
  return {sum / n, squares / n - sum / n * (sum / n)};
}

BOOST_AUTO_TEST_CASE(moments_are_those_of_the_distributions) {
  const AttrMap seeds = {{"seed", 3}, {"seed2", 4}};
  const Tensor many = Tensor::Vector<int32_t>({40000});
  for (const double a : {0.4, 1.0, 3.5}) {
    const auto [mean, variance] = Moments(Drawn("RandomGamma", seeds, {many, Tensor::Scalar(a)}, 2).Next());
    BOOST_CHECK_CLOSE_FRACTION(mean, a, 0.03);
    BOOST_CHECK_CLOSE_FRACTION(variance, a, 0.05);
  }
  for (const double rate : {0.7, 8.0, 30.0}) {
    AttrMap attrs = seeds;
    attrs.Set("dtype", DType::kDouble);
    const auto [mean, variance] = Moments(Drawn("RandomPoissonV2", attrs, {many, Tensor::Scalar(rate)}, 2).Next());
    BOOST_CHECK_CLOSE_FRACTION(mean, rate, 0.03);
    BOOST_CHECK_CLOSE_FRACTION(variance, rate, 0.05);
  }
  // Batches with parameters of their own: each index of the first dimension.
  const std::vector<Tensor> parameters = {Tensor::Vector<int32_t>({3, 20000}), Tensor::Vector<double>({0, 10, 0}),
                                          Tensor::Vector<double>({1, 2, 1}), Tensor::Vector<double>({-1, 10, 2}),
                                          Tensor::Vector<double>({1, 1e9, 2.5})};
  const Tensor t = Drawn("ParameterizedTruncatedNormal", seeds, parameters, 2).Next();
  const double means[] = {0, 10 + 2 * std::sqrt(2 / 3.14159265358979), 2.2149};
  for (int b = 0; b < 3; ++b) {
    double sum = 0;
    for (int64_t i = 0; i < 20000; ++i) {
      const double v = t.data<double>()[b * 20000 + i];
      BOOST_REQUIRE(v >= parameters[3].data<double>()[b] && v <= parameters[4].data<double>()[b]);
      sum += v;
    }
    BOOST_CHECK_SMALL(sum / 20000 - means[b], 0.03);
  }
}

BOOST_AUTO_TEST_CASE(parameters_that_are_refused) {
  const auto error = [](const std::string& op, std::vector<Tensor> inputs) {
    const auto got = Drawn(op, {}, inputs, 1).TryNext();
    return got.ok() ? std::string("no error") : std::string(got.status().message());
  };
  const auto truncated = [&](std::vector<float> low) {
    return error("ParameterizedTruncatedNormal",
                 {Tensor::Vector<int32_t>({2, 3}), Tensor::Scalar(0.f), Tensor::Scalar(1.f),
                  Tensor::Of<float>(low, TensorShape({static_cast<int64_t>(low.size())})), Tensor::Scalar(1.f)});
  };
  BOOST_CHECK(truncated({2}).find("Invalid parameters") != std::string::npos);
  BOOST_CHECK(truncated({0, 0, 0}).find("should have length 1 or shape[0], got shape: [3]") != std::string::npos);
  BOOST_CHECK_EQUAL(truncated({0, 0.5}), "no error");
  BOOST_CHECK(error("RandomGamma", {Tensor::Vector<int32_t>({-1}), Tensor::Scalar(1.f)}).find("-1") !=
              std::string::npos);
  BOOST_CHECK(error("RandomGamma", {Tensor::Scalar<int32_t>(1), Tensor::Scalar(1.f)}).find("must be a vector") !=
              std::string::npos);
}

}  // namespace draws_test
}  // namespace troupe::test
