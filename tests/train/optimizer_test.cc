// Five steps of each optimizer, against what TensorFlow's did on the same problem with its
// constants given in float64.
#include <memory>

#include "tests/train/run.h"
#include "troupe/train/adam.h"
#include "troupe/train/global_step.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/momentum.h"

namespace troupe::testing {
namespace optimizer_test {

// loss = sum((w * x + b - 1)^2)
struct Problem {
  explicit Problem(bool resource) {
    VariableOptions options;
    options.use_resource = resource;
    w = Variable(s.WithOpName("w"), Const(s, {1.0, -2.0, 0.5}), options);
    b = Variable(s.WithOpName("b"), Const(s, 0.25), options);
    const Output error = w * Const(s, {0.5, 1.5, -1.0}) + b - 1.0;
    loss = Build(s, "Sum", {error * error, Const(s, {0})});
  }
  Scope s = Scope::NewRootScope();
  Variable w, b;
  Output loss;
};

struct Trajectory {
  const char* name;
  std::function<std::unique_ptr<train::Optimizer>()> make;
  std::vector<double> after_five;  // w, b
};

const std::vector<Trajectory>& Trajectories() {
  static const std::vector<Trajectory> list = {
      {"gradient descent",
       [] { return std::make_unique<train::GradientDescent>(0.1); },
       {0.7348901562499999, -0.2270942187500001, 0.25648000000000004, 1.1452375000000001}},
      {"momentum",
       [] { return std::make_unique<train::Momentum>(0.05, 0.9); },
       {0.6352274853515623, 0.8984124267578127, 0.17120625000000006, 1.7815236718749998}},
      {"momentum with nesterov",
       [] { return std::make_unique<train::Momentum>(0.05, 0.9, true); },
       {0.4718079989913573, 0.35864995932241217, 0.2828441047875, 0.9832051994101562}},
      {"adam",
       [] { return std::make_unique<train::Adam>(0.1); },
       {1.2278275736423967, -1.5043526762953456, 0.018039979786972166, 0.7403943665349558}},
      {"adam with other constants",
       [] { return std::make_unique<train::Adam>(0.02, 0.8, 0.95, 1e-4); },
       {1.096893298632418, -1.9002014272512908, 0.4005323968308971, 0.34964137855618793}},
  };
  return list;
}

BOOST_AUTO_TEST_CASE(trajectories_equal_tensorflows) {
  for (const Trajectory& t : Trajectories()) {
    for (const bool resource : {true, false}) {
      Problem p(resource);
      const auto optimizer = t.make();
      const Operation step = optimizer->Minimize(p.s, p.loss);
      BOOST_REQUIRE_MESSAGE(p.s.ok(), t.name << ": " << p.s.status().ToString());
      const Output w = p.w.Read(p.s), b = p.b.Read(p.s);
      const auto session = Start(p.s);
      for (int i = 0; i < 5; ++i) Fetch(*session, {}, {}, {step.name()});
      const std::vector<Tensor> now = Fetch(*session, {w, b});
      std::vector<double> got = Doubles(now[0]);
      got.push_back(now[1].scalar<double>());
      CheckNear(got, t.after_five, 1e-12, StrCat(t.name, resource ? ", resource" : ", reference"));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_step_counts_after_all_updates) {
  Problem p(true);
  const Variable step = train::GetOrCreateGlobalStep(p.s);
  BOOST_TEST(train::GetOrCreateGlobalStep(p.s).variable_name() == step.variable_name());
  train::GradientDescent sgd(0.1);
  const Operation op = sgd.Minimize(p.s.WithOpName("fit"), p.loss, {}, step);
  BOOST_REQUIRE_MESSAGE(p.s.ok(), p.s.status().ToString());
  // A NoOp "update" waits for one Apply node per variable; the increment waits for it.
  const Node* update = p.s.graph()->Find("fit/update");
  BOOST_REQUIRE(update != nullptr);
  int applies = 0;
  for (const Edge* e : update->in_edges()) applies += e->src->op().name == "ResourceApplyGradientDescent";
  BOOST_TEST(applies == 2);
  const Output read = step.Read(p.s);
  const auto session = Start(p.s);
  for (int i = 0; i < 3; ++i) Fetch(*session, {}, {}, {op.name()});
  BOOST_TEST(Fetch(*session, {read})[0].scalar<int64_t>() == 3);
}

BOOST_AUTO_TEST_CASE(slots_are_variables_named_after_theirs) {
  Problem p(true);
  train::Adam adam(0.1);
  adam.Minimize(p.s.NewSubScope("train"), p.loss);
  BOOST_REQUIRE_MESSAGE(p.s.ok(), p.s.status().ToString());
  std::vector<std::string> names;
  for (const Variable& v : VariablesIn(p.s, kGlobalVariables)) names.push_back(v.variable_name());
  std::sort(names.begin(), names.end());
  BOOST_TEST(names == (std::vector<std::string>{"b", "b/Adam", "b/Adam_1", "beta1_power", "beta2_power", "w", "w/Adam",
                                                "w/Adam_1"}),
             boost::test_tools::per_element());
  BOOST_TEST(VariablesIn(p.s, kTrainableVariables).size() == 2u);
  BOOST_TEST(adam.Slot(p.w, "Adam_1").variable_name() == "w/Adam_1");
  BOOST_TEST(!adam.Slot(p.w, "Momentum").valid());
  BOOST_TEST((adam.Slot(p.w, "Adam").handle().node()->Attr<std::vector<std::string>>("_class").value() ==
              std::vector<std::string>{"loc:@w"}));
}

BOOST_AUTO_TEST_CASE(a_learning_rate_may_be_a_tensor_of_another_type) {
  Problem p(true);
  const Output rate = Build(p.s.WithOpName("rate"), "Placeholder", {},
                            {{"dtype", DType::kFloat}, {"shape", PartialTensorShape(TensorShape())}});
  train::GradientDescent sgd(rate);
  const Operation step = sgd.Minimize(p.s, p.loss, {p.b});
  const Output b = p.b.Read(p.s);
  const auto session = Start(p.s);
  Fetch(*session, {}, {{"rate", Tensor::Scalar(0.5f)}}, {step.name()});
  // The slope at the start is 2 * (0.5 - 3 - 0.5 + 3 * (0.25 - 1)) = -10.5.
  CheckNear({Fetch(*session, {b})[0].scalar<double>()}, {0.25 + 0.5 * 10.5}, 1e-12, "b");
}

BOOST_AUTO_TEST_CASE(variables_the_loss_does_not_need) {
  Problem p(true);
  const Variable other(p.s.WithOpName("other"), Const(p.s, 1.0));
  train::GradientDescent sgd(0.1);
  const std::vector<train::GradAndVar> grads = sgd.ComputeGradients(p.s, p.loss, {p.w, other});
  BOOST_REQUIRE_MESSAGE(p.s.ok(), p.s.status().ToString());
  BOOST_TEST(grads[0].grad.valid());
  BOOST_TEST(!grads[1].grad.valid());
  sgd.ApplyGradients(p.s, {grads[1]});
  BOOST_TEST(p.s.status().ToString().find("no gradient was given for any of the variables: other") !=
             std::string::npos);
}

}  // namespace optimizer_test
}  // namespace troupe::testing
