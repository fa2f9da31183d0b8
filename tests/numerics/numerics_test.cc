// RunOptions.check_numerics: which node met the first NaN or infinity, and that the step which did
// leaves the variables as they were.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <thread>

#include <unistd.h>

#include "tests/checkpoint/held_files.h"
#include "tests/common/check_ok.h"
#include "troupe/files.h"
#include "troupe/node_builder.h"
#include "troupe/train/adam.h"
#include "troupe/train/momentum.h"
#include "troupe/troupe.h"

namespace troupe {
namespace numerics_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::unique_ptr<Session> NewSession(const Scope& root, const SessionOptions& options = {}) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  auto session = Session::Create(options);
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
  REQUIRE_OK((*session)->Extend(*root.graph()));
  return *std::move(session);
}

RunOptions Checked(std::string folder = "") {
  RunOptions options;
  options.check_numerics = true;
  options.numerics_folder = std::move(folder);
  return options;
}

bool Says(const absl::Status& s, std::string_view what) {
  const bool says = s.ToString().find(what) != std::string::npos;
  if (!says) BOOST_TEST_MESSAGE("'" << what << "' is not in: " << s);
  return says;
}

// The bytes of each variable's value.
std::vector<std::string> Bytes(Session& session, const std::vector<Variable>& variables) {
  std::vector<std::string> bytes;
  for (const Variable& v : variables) {
    const auto value = session.Get(v);
    bytes.push_back(value.ok() ? std::string(static_cast<const char*>(value->raw()), value->bytes())
                               : std::string(value.status().message()));
  }
  return bytes;
}

struct Fixture {
  Scope root = Scope::NewRootScope();
  std::vector<Tensor> out;
};

BOOST_FIXTURE_TEST_SUITE(numerics, Fixture)

BOOST_AUTO_TEST_CASE(an_output_that_is_not_finite_fails_its_step) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {2, 3}});
  const Output y = ops::RealDiv(root.WithOpName("y"), 1.0f, x), z = ops::Neg(root.WithOpName("z"), y);
  auto session = NewSession(root, {.fuse = false});
  const Tensor bad = Tensor::Of<float>({1, 2, 0, -0.0f, kNan, 4}, TensorShape({2, 3}));
  REQUIRE_OK(session->Run({{x, bad}}, {z}, {}, &out));
  const absl::Status s = session->Run(Checked(), {{x, bad}}, {z}, {}, &out, nullptr);
  BOOST_TEST(absl::IsInvalidArgument(s));
  BOOST_TEST(Says(s,
                  "node 'y' (RealDiv) on /job:localhost/replica:0/task:0/device:CPU:0: output 0 (float32 [2,3]) has "
                  "1 NaN, 1 +Inf and 1 -Inf among 6 elements, the first at [0,2]; defined at numerics_test.cc:"));
  BOOST_TEST(s.ToString().find("not_finite") == std::string::npos);  // no mark of ours is left
  REQUIRE_OK(session->Run(Checked(), {{x, Tensor::Of<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3}))}}, {z}, {}, &out,
                          nullptr));
}

BOOST_AUTO_TEST_CASE(every_type_that_has_them_is_checked) {
  const auto refused = [&](DType type, double value) {
    Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root, DType::kDouble, {.shape = TensorShape()});
    const Output y = ops::Cast(root, x, type);
    std::vector<Tensor> out;
    return !NewSession(root)->Run(Checked(), {{x, Tensor::Scalar(value)}}, {y}, {}, &out, nullptr).ok();
  };
  for (const DType t : {DType::kHalf, DType::kBfloat16, DType::kFloat, DType::kComplex64, DType::kComplex128}) {
    BOOST_TEST_CONTEXT(Name(t)) {
      BOOST_TEST(refused(t, std::nan("")));
      BOOST_TEST(refused(t, HUGE_VAL));
      BOOST_TEST(!refused(t, -1.5));
    }
  }
  BOOST_TEST(refused(DType::kHalf, 70000));  // overflows
  BOOST_TEST(!refused(DType::kFloat, 70000));
}

