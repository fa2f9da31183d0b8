// Steps of the optimizers against what TensorFlow computes (optimizer_steps.txt: op, type, attrs,
// scalars, slot, its values after two steps).
#include <atomic>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "tests/state/state_test_util.h"

namespace troupe {
namespace {

struct Case {
  std::string op, type, attrs, scalars;
  std::vector<std::vector<double>> slots;  // expected
};

std::vector<Case> ReadCases() {
  std::ifstream in(TROUPE_SOURCE_DIR "/tests/state/optimizer_steps.txt");
  BOOST_REQUIRE(in.good());
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    std::istringstream s(line);
    Case c;
    int slot;
    s >> c.op >> c.type >> c.attrs >> c.scalars >> slot;
    if (slot == 0) cases.push_back(c);
    std::vector<double> values;
    for (std::string v; s >> v;) values.push_back(std::stod(v));
    cases.back().slots.push_back(values);
  }
  return cases;
}

// "lr=0.1,rho=0.9"
std::map<std::string, double> Pairs(const std::string& text) {
  std::map<std::string, double> m;
  if (text == "-") return m;
  for (const std::string& item : StrSplit(text, ',')) {
    const size_t at = item.find('=');
    m[item.substr(0, at)] = std::stod(item.substr(at + 1));
  }
  return m;
}

template <class T>
T Number(double re, double im) {
  if constexpr (std::is_same_v<T, std::complex<float>>) {
    return T(static_cast<float>(re), static_cast<float>(im));
  } else {
    return T(re);
  }
}

template <class T>
void RunCase(const Case& c, bool by_ref, double tolerance) {
  constexpr bool kComplex = std::is_same_v<T, std::complex<float>>;
  const int64_t n = static_cast<int64_t>(c.slots[0].size()) / (kComplex ? 2 : 1);
  const OpDef* const def = *OpRegistry::Global().LookUp((by_ref ? "Apply" : "ResourceApply") + c.op);
  std::map<std::string, double> scalars = Pairs(c.scalars);
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < def->inputs.size(); ++k) {
    const std::string& name = def->inputs[k].name;
    Tensor t(kDTypeOf<T>, TensorShape({n}));
    if (k < c.slots.size()) {
      for (int64_t i = 0; i < n; ++i) {
        const double v =
            k == 0 ? static_cast<double>(i - 3) * 0.5 : 0.125 * static_cast<double>(i + 1 + static_cast<int64_t>(k));
        t.data<T>()[i] = Number<T>(v, 0.5 * v);
      }
      inputs.push_back(NewVariable(by_ref, t));
    } else if (name == "grad" || name == "delta") {
      for (int64_t i = 0; i < n; ++i) {
        const double v = static_cast<double>(2 - i) * 0.25 + 0.125;
        t.data<T>()[i] = Number<T>(v, -0.25 * v);
      }
      inputs.push_back(t);
    } else {
      BOOST_REQUIRE_MESSAGE(scalars.count(name) == 1, name);
      inputs.push_back(Tensor::Scalar<T>(Number<T>(scalars[name], 0)));
    }
  }
  AttrMap attrs = {{"T", kDTypeOf<T>}};
  for (const auto& [name, value] : Pairs(c.attrs)) attrs.Set(name, value != 0);
  for (int step = 0; step < 2; ++step) Run(def->name, inputs, attrs);
  for (size_t k = 0; k < c.slots.size(); ++k) {
    const Tensor value = ValueOf(inputs[k]);
    for (size_t i = 0; i < c.slots[k].size(); ++i) {
      double got;
      if constexpr (kComplex) {
        got = static_cast<const float*>(value.raw())[i];
      } else {
        got = static_cast<double>(value.data<T>()[i]);
      }
      const double want = c.slots[k][i];
      const bool close =
          (std::isnan(got) && std::isnan(want)) || std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
      BOOST_TEST(close, def->name << " " << c.type << " " << c.attrs << " slot " << k << "[" << i << "]: " << got
                                  << ", not " << want);
    }
  }
}

BOOST_AUTO_TEST_SUITE(optimizers)

