// The nodes of synchronous training: what comes with a token, and what is refused.
#include <boost/test/unit_test.hpp>
#include <algorithm>
#include <functional>

#include "tests/monitored/training_runs.h"
#include "troupe/train/gradient_descent.h"

namespace troupe {
namespace sync_replicas_test {

BOOST_AUTO_TEST_SUITE(sync_replicas)

// What comes with a worker's token: dense variables of known shapes, as long as all of them are
// small together.
BOOST_AUTO_TEST_CASE(small_variables_come_with_the_token) {
  Adam adam(0.1), second(0.1);
  const auto with_token = [](const SyncReplicas& sync) {
    std::vector<std::string> reads;
    for (const auto& v : sync.values_with_token()) {
      BOOST_TEST(v.value.valid());
      for (const std::string& r : v.reads) reads.push_back(r);
    }
    std::sort(reads.begin(), reads.end());
    return StrJoin(reads, " ");
  };
  const Model dense(0, 2, adam, false), many(1, 2, second, false, 0, false, 0, false, true);
  BOOST_TEST(with_token(*dense.sync) == "b/Read:0 w/Read:0");
  BOOST_TEST(with_token(*many.sync) == "b/Read:0 c/Read:0 d/Read:0 e/Read:0 f/Read:0 large/Read:0 w/Read:0");
  Adam other(0.1);
  const Model sparse(0, 2, other, true);
  BOOST_TEST(with_token(*sparse.sync) == "b/Read:0");

  // Of large models the small ones only; none that is a reference, or that waits for something.
  const Scope root = Scope::NewRootScope();
  const auto variable = [&](const char* name, const TensorShape& shape, bool resource = true) {
    VariableOptions options;
    options.use_resource = resource;
    return Variable(root.WithOpName(name), init::TruncatedNormal(0.0, 0.1, 11)(root, shape, DType::kFloat), options);
  };
  const Variable huge = variable("huge", {1200, 1000}), small = variable("small", {4}),
                 reference = variable("reference", {4}, false), late = variable("late", {4});
  const Output first = ops::Sum(root, huge, Tensor::Vector<int32_t>({0, 1}));
  const Scope after = root.WithControlDependencies(first);
  const Output loss =
      ops::Add(root, first, ops::Sum(root, ops::Add(root, ops::Mul(root, small, reference), late.Read(after)), 0));
  const Variable step = GetOrCreateGlobalStep(root);
  Adam third(0.1);
  const SyncReplicas sync(root, third, third.ComputeGradients(root, loss), loss, step, {.workers = 2});
  REQUIRE_OK(root.status());
  BOOST_TEST(with_token(sync) == "small/Read:0");

  // A variable that is there twice comes once; one that is read beside it does not.
  const Scope two = Scope::NewRootScope(), on = two.WithDevice("/job:worker/task:0");
  const Variable v(two.WithOpName("v").WithDevice("/job:ps/task:0"), Tensor::Vector<float>({1, 2})),
      beside(two.WithOpName("beside").WithDevice("/job:ps/task:0"), Tensor::Vector<float>({1, 2}));
  const Output sum = ops::Sum(on, ops::Mul(on, v, beside), 0);
  ops::Square(two.WithDevice("/job:ps/task:0"), beside);
  Adam fourth(0.1);
  std::vector<GradAndVar> grads = fourth.ComputeGradients(on, sum, {v, beside});
  grads.push_back(grads[0]);
  const SyncReplicas doubled(on, fourth, grads, sum, GetOrCreateGlobalStep(two), {.workers = 2});
  BOOST_TEST(with_token(doubled) == "v/Read:0");
}

// However many gradients go to a server together.
BOOST_AUTO_TEST_CASE(a_gradient_of_another_shape_is_refused) {
  for (const bool known : {true, false}) {
    const Scope root = Scope::NewRootScope();
    std::vector<GradAndVar> grads;
    for (const char* name : {"a", "b", "c"}) {
      const Variable v(root.WithOpName(name), Tensor::Of<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3})));
      const Output other = ops::Const(root, Tensor::Of<float>({1, 2, 3, 4, 5, 6}, TensorShape({3, 2})));
      const Output hidden = ops::Placeholder(root.WithOpName(StrCat("hidden_", name)), DType::kFloat);
      grads.push_back({known ? other : hidden, v});
    }
    const Output loss = ops::Const(root, 1.0f);
    Adam adam(0.1);
    const SyncReplicas sync(root, adam, grads, loss, GetOrCreateGlobalStep(root), {.workers = 1});
    if (known) {
      BOOST_TEST((root.status().code() == absl::StatusCode::kInvalidArgument), root.status());
      continue;
    }
    REQUIRE_OK(root.status());
    const Operation init = GlobalVariablesInitializer(root);
    auto session = Session::Create();
    REQUIRE_OK(session.status());
    REQUIRE_OK((*session)->Extend(*root.graph()));
    REQUIRE_OK((*session)->Run({}, {}, {init}, nullptr));
    REQUIRE_OK((*session)->Run({}, {}, {sync.make_places()}, nullptr));
    Feeds feeds{{sync.notice().name(), Tensor::Vector<int64_t>({SyncReplicas::kGradient, 0, 1, 0})}};
    for (const char* name : {"a", "b", "c"})
      feeds.emplace_back(StrCat("hidden_", name), Tensor(DType::kFloat, TensorShape({3, 2})));
    const absl::Status sent = (*session)->Run(feeds, {}, {sync.send(0)}, nullptr);
    BOOST_TEST((sent.code() == absl::StatusCode::kInvalidArgument), sent);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_built_is_told) {
  const auto told = [](const SyncReplicasOptions& options, bool no_gradients) {
    const Scope root = Scope::NewRootScope();
    const Variable w(root.WithOpName("w"), 1.0f);
    const Output loss = ops::Square(root, w);
    GradientDescent descent(0.1f);
    auto grads = descent.ComputeGradients(root, loss);
    if (no_gradients) grads.clear();
    const SyncReplicas sync(root, descent, grads, loss, GetOrCreateGlobalStep(root), options);
    return std::string(root.status().message());
  };
  BOOST_TEST(told({.workers = 0}, false).find("worker 0 of 0") != std::string::npos);
  BOOST_TEST(told({.workers = 2, .worker = 2}, false).find("worker 2 of 2") != std::string::npos);
  BOOST_TEST(told({.workers = 2, .take = 3}, false).find("of which 3 are taken") != std::string::npos);
  BOOST_TEST(told({.workers = 2}, true).find("no gradients") != std::string::npos);
  BOOST_TEST(told({.workers = 2}, false) == "");

  const auto build = [](const Scope& root, const Variable& step, const std::function<void(std::vector<GradAndVar>*)>& f,
                        bool vector = false) {
    const Variable w(root.WithOpName("w"), Tensor::Vector<float>({1, 2}));
    const Variable table(root.WithOpName("table"), Tensor::Of<float>({1, 2, 3, 4}, TensorShape({2, 2})));
    const Output rows = ops::GatherV2(root, table, ops::Const(root, Tensor::Vector<int32_t>({0})), 0);
    const Output loss = ops::Sum(root, ops::Mul(root, rows, w), Tensor::Vector<int32_t>({0, 1}));
    GradientDescent descent(0.1f);
    auto grads = descent.ComputeGradients(root, loss);
    if (f) f(&grads);
    const SyncReplicas sync(root, descent, grads, vector ? Output(w) : loss, step, {.workers = 2});
    return std::string(root.status().message());
  };
  const Scope a = Scope::NewRootScope(), b = Scope::NewRootScope(), c = Scope::NewRootScope();
  // Behind the gradient that is refused there is one of rows.
  const auto flat = [&](std::vector<GradAndVar>* grads) {
    (*grads)[0].grad = ops::Const(a, Tensor::Vector<float>({1, 2, 3}));
  };
  BOOST_TEST(build(a, GetOrCreateGlobalStep(a), flat).find("w") != std::string::npos);
  BOOST_TEST(build(b, Variable(b.WithOpName("s"), 0.5f), nullptr).find("'s' is float32") != std::string::npos);
  BOOST_TEST(build(c, GetOrCreateGlobalStep(c), nullptr, true).find("is a scalar") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sync_replicas_test
}  // namespace troupe