BOOST_AUTO_TEST_CASE(what_is_only_handed_on_is_not_checked) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = {-1}});
  const Output least = Const(root, std::vector<float>{-kInf, -kInf});
  const Output max = ops::Maximum(root, ops::Identity(root, least), x);
  auto session = NewSession(root, {.runtime_options = {.cpu_devices = 2}});
  REQUIRE_OK(session->Run(Checked(), {{x, Tensor::Vector<float>({1, 2})}}, {max, least}, {}, &out, nullptr));
  BOOST_TEST(out[0].data<float>()[1] == 2);
}

BOOST_AUTO_TEST_CASE(a_loop_names_its_iteration) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  const OutputList results = While(
      root.WithOpName("loop"), OutputList{Const(root, 0), x},
      [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 10); },
      [](const Scope& s, const OutputList& v) {
        const Output left = ops::Sub(s, 3.0f, ops::Cast(s, v[0], DType::kFloat));
        return OutputList{ops::AddV2(s, v[0], 1), ops::RealDiv(s.WithOpName("quotient"), v[1], left)};
      });
  for (const bool messages : {false, true}) {
    auto session = NewSession(root, {.fuse = false, .token_messages = messages});
    const absl::Status s = session->Run(Checked(), {{x, Tensor::Scalar(-1.0f)}}, {results[1]}, {}, &out, nullptr);
    BOOST_TEST(absl::IsInvalidArgument(s));
    BOOST_TEST(Says(s, "node 'loop/quotient' (RealDiv)"));
    BOOST_TEST(Says(s, "has 0 NaN, 0 +Inf and 1 -Inf among 1 element, the first at [] in iteration 3 of loop 'loop/"));
  }
}

BOOST_AUTO_TEST_CASE(a_dead_branch_is_not_checked) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  const Output y = Cond(
      root, ops::Greater(root, x, 0.0f), [&](const Scope& s) { return ops::Log(s.WithOpName("log"), x); },
      [&](const Scope& s) { return ops::Neg(s, x); });
  auto session = NewSession(root);
  REQUIRE_OK(session->Run(Checked(), {{x, Tensor::Scalar(-1.0f)}}, {y}, {}, &out, nullptr));
  BOOST_TEST(out[0].scalar<float>() == 1);
}

// What a training step is: two variables with two slots each, and a loss of which one part has a
// gradient that is finite whatever the loss is.
struct Training : Fixture {
  Training() {
    for (const bool resource : {true, false}) {
      const Scope s = root.NewSubScope(resource ? "resource" : "reference");
      const Variable a(s.WithOpName("a"), std::vector<float>{1, 2, 3}, {.use_resource = resource});
      const Variable b(s.WithOpName("b"), std::vector<float>{4, 5, 6}, {.use_resource = resource});
      const Output loss = ops::Add(s, ops::Sum(s, ops::Mul(s, a, a), 0),
                                   ops::Sum(s, ops::Log(s.WithOpName("log"), ops::Mul(s, b, x)), 0));
      train::Adam adam(0.1f);
      train::Momentum momentum(0.1f, 0.9f);
      steps.push_back(adam.Minimize(s, loss, {a, b}, global));
      steps.push_back(momentum.Minimize(s.NewSubScope("momentum"), loss, {a, b}, global));
    }
    init = GlobalVariablesInitializer(root);
    variables = VariablesIn(root, kGlobalVariables);
  }
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {3}});
  Variable global{root.WithOpName("global_step"), int64_t{0}, {.trainable = false}};
  std::vector<Operation> steps;
  Operation init;
  std::vector<Variable> variables;
  const Tensor good = Tensor::Vector<float>({1, 1, 1}), bad = Tensor::Vector<float>({1, 0, -1});
};