BOOST_AUTO_TEST_CASE(two_steps_of_each) {
  const std::vector<Case> cases = ReadCases();
  BOOST_TEST(cases.size() > 50u);
  for (const Case& c : cases) {
    for (bool by_ref : {false, true}) {
      if (c.type == "float") RunCase<float>(c, by_ref, 2e-6);
      if (c.type == "double") RunCase<double>(c, by_ref, 1e-13);
      if (c.type == "half") RunCase<Half>(c, by_ref, 4e-3);
      if (c.type == "bfloat16") RunCase<BFloat16>(c, by_ref, 3e-2);
      if (c.type == "complex64") RunCase<std::complex<float>>(c, by_ref, 5e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(many_threads_give_what_one_gives) {
  constexpr int64_t kSize = 300001;
  Tensor start(DType::kFloat, {kSize}), grad(DType::kFloat, {kSize});
  for (int64_t i = 0; i < kSize; ++i) {
    start.data<float>()[i] = static_cast<float>(i % 101) * 0.01f;
    grad.data<float>()[i] = static_cast<float>(i % 103) * 0.02f - 1;
  }
  std::vector<Tensor> results;
  for (int threads : {1, 3}) {
    EvaluateOptions options;
    options.threads = threads;
    const Tensor var = NewVariable(false, start), accum = NewVariable(false, start);
    Run("ResourceApplyMomentum", {var, accum, Tensor::Scalar<float>(0.1f), grad, Tensor::Scalar<float>(0.9f)}, {},
        options);
    results.push_back(ValueOf(var));
  }
  BOOST_TEST(std::memcmp(results[0].raw(), results[1].raw(), results[0].bytes()) == 0);
}

BOOST_AUTO_TEST_CASE(errors) {
  const Tensor lr = Tensor::Scalar<float>(0.5f), two = Tensor::Vector<float>({1, 1});
  const Tensor var = NewVariable(false, Tensor::Vector<float>({1, 2}));
  CheckFails(Try("ResourceApplyGradientDescent", {var, two, two}), absl::StatusCode::kInvalidArgument,
             "input 1 must be a scalar");
  CheckFails(Try("ResourceApplyGradientDescent", {var, lr, Tensor::Vector<float>({1})}),
             absl::StatusCode::kInvalidArgument, "do not have the same shape: [2] and [1]");
  CheckFails(Try("ResourceApplyGradientDescent", {NewVariable(false, DType::kFloat, {2}, "no_value"), lr, two}),
             absl::StatusCode::kFailedPrecondition, "no_value");
  CheckFails(Try("ResourceApplyMomentum", {var, var, lr, two, lr}), absl::StatusCode::kInvalidArgument, "given twice");
  CheckFails(Try("ResourceApplyMomentum", {var, NewVariable(false, Tensor::Vector<float>({1})), lr, two, lr}),
             absl::StatusCode::kInvalidArgument, "do not have the same shape");
  CheckFails(Try("ResourceApplyMomentum", {var, NewVariable(false, Tensor::Vector<double>({1, 2})), lr, two, lr}),
             absl::StatusCode::kInvalidArgument, "holds float64");
  CheckFails(Try("ResourceApplyGradientDescent", {NewVariable(false, Tensor::Vector<int32_t>({1})),
                                                  Tensor::Scalar<int32_t>(1), Tensor::Vector<int32_t>({1})}),
             absl::StatusCode::kUnimplemented, "int32");
  BOOST_TEST(Text(ValueOf(var)) == Text(Tensor::Vector<float>({1, 2})));
}

BOOST_AUTO_TEST_CASE(in_place_unless_a_snapshot_is_out) {
  const Tensor var = NewVariable(true, Tensor::Vector<float>({1, 2}));
  const void* const at = ValueOf(var).raw();
  const Tensor alpha = Tensor::Scalar<float>(1), delta = Tensor::Vector<float>({1, 1});
  Run("ApplyGradientDescent", {var, alpha, delta});
  BOOST_TEST(ValueOf(var).raw() == at);
  const Tensor snapshot = ValueOf(var);
  Run("ApplyGradientDescent", {var, alpha, delta});
  BOOST_TEST(ValueOf(var).raw() != at);
  BOOST_TEST(Text(snapshot) == Text(Tensor::Vector<float>({0, 1})));
}

BOOST_AUTO_TEST_CASE(updates_that_lock_in_opposite_order_do_not_deadlock) {
  const Tensor a = NewVariable(false, Tensor::Vector<float>({0, 0})),
               b = NewVariable(false, Tensor::Vector<float>({0, 0}));
  const Tensor lr = Tensor::Scalar<float>(0), grad = Tensor::Vector<float>({1, 1}), one = Tensor::Scalar<float>(1);
  std::atomic<int> failed{0};
  const auto work = [&](const Tensor& var, const Tensor& accum) {
    for (int i = 0; i < 500; ++i) failed += !Try("ResourceApplyMomentum", {var, accum, lr, grad, one}).ok();
  };
  std::thread other([&] { work(a, b); });
  work(b, a);
  other.join();
  BOOST_TEST(failed == 0);
  BOOST_TEST(Text(ValueOf(a)) == Text(Tensor::Vector<float>({500, 500})));
  BOOST_TEST(Text(ValueOf(b)) == Text(Tensor::Vector<float>({500, 500})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
