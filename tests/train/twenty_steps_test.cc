// Twenty steps of each optimizer, and of clipped gradients, on a table with sparse gradients and a
// dense vector, against what TensorFlow 1's optimizers did (tests/cases/training/optimizers.txt):
// all variables, the slots under the names that TensorFlow gives them.
#include <map>
#include <memory>

#include "tests/cases/case_file.h"
#include "tests/train/run.h"
#include "troupe/train/adadelta.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/adagrad_da.h"
#include "troupe/train/adam.h"
#include "troupe/train/clip.h"
#include "troupe/train/ftrl.h"
#include "troupe/train/global_step.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/momentum.h"
#include "troupe/train/proximal.h"
#include "troupe/train/rms_prop.h"

namespace troupe::testing {
namespace twenty_steps_test {

struct Problem {
  explicit Problem(bool resource) {
    VariableOptions options;
    options.use_resource = resource;
    Tensor start(DType::kDouble, {6, 3});
    for (int i = 0; i < 18; ++i) start.data<double>()[i] = (i % 7 - 3) * 0.25;
    w = Variable(s.WithOpName("w"), Const(s, Literal(start)), options);
    b = Variable(s.WithOpName("b"), Const(s, {0.5, -0.25, 0.125}), options);
    step = train::GetOrCreateGlobalStep(s);
    const Output first = Rows(Const(s, {1, 4, 1})) * Const(s, {{1.0, 0.5, -1.0}}) - 0.75;
    const Output second = Rows(Const(s, {int64_t{0}, int64_t{4}})) + b;
    const Output all = Const(s, {0, 1});
    loss = Build(s, "Sum", {first * first, all}) + Build(s, "Sum", {second * second, all});
  }
  Output Rows(const Output& ids) const {
    return w.is_resource() ? Build(s, "ResourceGather", {w.handle(), ids}, {{"dtype", DType::kDouble}})
                           : Build(s, "Gather", {w.handle(), ids});
  }
  Scope s = Scope::NewRootScope();
  Variable w, b, step;
  Output loss;
};

using Change = std::function<std::vector<train::GradAndVar>(const Scope&, std::vector<train::GradAndVar>)>;
struct Recipe {
  std::unique_ptr<train::Optimizer> optimizer;
  Change change;
};

Change EachGrad(std::function<Output(const Scope&, const Output&)> f) {
  return [f](const Scope& s, std::vector<train::GradAndVar> grads) {
    for (train::GradAndVar& g : grads) g.grad = f(s, g.grad);
    return grads;
  };
}

Recipe RecipeOf(const std::string& name, const Problem& p) {
  using namespace train;
  const auto descent = [] { return std::make_unique<GradientDescent>(0.05); };
  if (name == "GradientDescent") return {descent(), {}};
  if (name == "Momentum") return {std::make_unique<Momentum>(0.02, 0.9), {}};
  if (name == "Nesterov") return {std::make_unique<Momentum>(0.02, 0.9, true), {}};
  if (name == "Adagrad") return {std::make_unique<Adagrad>(0.3, 0.2), {}};
  if (name == "AdagradDA") return {std::make_unique<AdagradDA>(0.3, p.step, 0.2, 0.01, 0.02), {}};
  if (name == "Adadelta") return {std::make_unique<Adadelta>(0.5, 0.9, 0.01), {}};
  if (name == "RMSProp") return {std::make_unique<RMSProp>(0.01, 0.8, 0.5, 0.01), {}};
  if (name == "CenteredRMSProp") return {std::make_unique<RMSProp>(0.01, 0.8, 0.5, 1.0, true), {}};
  if (name == "Adam") return {std::make_unique<Adam>(0.05, 0.8, 0.95, 0.001), {}};
  if (name == "AdamW") return {std::make_unique<AdamW>(0.01, 0.05, 0.8, 0.95, 0.001), {}};
  FtrlOptions ftrl;
  ftrl.initial_accumulator = 0.3;
  ftrl.l1 = 0.01;
  ftrl.l2 = 0.02;
  if (name == "Ftrl") return {std::make_unique<Ftrl>(0.2, ftrl), {}};
  ftrl.learning_rate_power = -0.6;
  ftrl.l2_shrinkage = 0.03;
  if (name == "FtrlV2") return {std::make_unique<Ftrl>(0.2, ftrl), {}};
  if (name == "ProximalGradientDescent") return {std::make_unique<ProximalGradientDescent>(0.05, 0.1, 0.2), {}};
  if (name == "ProximalAdagrad") return {std::make_unique<ProximalAdagrad>(0.3, 0.2, 0.01, 0.02), {}};
  if (name == "ClipByValue")
    return {descent(), EachGrad([](const Scope& s, const Output& g) { return ClipByValue(s, g, -0.5, 0.75); })};
  if (name == "ClipByNorm")
    return {descent(), EachGrad([](const Scope& s, const Output& g) { return ClipByNorm(s, g, 1.5); })};
  if (name == "ClipByGlobalNorm") {
    return {descent(),
            [](const Scope& s, std::vector<GradAndVar> grads) { return ClipByGlobalNorm(s, std::move(grads), 1.5); }};
  }
  return {};
}

// "name | variable tensor ; variable tensor"
struct Recorded {
  std::string name;
  std::map<std::string, Tensor> variables;
};

std::vector<Recorded> ReadRecorded() {
  std::vector<Recorded> all;
  for (const test::CaseLine& line : test::ReadLines("training/optimizers.txt")) {
    const size_t bar = line.text.find(" | ");
    BOOST_REQUIRE_MESSAGE(bar != std::string::npos, line.where);
    Recorded r{line.text.substr(0, bar), {}};
    for (size_t at = bar + 3; at < line.text.size();) {
      const size_t end = std::min(line.text.find(" ; ", at), line.text.size()), space = line.text.find(' ', at);
      r.variables[line.text.substr(at, space - at)] = test::ParseTensor(line.text.substr(space + 1, end - space - 1));
      at = end + 3;
    }
    all.push_back(std::move(r));
  }
  return all;
}

BOOST_AUTO_TEST_CASE(twenty_steps_equal_tensorflows) {
  const std::vector<Recorded> all = ReadRecorded();
  BOOST_TEST(all.size() == 17u);
  for (const Recorded& r : all) {
    for (const bool resource : {true, false}) {
      Problem p(resource);
      const Recipe recipe = RecipeOf(r.name, p);
      BOOST_REQUIRE_MESSAGE(recipe.optimizer != nullptr, r.name);
      std::vector<train::GradAndVar> grads = recipe.optimizer->ComputeGradients(p.s, p.loss);
      BOOST_TEST(IsSlices(grads[0].grad.out()));
      BOOST_TEST(!IsSlices(grads[1].grad.out()));
      if (recipe.change) grads = recipe.change(p.s, std::move(grads));
      BOOST_TEST(IsSlices(grads[0].grad.out()));
      const Operation step = recipe.optimizer->ApplyGradients(p.s, grads, p.step);
      BOOST_REQUIRE_MESSAGE(p.s.ok(), r.name << ": " << p.s.status().ToString());
      std::map<std::string, Output> reads;
      for (const Variable& v : VariablesIn(p.s, kGlobalVariables)) {
        if (v.variable_name() != p.step.variable_name()) reads[v.variable_name()] = v.Read(p.s);
      }
      const auto session = Start(p.s);
      for (int i = 0; i < 20; ++i) Fetch(*session, {}, {}, {step.name()});
      BOOST_TEST(reads.size() == r.variables.size(), r.name);
      for (const auto& [name, want] : r.variables) {
        BOOST_REQUIRE_MESSAGE(reads.count(name) == 1, r.name << " has no variable " << name);
        CheckNear(Doubles(Fetch(*session, {reads[name]})[0]), Doubles(want), 1e-11,
                  StrCat(r.name, resource ? ", resource: " : ", reference: ", name));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(lazy_adam_leaves_other_rows_alone) {
  for (const bool resource : {true, false}) {
    Problem p(resource);
    train::Adam lazy(0.05, 0.8, 0.95, 0.001, /*lazy=*/true);
    const Operation step = lazy.Minimize(p.s, p.loss, {p.w});
    const Output w = p.w.Read(p.s), m = lazy.Slot(p.w, "Adam").Read(p.s);
    const auto session = Start(p.s);
    const std::vector<double> before = Doubles(Fetch(*session, {w})[0]);
    for (int i = 0; i < 3; ++i) Fetch(*session, {}, {}, {step.name()});
    const std::vector<double> after = Doubles(Fetch(*session, {w})[0]), moments = Doubles(Fetch(*session, {m})[0]);
    for (int i = 0; i < 18; ++i) {
      const int row = i / 3;
      const bool read = row == 0 || row == 1 || row == 4;
      BOOST_TEST((after[i] != before[i]) == read);
      BOOST_TEST((moments[i] != 0) == read);
    }
  }
}

}  // namespace twenty_steps_test
}  // namespace troupe::testing