BOOST_FIXTURE_TEST_CASE(a_step_whose_loss_is_nan_leaves_variables_and_slots_bit_for_bit, Training) {
  for (const int threads : {1, 4}) {
    auto session = NewSession(root, {.runtime_options = {.threads = threads}});
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    for (const Operation& step : steps) {
      REQUIRE_OK(session->Run(Checked(), {{x, good}}, {}, {step}, nullptr, nullptr));
      const std::vector<std::string> before = Bytes(*session, variables);
      for (int i = 0; i < 20; ++i) {
        const absl::Status s = session->Run(Checked(), {{x, bad}}, {}, {step}, nullptr, nullptr);
        BOOST_REQUIRE(absl::IsInvalidArgument(s));
        BOOST_REQUIRE(Bytes(*session, variables) == before);
      }
      REQUIRE_OK(session->Run(Checked(), {{x, good}}, {}, {step}, nullptr, nullptr));
      BOOST_TEST(Bytes(*session, variables) != before);
      // Without the check the same step spoils them, which shows that it would.
      REQUIRE_OK(session->Run({{x, bad}}, {}, {step}, nullptr));
      BOOST_TEST(absl::IsInvalidArgument(session->Run(Checked(), {{x, good}}, {}, {step}, nullptr, nullptr)));
      REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_checked_step_computes_what_another_does, Training) {
  auto checked = NewSession(root), plain = NewSession(root);
  for (Session* s : {checked.get(), plain.get()}) REQUIRE_OK(s->Run({}, {}, {init}, nullptr));
  for (int i = 0; i < 5; ++i) {
    for (const Operation& step : steps) {
      REQUIRE_OK(checked->Run(Checked(), {{x, good}}, {}, {step}, nullptr, nullptr));
      REQUIRE_OK(plain->Run({{x, good}}, {}, {step}, nullptr));
    }
  }
  BOOST_TEST(Bytes(*checked, variables) == Bytes(*plain, variables));
}

// An update that was done before the NaN came.
struct Undone : Fixture {
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  Variable v{root.WithOpName("v"), 1.0f}, fresh{root.WithOpName("fresh"), 5.0f};
  Output twice = v.AssignAdd(root.WithControlDependencies(v.AssignAdd(root, 1.0f)), 2.0f);
  Output first = fresh.Assign(root, 7.0f);
  Output log = ops::Log(root.WithOpName("log").WithControlDependencies({Operation(twice), Operation(first)}), x);
  Operation init = v.initializer();
  const Tensor one = Tensor::Scalar(1.0f), bad = Tensor::Scalar(-1.0f);
};

BOOST_FIXTURE_TEST_CASE(updates_before_the_nan_are_taken_back, Undone) {
  for (const int devices : {1, 2}) {
    auto session = NewSession(root, {.runtime_options = {.cpu_devices = devices}});
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    for (int i = 0; i < 3; ++i) {
      BOOST_TEST(Says(session->Run(Checked(), {{x, bad}}, {log}, {}, &out, nullptr), "node 'log'"));
      BOOST_TEST(session->Get(v)->scalar<float>() == 1);
      BOOST_TEST(absl::IsFailedPrecondition(session->Get(fresh).status()));  // it had no value
    }
    REQUIRE_OK(session->Run(Checked(), {{x, one}}, {log}, {}, &out, nullptr));
    BOOST_TEST(session->Get(v)->scalar<float>() == 4);
    BOOST_TEST(session->Get(fresh)->scalar<float>() == 7);
  }
}

BOOST_FIXTURE_TEST_CASE(updates_on_several_devices_are_taken_back, Fixture) {
  const Scope one = root.WithDevice("/cpu:0"), two = root.WithDevice("/cpu:1");
  const Variable a(one.WithOpName("a"), 1.0f), b(two.WithOpName("b"), 2.0f);
  const Output x = ops::Placeholder(one, DType::kFloat, {.shape = TensorShape()});
  const Output to_a = a.AssignAdd(one, 1.0f), to_b = b.AssignAdd(two, 1.0f);
  const Output log = ops::Log(two.WithOpName("log").WithControlDependencies({Operation(to_a), Operation(to_b)}), x);
  const Operation init = GlobalVariablesInitializer(root);
  auto session = NewSession(root, {.runtime_options = {.cpu_devices = 2}});
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  const absl::Status s = session->Run(Checked(), {{x, Tensor::Scalar(-1.0f)}}, {log}, {}, &out, nullptr);
  BOOST_TEST(Says(s, "node 'log' (Log) on /job:localhost/replica:0/task:0/device:CPU:1: output 0"));
  BOOST_TEST(session->Get(a)->scalar<float>() == 1);
  BOOST_TEST(session->Get(b)->scalar<float>() == 2);
}

BOOST_FIXTURE_TEST_CASE(an_update_of_another_step_since_is_left, Undone) {
  const Output other = v.Assign(root.WithOpName("other"), 100.0f);
  auto session = NewSession(root);
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  const auto handle = session->PartialRunSetup(Checked(), {x}, {twice, log}, {});
  BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
  REQUIRE_OK(session->PartialRun(*handle, {}, {twice}, &out));
  REQUIRE_OK(session->Run({}, {other}, {}, &out));
  BOOST_TEST(Says(session->PartialRun(*handle, {{x, bad}}, {log}, &out), "node 'log'"));
  BOOST_TEST(session->Get(v)->scalar<float>() == 100);
}

BOOST_FIXTURE_TEST_CASE(two_steps_that_fail_leave_nothing_of_either, Undone) {
  for (const int first_to_fail : {0, 1}) {
    auto session = NewSession(root);
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    std::string steps[2];
    for (std::string& step : steps) {
      const auto handle = session->PartialRunSetup(Checked(), {x}, {twice, log}, {});
      BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
      step = *handle;
      REQUIRE_OK(session->PartialRun(step, {}, {twice}, &out));
    }
    BOOST_TEST(session->Get(v)->scalar<float>() == 7);
    for (const int i : {first_to_fail, 1 - first_to_fail})
      BOOST_TEST(Says(session->PartialRun(steps[i], {{x, bad}}, {log}, &out), "node 'log'"));
    BOOST_TEST(session->Get(v)->scalar<float>() == 1);
    BOOST_TEST(absl::IsFailedPrecondition(session->Get(fresh).status()));
  }
}

BOOST_FIXTURE_TEST_CASE(a_variable_that_was_destroyed_is_there_again, Fixture) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  const Variable v(root.WithOpName("v"), 1.0f);
  const Operation destroy = ops::DestroyResourceOp(root.WithControlDependencies(v.AssignAdd(root, 1.0f)), v.handle());
  const Output log = ops::Log(root.WithOpName("log").WithControlDependencies({destroy}), x);
  const Output destroyed = Const(root.WithControlDependencies({destroy}), 1);
  // Asks for the variable when it is destroyed, which makes another of the name.
  const Output there = ops::VarIsInitializedOp(root, v.handle());
  const Tensor bad = Tensor::Scalar(-1.0f), one = Tensor::Scalar(1.0f);
  auto session = NewSession(root);
  for (const bool asked : {false, true}) {
    REQUIRE_OK(session->Run({}, {}, {v.initializer()}, nullptr));
    for (int i = 0; i < 2; ++i) {
      const auto handle = session->PartialRunSetup(Checked(), {x}, {destroyed, log}, {});
      BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
      REQUIRE_OK(session->PartialRun(*handle, {}, {destroyed}, &out));
      if (asked) {
        REQUIRE_OK(session->Run({}, {there}, {}, &out));
        BOOST_TEST(!out[0].scalar<bool>());
      }
      BOOST_TEST(Says(session->PartialRun(*handle, {{x, bad}}, {log}, &out), "node 'log'"));
      BOOST_REQUIRE_MESSAGE(session->Get(v).ok(), session->Get(v).status());
      BOOST_TEST(session->Get(v)->scalar<float>() == 1);
    }
  }
  REQUIRE_OK(session->Run(Checked(), {{x, one}}, {log}, {}, &out, nullptr));
  BOOST_TEST(absl::IsFailedPrecondition(session->Get(v).status()));
}

// The step knows the variable that stood there when it began.
BOOST_FIXTURE_TEST_CASE(a_variable_that_was_restored_meanwhile_stays, Fixture) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  const Variable v(root.WithOpName("v"), 1.0f);
  const Output added = v.AssignAdd(root, 1.0f);
  const Operation destroy =
      ops::DestroyResourceOp(root.WithControlDependencies({Operation(added), Operation(x)}), v.handle());
  const Output log = ops::Log(root.WithOpName("log").WithControlDependencies({destroy}), x);
  auto session = NewSession(root);
  REQUIRE_OK(session->Set(v, Tensor::Scalar(5.0f)));
  const absl::StatusOr<StateSnapshot> snapshot = session->SnapshotState({});
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  for (const float fed : {-1.0f, 1.0f}) {
    REQUIRE_OK(session->Run({}, {}, {v.initializer()}, nullptr));
    const auto handle = session->PartialRunSetup(Checked(), {x}, {added, log}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    REQUIRE_OK(session->PartialRun(*handle, {}, {added}, &out));
    REQUIRE_OK(session->RestoreState(*snapshot));
    const absl::Status s = session->PartialRun(*handle, {{x, Tensor::Scalar(fed)}}, {log}, &out);
    BOOST_TEST((fed > 0 ? s.ok() : Says(s, "node 'log'")), s);
    BOOST_REQUIRE_MESSAGE(session->Get(v).ok(), session->Get(v).status());
    BOOST_TEST(session->Get(v)->scalar<float>() == 5);
  }
}

BOOST_FIXTURE_TEST_CASE(partial_asynchronous_and_prepared_steps_are_checked, Undone) {
  auto session = NewSession(root);
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  const auto handle = session->PartialRunSetup(Checked(), {x}, {log}, {});
  BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
  BOOST_TEST(Says(session->PartialRun(*handle, {{x, bad}}, {log}, &out), "node 'log'"));
  BOOST_TEST(session->Get(v)->scalar<float>() == 1);

  for (int i = 0; i < 3; ++i) {  // also on a thread that is lent
    std::promise<absl::Status> answer;
    session->RunAsync(Checked(), {{x, bad}}, {log}, {},
                      [&](absl::Status s, std::vector<Tensor>) { answer.set_value(s); });
    BOOST_TEST(Says(answer.get_future().get(), "node 'log'"));
    BOOST_TEST(session->Get(v)->scalar<float>() == 1);
  }

  const auto callable = session->Prepare({x}, {log}, {});
  BOOST_REQUIRE(callable.ok());
  BOOST_TEST(Says(callable->Run(Checked(), {bad}, &out), "node 'log'"));
  BOOST_TEST(session->Get(v)->scalar<float>() == 1);
  // With a deadline a step goes another way.
  RunOptions late = Checked();
  late.timeout_ms = 60'000;
  BOOST_TEST(Says(callable->Run(late, {bad}, &out), "node 'log'"));
  BOOST_TEST(session->Get(v)->scalar<float>() == 1);
  REQUIRE_OK(callable->Run({bad}, &out));
}

BOOST_AUTO_TEST_CASE(an_update_is_refused_before_it_is_done) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = {2}});
  for (const bool resource : {true, false}) {
    const Scope s = root.NewSubScope(resource ? "resource" : "reference");
    const Variable v(s.WithOpName("v"), std::vector<float>{1, 3e38f}, {.use_resource = resource});
    const Output set = v.Assign(s.WithOpName("set"), x), add = v.AssignAdd(s.WithOpName("add"), x);
    train::Momentum momentum(1e30f, 0.9f);
    const Operation apply = momentum.ApplyGradients(s, {{ops::Identity(s, x), v}});
    const Operation init = GlobalVariablesInitializer(s.WithOpName("init"));
    auto session = NewSession(root);
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    const std::vector<Variable> all = {v, momentum.Slot(v, "Momentum")};
    const std::vector<std::string> before = Bytes(*session, all);
    const auto run = [&](const std::vector<float>& value, const Operation& target) {
      return session->Run(Checked(), {{x, Tensor::Vector<float>(value)}}, {}, {target}, nullptr, nullptr);
    };
    // What it is given.
    BOOST_TEST(Says(run({kNan, 1}, Operation(set)), "input 1 (float32 [2]) of this update has 1 NaN"));
    BOOST_TEST(Bytes(*session, all) == before);
    BOOST_TEST(Says(run({1, -kInf}, Operation(add)), "1 -Inf among 2 elements, the first at [1]"));
    BOOST_TEST(Bytes(*session, all) == before);
    // What it would make of it: the variable keeps its value, and is not lost.
    const absl::Status sum = run({1, 3e38f}, Operation(add));
    BOOST_TEST(Says(sum, "the new value of variable '"));
    BOOST_TEST(Says(sum, "has 0 NaN, 1 +Inf and 0 -Inf among 2 elements, the first at [1]; the variable keeps"));
    BOOST_TEST(Bytes(*session, all) == before);
    // Of several variables, neither.
    BOOST_TEST(Says(run({1e30f, 1}, apply), "the new value of variable '"));
    BOOST_TEST(Bytes(*session, all) == before);
    REQUIRE_OK(run({1, 1}, Operation(add)));
    BOOST_TEST(Bytes(*session, all) != before);
  }
}

