// The code of docs/guide/training.md.
#include "tests/docs/pages.h"
#include "troupe/train/global_step.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(variables_by_hand) {
  // [variable]
  Scope root = Scope::NewRootScope();
  Variable w(root.WithOpName("w"), {{0.5f}, {0.25f}});  // float32 [2,1], with its initial value
  Variable steps(root.WithOpName("steps"), 0, {.trainable = false});
  Output y = ops::MatMul(root, {{1.0f, 2.0f}}, w);    // a Variable is used like an Output
  Output more = steps.AssignAdd(root, 1);             // the value after the update
  Operation init = GlobalVariablesInitializer(root);  // sets all variables of the graph

  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);  // first of all, in a step of its own
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({}, {y, more}, {}, &out);  // 1.0 and 1
  // [/variable]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "float32 [1,1] [1]");
  BOOST_TEST(out[1].scalar<int32_t>() == 1);

  // [get_set]
  absl::StatusOr<Tensor> value = session->Get(w);          // a snapshot
  s = session->Set(w, Tensor::Of<float>({3, 4}, {2, 1}));  // type and shape must fit
  // [/get_set]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_REQUIRE_MESSAGE(value.ok(), value.status());
  BOOST_TEST(value->DebugString() == "float32 [2,1] [0.5 0.25]");
  BOOST_TEST(session->Get(w)->DebugString() == "float32 [2,1] [3 4]");

  auto other = *Session::Create();
  BOOST_REQUIRE(other->Extend(*root.graph()).ok());
  // [snapshot]
  StateSnapshot snapshot = *session->SnapshotState();
  std::string bytes = *snapshot.ToBytes();  // for a file (files::Write), or another process
  // ... later, or elsewhere; nothing need have been initialised:
  s = other->RestoreState(*StateSnapshot::FromBytes(bytes));
  // [/snapshot]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(other->Get(w)->DebugString() == "float32 [2,1] [3 4]");
  BOOST_TEST(other->Get(steps)->scalar<int32_t>() == 1);

  // [save]
  std::map<std::string, Tensor> saved;
  for (const Variable& v : VariablesIn(root, kGlobalVariables)) {
    absl::StatusOr<Tensor> t = session->Get(v);
    if (t.ok()) saved[v.variable_name()] = *t;
  }
  // ... and back, in another session of the same graph; no initializer has to run
  std::unique_ptr<Session> later = *Session::Create();
  s = later->Extend(*root.graph());
  for (const Variable& v : VariablesIn(root, kGlobalVariables)) {
    if (s.ok()) s = later->Set(v, saved[v.variable_name()]);
  }
  // [/save]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(saved.size() == 2);
  BOOST_TEST(later->Get(w)->DebugString() == "float32 [2,1] [3 4]");
  BOOST_TEST(later->Get(steps)->scalar<int32_t>() == 1);
}

BOOST_AUTO_TEST_CASE(a_model_is_trained) {
  // [model]
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1, 2}});
  Output labels = ops::Placeholder(root.WithOpName("labels"), DType::kInt32, {.shape = {-1}});
  Output hidden =
      layers::Dense(root.WithOpName("fc1"), x, 8, {.activation = "Tanh", .kernel_initializer = init::GlorotUniform(1)});
  Output logits = layers::Dense(root.WithOpName("fc2"), hidden, 2, {.kernel_initializer = init::GlorotUniform(2)});
  Output loss = ops::Mean(root, ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, labels).loss);

  train::Adam adam(0.05);
  Operation step = adam.Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);  // after Minimize: Adam's moments are variables, too
  // [/model]
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());

  // [loop]
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  const Tensor points = Tensor::Of<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const Tensor classes = Tensor::Vector<int32_t>({0, 1, 1, 0});  // exclusive or
  std::vector<Tensor> out;
  for (int i = 0; i < 200 && s.ok(); ++i) s = session->Run({{x, points}, {labels, classes}}, {loss}, {step}, &out);
  // [/loop]
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() < 0.1f);
}

BOOST_AUTO_TEST_CASE(schedules_and_clipping) {
  Scope root = Scope::NewRootScope();
  Variable w(root.WithOpName("w"), init::HeNormal(3)(root, {4, 4}, DType::kFloat));
  Output loss = ops::Sum(root, ops::Square(root, w));
  // [schedule]
  Variable global_step = train::GetOrCreateGlobalStep(root);
  Output rate = train::ExponentialDecay(root, 0.1f, global_step, /*decay_steps=*/1000, /*decay_rate=*/0.5);
  train::Momentum optimizer(rate, 0.9f);

  std::vector<train::GradAndVar> grads = optimizer.ComputeGradients(root, loss);
  grads = train::ClipByGlobalNorm(root, grads, 1.0f);
  Operation step = optimizer.ApplyGradients(root, grads, global_step);
  // [/schedule]
  Operation init = GlobalVariablesInitializer(root);
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  std::vector<Tensor> before, after;
  if (s.ok()) s = session->Run({}, {loss}, {}, &before);
  for (int i = 0; i < 10 && s.ok(); ++i) s = session->Run({}, {}, {step}, nullptr);
  if (s.ok()) s = session->Run({}, {loss, rate}, {}, &after);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(after[0].scalar<float>() < before[0].scalar<float>());
  BOOST_TEST(after[1].scalar<float>() < 0.1f);
  BOOST_TEST(session->Get(global_step)->scalar<int64_t>() == 10);
}

}  // namespace
}  // namespace troupe