BOOST_AUTO_TEST_CASE(a_queue_does_not_take_them) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  const Output queue = ops::FIFOQueueV2(root, {DType::kFloat});
  const Operation enqueue = ops::QueueEnqueueV2(root, queue, {x});
  const Output size = ops::QueueSizeV2(root, queue);
  auto session = NewSession(root);
  BOOST_TEST(Says(session->Run(Checked(), {{x, Tensor::Scalar(kNan)}}, {}, {enqueue}, nullptr, nullptr),
                  "input 1 (float32 []) of this update has 1 NaN"));
  REQUIRE_OK(session->Run({}, {size}, {}, &out));
  BOOST_TEST(out[0].scalar<int32_t>() == 0);
  REQUIRE_OK(session->Run(Checked(), {{x, Tensor::Scalar(1.0f)}}, {}, {enqueue}, nullptr, nullptr));
}

BOOST_AUTO_TEST_CASE(costly_kernels_are_checked_on_any_thread) {
  // Four branches, each worth a thread of its own.
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = {300, 300}});
  OutputList products;
  for (int i = 0; i < 4; ++i) products.push_back(ops::MatMul(root, x, ops::Add(root, x, static_cast<float>(i))));
  const Output sum = ops::AddN(root, products);
  auto session = NewSession(root, {.runtime_options = {.threads = 4}});
  Tensor big(DType::kFloat, {300, 300});
  std::fill_n(big.data<float>(), big.num_elements(), 1.0f);
  for (int i = 0; i < 10; ++i) REQUIRE_OK(session->Run(Checked(), {{x, big}}, {sum}, {}, &out, nullptr));
  Tensor bad(DType::kFloat, {300, 300});
  std::fill_n(bad.data<float>(), bad.num_elements(), 1e30f);
  for (int i = 0; i < 10; ++i) {
    const absl::Status s = session->Run(Checked(), {{x, bad}}, {sum}, {}, &out, nullptr);
    BOOST_TEST(Says(s, "(MatMul)"));
    BOOST_TEST(Says(s, "90000 +Inf"));
  }
}

BOOST_AUTO_TEST_CASE(the_folder_holds_the_inputs_of_the_node) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = {2}});
  const Variable v(root.WithOpName("v"), std::vector<float>{1, 3e38f});
  const Output y = ops::RealDiv(root.WithOpName("a/quotient"), ops::Neg(root, x), x);
  const Output add = v.AssignAdd(root.WithOpName("add"), x);
  auto session = NewSession(root, {.fuse = false});
  REQUIRE_OK(session->Run({}, {}, {v.initializer()}, nullptr));
  const std::string folder = StrCat("mem://numerics", ::getpid());
  const absl::Status s = session->Run(Checked(folder), {{x, Tensor::Vector<float>({1, 0})}}, {y}, {}, &out, nullptr);
  BOOST_TEST(Says(s, "; its inputs are in '" + folder + "/step_"));
  auto dumps = files::List(folder);
  BOOST_REQUIRE(dumps.ok() && dumps->size() == 1);
  BOOST_TEST(dumps->front().ends_with("_a_quotient"));
  const std::string dump = files::Join(folder, dumps->front());
  BOOST_TEST((*files::List(dump) == std::vector<std::string>{"0.npy", "1.npy", "graph.pbtxt", "replay.sh"}));
  const std::string values = *files::Read(files::Join(dump, "0.npy"));
  float at[2];
  std::memcpy(at, values.data() + values.size() - sizeof(at), sizeof(at));
  BOOST_TEST((at[0] == -1 && at[1] == 0));

  // Of an update, the variable as it was.
  BOOST_TEST(
      !session->Run(Checked(folder), {{x, Tensor::Vector<float>({0, 3e38f})}}, {}, {Operation(add)}, nullptr, nullptr)
           .ok());
  dumps = files::List(folder);
  BOOST_REQUIRE(dumps.ok() && dumps->size() == 2);
  const std::string second = dumps->front() == files::NameOf(dump) ? dumps->back() : dumps->front();
  BOOST_TEST((*files::List(files::Join(folder, second)) ==
              std::vector<std::string>{"0.npy", "1.npy", "graph.pbtxt", "replay.sh"}));
  const std::string variable = *files::Read(files::Join(files::Join(folder, second), "0.npy"));
  std::memcpy(at, variable.data() + variable.size() - sizeof(at), sizeof(at));
  BOOST_TEST((at[0] == 1 && at[1] == 3e38f));
}

// A disk that does not answer holds up neither the other nodes of the step nor its deadline.
BOOST_AUTO_TEST_CASE(nobody_but_the_node_waits_for_the_disk) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Output z = ops::Placeholder(root.WithOpName("z"), DType::kFloat, {.shape = TensorShape()});
  const Output big = ops::Placeholder(root.WithOpName("big"), DType::kFloat, {.shape = {300, 300}});
  // In the turn, and as a job.
  const Output logs[] = {ops::Log(root, x), ops::MatMul(root, ops::Mul(root, big, x), big)};
  const Output other = ops::Neg(root, z), last = ops::Neg(root, other);
  Tensor many(DType::kFloat, {300, 300});
  std::fill_n(many.data<float>(), many.num_elements(), 1e38f);
  auto session = NewSession(root, {.runtime_options = {.threads = 4}});
  const Tensor bad = Tensor::Scalar(-1.0f);
  for (int i = 0; i < 2; ++i) {
    struct Disk {
      FileGate asked, answers;
    };
    const auto disk = std::make_shared<Disk>();
    const std::string scheme = StrCat("numerics", ::getpid(), ".", i), folder = scheme + "://dumps";
    REQUIRE_OK(
        files::RegisterFileSystem(scheme, std::make_shared<HeldFiles>([disk](std::string_view op, const std::string&) {
                                    if (op != "MakeDirectory") return;
                                    disk->asked.Open();
                                    disk->answers.Wait();
                                  })));
    const auto handle = session->PartialRunSetup(Checked(folder), {x, big, z}, {logs[i], other, last}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    RunOptions in_time;
    in_time.timeout_ms = 20'000;
    absl::Status failed;
    std::thread fails([&] {
      std::vector<Tensor> none;
      failed = session->PartialRun(*handle, {{x, bad}, {big, many}}, {logs[i]}, &none);
    });
    disk->asked.Wait();
    const absl::Status s = session->PartialRun(in_time, *handle, {{z, bad}}, {other}, &out);
    BOOST_TEST(s.ok(), s);
    disk->answers.Open();
    fails.join();
    BOOST_TEST(Says(failed, "; its inputs are in '" + folder + "/step_"));
  }
}

BOOST_AUTO_TEST_CASE(of_two_nodes_that_see_the_same_nan_one_is_written) {
  struct Disk {
    std::atomic<int> folders{0};
    FileGate asked, answers;
  };
  const auto disk = std::make_shared<Disk>();
  const std::string scheme = StrCat("one", ::getpid());
  REQUIRE_OK(
      files::RegisterFileSystem(scheme, std::make_shared<HeldFiles>([disk](std::string_view op, const std::string&) {
                                  if (op != "MakeDirectory") return;
                                  ++disk->folders;
                                  disk->asked.Open();
                                  disk->answers.Wait();
                                })));
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Output logs[] = {ops::Log(root, x), ops::Log1p(root, x)};
  auto session = NewSession(root);
  std::promise<absl::Status> answer;
  session->RunAsync(Checked(scheme + "://dumps"), {{x, Tensor::Scalar(-2.0f)}}, {logs[0], logs[1]}, {},
                    [&](absl::Status s, std::vector<Tensor>) { answer.set_value(std::move(s)); });
  disk->asked.Wait();
  const auto other_waits = [&] {
    for (const std::string& step : session->RunningSteps()) {
      if (step.find("the inputs of another node that failed to be written") != step.npos) return true;
    }
    return false;
  };
  for (int i = 0; i < 2000 && !other_waits(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  BOOST_TEST(other_waits());
  disk->answers.Open();
  BOOST_TEST(Says(answer.get_future().get(), "; its inputs are in '" + scheme + "://dumps/step_"));
  BOOST_TEST(disk->folders == 1);
}

BOOST_AUTO_TEST_CASE(a_deadline_does_not_wait_for_the_disk) {
  const auto answers = std::make_shared<FileGate>();
  const std::string scheme = StrCat("late", ::getpid());
  REQUIRE_OK(files::RegisterFileSystem(
      scheme, std::make_shared<HeldFiles>([answers](std::string_view, const std::string&) { answers->Wait(); })));
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Variable v(root.WithOpName("v"), 1.0f);
  const Output log = ops::Log(root.WithOpName("log").WithControlDependencies(v.AssignAdd(root, 1.0f)), x);
  auto session = NewSession(root);
  REQUIRE_OK(session->Run({}, {}, {v.initializer()}, nullptr));
  RunOptions late = Checked(scheme + "://dumps");
  late.timeout_ms = 200;
  const absl::Status s = session->Run(late, {{x, Tensor::Scalar(-1.0f)}}, {log}, {}, &out, nullptr);
  BOOST_TEST(absl::IsDeadlineExceeded(s));
  BOOST_TEST(Says(s, "its inputs to be written below '" + scheme + "://dumps', since output 0 (float32 []) has 1 NaN"));
  BOOST_TEST(session->Get(v)->scalar<float>() == 1);
  answers->Open();
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_told_beside_the_error) {
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape()});
  const Output y = ops::Log(root.WithOpName("y"), x);
  auto session = NewSession(root);
  const absl::Status s = session->Run(Checked("/proc/none"), {{x, Tensor::Scalar(-1.0f)}}, {y}, {}, &out, nullptr);
  BOOST_TEST(absl::IsInvalidArgument(s));
  BOOST_TEST(Says(s, "output 0 (float32 []) has 1 NaN"));
  BOOST_TEST(Says(s, "; its inputs cannot be written: /proc/none"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace numerics_test
}  // namespace troupe
