// Snapshots of a session's state: what they hold, and that a training run goes on with equal bits
// from one, in another session and in another process.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "actors/signature/signature.h"
#include "tests/actors/graphs.h"
#include "tests/actors/signatures.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/queues.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"
#include "troupe/train/adam.h"

extern char** environ;

namespace troupe {
namespace snapshots_test {

BOOST_AUTO_TEST_SUITE(snapshots)

// A layer with dropout, whose random stream has no seed, and Adam with its slots and powers.
struct Model {
  Model() {
    w = Variable(root.WithOpName("w"), Const(root, 0.5f, TensorShape({4, 3})));
    const Output x = ops::RandomUniform(root.WithOpName("x"), Const(root, {8, 4}), DType::kFloat);
    const Output kept = ops::Cast(
        root, ops::RandomUniform(root.WithOpName("dropout"), Const(root, {8, 4}), DType::kFloat, {.seed = 5}) > 0.5f,
        DType::kFloat);
    loss = ops::Mean(root.WithOpName("loss"), ops::Square(root, ops::MatMul(root, x * kept, w) - 1.0f));
    train = train::Adam(0.05).Minimize(root.WithOpName("train"), loss);
    init = GlobalVariablesInitializer(root.WithOpName("init"));
  }
  // The losses of the next steps.
  std::vector<float> Train(Session& session, int steps) const {
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(session.Run({}, {loss.name()}, {train.name()}, &out));
      losses.push_back(out[0].scalar<float>());
    }
    return losses;
  }
  Scope root = Scope::NewRootScope();
  Variable w;
  Output loss;
  Operation train, init;
};

StateSnapshot SnapshotOf(Session& session, const SnapshotOptions& options = {}) {
  absl::StatusOr<StateSnapshot> s = session.SnapshotState(options);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
  return *std::move(s);
}

// What goes through a file must be exact.
std::string Bits(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}
std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

constexpr char kSnapshotFile[] = "TROUPE_TEST_SNAPSHOT";

// The other process: does nothing unless the next test started it.
BOOST_AUTO_TEST_CASE(child_goes_on_from_a_file) {
  const char* const path = std::getenv(kSnapshotFile);
  if (path == nullptr) return;
  const Model model;
  auto session = NewSession(model.root);
  absl::StatusOr<StateSnapshot> snapshot = StateSnapshot::FromBytes(ReadAll(path));
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  TROUPE_REQUIRE_OK(session->RestoreState(*snapshot));
  std::ofstream(StrCat(path, ".losses"), std::ios::binary) << Bits(model.Train(*session, 6));
}

BOOST_AUTO_TEST_CASE(training_goes_on_with_equal_bits) {
  const Model model;
  auto session = NewSession(model.root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {model.init.name()}, nullptr));
  model.Train(*session, 5);
  const StateSnapshot snapshot = SnapshotOf(*session);
  std::map<std::string, int> kinds;
  for (const StateSnapshot::Entry& e : snapshot.entries) ++kinds[e.kind];
  BOOST_TEST(kinds["random stream"] == 2);
  BOOST_TEST(kinds["variable"] >= 3);  // w and its two moments
  const std::vector<float> went_on = model.Train(*session, 6);
  // In the same session again.
  TROUPE_REQUIRE_OK(session->RestoreState(snapshot));
  BOOST_TEST(Bits(model.Train(*session, 6)) == Bits(went_on));
  // In a new one, which was never initialised; the first one goes on as if nothing were.
  auto other = NewSession(model.root);
  TROUPE_REQUIRE_OK(other->RestoreState(snapshot));
  BOOST_TEST(Bits(model.Train(*other, 6)) == Bits(went_on));
  BOOST_TEST(Bits(model.Train(*other, 3)) == Bits(model.Train(*session, 3)));
  // In another process.
  const absl::StatusOr<std::string> bytes = snapshot.ToBytes();
  BOOST_REQUIRE_MESSAGE(bytes.ok(), bytes.status());
  char path[] = "/tmp/troupe_snapshot_XXXXXX";
  const int file = mkstemp(path);
  BOOST_REQUIRE(file >= 0);
  close(file);
  std::ofstream(path, std::ios::binary) << *bytes;
  char self[] = "/proc/self/exe", only[] = "--run_test=snapshots/child_goes_on_from_a_file";
  char* const argv[] = {self, only, nullptr};
  setenv(kSnapshotFile, path, 1);
  pid_t child = 0;
  BOOST_REQUIRE(posix_spawn(&child, self, nullptr, nullptr, argv, environ) == 0);
  unsetenv(kSnapshotFile);
  int ended = 0;
  BOOST_REQUIRE(waitpid(child, &ended, 0) == child);
  BOOST_TEST(ended == 0);
  BOOST_TEST((ReadAll(StrCat(path, ".losses")) == Bits(went_on)));
  std::remove(path);
  std::remove(StrCat(path, ".losses").c_str());
}

// Eight threads add one to all elements of three variables while snapshots are taken: in none of
// them has a variable elements that differ.
BOOST_AUTO_TEST_CASE(no_reader_sees_half_an_update) {
  constexpr int64_t kElements = 20000;
  Scope root = Scope::NewRootScope();
  std::vector<Operation> adds;
  for (int i = 0; i < 3; ++i) {
    const Variable v(root.WithOpName(StrCat("v", i)), ops::Fill(root, Const(root, {int(kElements)}), 0.0f),
                     {.use_resource = i != 1});
    adds.emplace_back(
        v.AssignAdd(root.WithOpName(StrCat("add", i)), ops::Fill(root, Const(root, {int(kElements)}), 1.0f)).node());
  }
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0}, updates{0};
  std::vector<std::thread> writers;
  for (int t = 0; t < 8; ++t) {
    writers.emplace_back([&, t] {
      while (!stop.load()) {
        failed += !session->Run({}, {}, {adds[static_cast<size_t>(t) % 3].name()}, nullptr).ok();
        ++updates;
      }
    });
  }
  int halves = 0;
  float last = -1;
  bool backwards = false;
  for (int i = 0; i < 150; ++i) {
    for (const StateSnapshot::Entry& e : SnapshotOf(*session).entries) {
      if (e.kind != "variable") continue;
      for (const auto& [key, t] : e.tensors) {
        if (key != "value") continue;
        const float* const f = t.data<float>();
        for (int64_t k = 1; k < kElements; ++k) halves += f[k] != f[0];
        if (e.name != "v0") continue;
        backwards |= f[0] < last;
        last = f[0];
      }
    }
  }
  stop = true;
  for (std::thread& t : writers) t.join();
  BOOST_TEST(halves == 0);
  BOOST_TEST(!backwards);
  BOOST_TEST(failed == 0);
  BOOST_TEST(updates > 8);
}

// A snapshot shares memory with the variables; it does not change with them.
BOOST_AUTO_TEST_CASE(a_snapshot_is_a_reference_until_an_update_copies) {
  Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), Const(root, {1.0f, 2.0f}));
  const Operation add(v.AssignAdd(root.WithOpName("add"), Const(root, {1.0f, 1.0f})).node());
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  const auto value = [](const StateSnapshot& s) {
    for (const auto& [key, t] : s.entries.at(0).tensors) {
      if (key == "value") return t;
    }
    return Tensor();
  };
  const StateSnapshot a = SnapshotOf(*session), b = SnapshotOf(*session);
  BOOST_TEST(value(a).raw() == value(b).raw());
  TROUPE_REQUIRE_OK(session->Run({}, {}, {add.name()}, nullptr));
  BOOST_TEST(value(a).data<float>()[1] == 2.0f);
  BOOST_TEST(value(SnapshotOf(*session)).data<float>()[1] == 3.0f);
  // Restoring takes a reference, too, and the first update copies.
  TROUPE_REQUIRE_OK(session->RestoreState(a));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {add.name()}, nullptr));
  BOOST_TEST(value(a).data<float>()[1] == 2.0f);
  BOOST_TEST(session->Get(v).value().data<float>()[1] == 3.0f);
}

class Secret : public Resource {
 public:
  std::string DebugString() const override { return "a secret"; }
};
TROUPE_OP("SnapshotsSecret").Output("out: int32").Stateful().Shape(shape_fn::Scalar).NotDifferentiable("an integer");
class SecretKernel {
 public:
  explicit SecretKernel(KernelInit& init) : key_(init.ResourceKey(true)) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_RETURN_IF_ERROR(
        ctx.device()
            ->containers()
            ->LookUpOrCreate<Secret>(key_.first, key_.second, [] { return std::make_shared<Secret>(); })
            .status());
    ctx.set_output(0, Tensor::Scalar(1));
    return absl::OkStatus();
  }

 private:
  const std::pair<std::string, std::string> key_;
};
TROUPE_KERNEL("SnapshotsSecret").Device("CPU").Class<SecretKernel>();

void CheckFails(const absl::Status& s, absl::StatusCode code, const std::vector<std::string>& parts) {
  BOOST_TEST((s.code() == code), s);
  for (const std::string& part : parts) BOOST_TEST(s.ToString().find(part) != std::string::npos, s);
}

BOOST_AUTO_TEST_CASE(errors_name_the_resource) {
  Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), Const(root, {1.0f, 2.0f}));
  TROUPE_REQUIRE_OK(NodeBuilder(root.graph(), "hush", "SnapshotsSecret").Build().status());
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  const StateSnapshot good = SnapshotOf(*session);
  // A kind that does not say how it is saved.
  TROUPE_REQUIRE_OK(session->Run({}, {"hush:0"}, {}, nullptr));
  CheckFails(session->SnapshotState().status(), absl::StatusCode::kUnimplemented, {"'hush'", "a secret"});
  TROUPE_REQUIRE_OK(session->RestoreState(good));  // the secret is dropped
  SnapshotOf(*session);
  // What does not fit is refused as a whole.
  const auto with = [&](const std::function<void(StateSnapshot::Entry&)>& change) {
    StateSnapshot bad = good;
    bad.entries.push_back(bad.entries[0]);
    bad.entries[0].name = "fresh";
    change(bad.entries[1]);
    return session->RestoreState(bad);
  };
  CheckFails(with([](auto& e) { e.kind = "riddle"; }), absl::StatusCode::kUnimplemented, {"'v'", "riddle"});
  CheckFails(with([](auto& e) { e.device = "/job:localhost/replica:0/task:0/device:CPU:7"; }),
             absl::StatusCode::kNotFound, {"'v'", "CPU:7"});
  CheckFails(with([](auto& e) { e.container = "/session/1/state"; }), absl::StatusCode::kInvalidArgument,
             {"/session/1/state"});
  CheckFails(with([](auto& e) { e.tensors.clear(); }), absl::StatusCode::kInvalidArgument, {"'v'", "dtype"});
  CheckFails(with([](auto& e) {
               for (auto& [key, t] : e.tensors) {
                 if (key == "value") t = Tensor::Vector<float>({1, 2, 3});
                 if (key == "shape") t = Tensor::Vector<int64_t>({3});
               }
             }),
             absl::StatusCode::kInvalidArgument, {"'v'", "[3]", "[2]"});
  BOOST_TEST(SnapshotOf(*session).entries.size() == good.entries.size());
  BOOST_TEST(!session->SnapshotState({.containers = {"/mine"}}).ok());
  // Another session's own state is not there, its shared containers are.
  BOOST_TEST(SnapshotOf(*NewSession(root)).entries.empty());
  // Bytes.
  const std::string bytes = good.ToBytes().value();
  for (size_t n = 0; n < bytes.size(); ++n) BOOST_TEST(!StateSnapshot::FromBytes(bytes.substr(0, n)).ok());
  BOOST_TEST(!StateSnapshot::FromBytes(bytes + "x").ok());
  BOOST_TEST(StateSnapshot::FromBytes(bytes).value().entries.size() == good.entries.size());
  TROUPE_REQUIRE_OK(session->Close());
  CheckFails(session->SnapshotState().status(), absl::StatusCode::kCancelled, {});
  CheckFails(session->RestoreState(good), absl::StatusCode::kCancelled, {});
}

BOOST_AUTO_TEST_CASE(what_one_device_refuses_is_restored_on_none) {
  Scope root = Scope::NewRootScope();
  std::vector<Variable> all;
  for (const int device : {0, 1, 2}) {
    all.emplace_back(root.WithOpName(StrCat("v", device)).WithDevice(StrCat("/device:CPU:", device)),
                     Const(root, {1.0f, 2.0f}));
  }
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  SessionOptions options;
  options.runtime_options = {.threads = 1, .cpu_devices = 3};
  auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  const StateSnapshot good = SnapshotOf(*session);
  BOOST_REQUIRE(good.entries.size() == 3u);
  for (const Variable& v : all) TROUPE_REQUIRE_OK(session->Set(v, Tensor::Vector<float>({7, 8})));
  const auto values = [&] {
    std::string text;
    for (const Variable& v : all) StrAppend(&text, session->Get(v).value().data<float>()[0], " ");
    return text;
  };
  for (size_t refuses = 0; refuses < 3; ++refuses) {
    for (const bool of_no_kind : {false, true}) {
      StateSnapshot bad = good;
      StateSnapshot::Entry& e = bad.entries[refuses];
      if (of_no_kind) {
        e.kind = "riddle";
      } else {
        for (auto& [key, t] : e.tensors) {
          if (key == "value") t = Tensor::Vector<float>({1, 2, 3});
          if (key == "shape") t = Tensor::Vector<int64_t>({3});
        }
      }
      CheckFails(session->RestoreState(bad),
                 of_no_kind ? absl::StatusCode::kUnimplemented : absl::StatusCode::kInvalidArgument, {e.name});
      BOOST_TEST(values() == "7 7 7 ");
    }
  }
  TROUPE_REQUIRE_OK(session->RestoreState(good));
  BOOST_TEST(values() == "1 1 1 ");
}

// A resource that can be made so many times.
std::atomic<int> fragile_left{0};
class Fragile : public Resource {
 public:
  std::string DebugString() const override { return "fragile"; }
};
const ResourceKind fragile_kind("fragile", [](const std::string&, const ResourceState&) {
  if (fragile_left.fetch_sub(1) > 0) return absl::StatusOr<std::shared_ptr<Resource>>(std::make_shared<Fragile>());
  return absl::StatusOr<std::shared_ptr<Resource>>(absl::InternalError("it broke"));
});

BOOST_AUTO_TEST_CASE(what_breaks_between_check_and_change_says_what_was_changed) {
  Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v").WithDevice("/device:CPU:0"), Const(root, {1.0f, 2.0f}));
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  SessionOptions options;
  options.runtime_options = {.threads = 1, .cpu_devices = 3};
  auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  StateSnapshot snapshot = SnapshotOf(*session);
  BOOST_REQUIRE(snapshot.entries.size() == 1u);
  StateSnapshot::Entry fragile = snapshot.entries[0];
  fragile.device.back() = '1';
  fragile.name = "vase";
  fragile.kind = "fragile";
  fragile.tensors.clear();
  snapshot.entries.push_back(fragile);
  TROUPE_REQUIRE_OK(session->Set(v, Tensor::Vector<float>({7, 8})));
  fragile_left = 0;
  absl::Status s = session->RestoreState(snapshot);
  BOOST_TEST(s.message().find("had been replaced") == s.message().npos, s);
  BOOST_TEST(session->Get(v).value().data<float>()[0] == 7);
  fragile_left = 1;  // the check's
  s = session->RestoreState(snapshot);
  CheckFails(s, absl::StatusCode::kInternal, {"'vase'", "it broke", "CPU:0 had been replaced, that of the others not"});
  BOOST_TEST(session->Get(v).value().data<float>()[0] == 1);
  fragile_left = 2;
  TROUPE_REQUIRE_OK(session->RestoreState(snapshot));
}

// The numbers of an environment of the program's own.
class Dice : public Env {
 public:
  uint64_t Unforeseeable() override { return ++thrown_; }

 private:
  std::atomic<uint64_t> thrown_{0};
};

BOOST_AUTO_TEST_CASE(what_nobody_can_foresee_comes_from_the_environment) {
  Scope root = Scope::NewRootScope();
  const Output r = ops::RandomUniform(root.WithOpName("r"), Const(root, {4}), DType::kFloat);
  const auto numbers = [&](Env* env) {
    SessionOptions options;
    options.runtime = Runtime::Start({.threads = 1, .env = env}).value();
    BOOST_TEST((env == nullptr || options.runtime->devices()[0].incarnation == 0));
    const Tensor t = RunOne(*NewSession(root, options), {}, r);
    return std::vector<float>(t.data<float>(), t.data<float>() + 4);
  };
  Dice a, b;
  BOOST_TEST(numbers(&a) == numbers(&b));
  BOOST_TEST(numbers(nullptr) != numbers(nullptr));
}

// An enqueue waits for room on one device; the executor of its part on another, which is done,
// dies.
BOOST_AUTO_TEST_CASE(a_step_at_rest_with_a_dead_executor_holds_up_no_snapshot) {
  const Scope root = Scope::NewRootScope();
  const Queue q = Queue::Fifo(root.WithDevice("/device:CPU:1"), {DType::kFloat}, {.capacity = 1, .shapes = {{4}}});
  const Output x = ops::RandomUniform(root.WithDevice("/device:CPU:0"), Const(root, {4}), DType::kFloat);
  const std::string put = q.Enqueue(root.WithOpName("put"), {x}).name();
  SessionOptions options;
  options.runtime = Runtime::Start({.threads = 2, .cpu_devices = 2}).value();
  const auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {put}, nullptr));
  auto ended = std::make_shared<std::promise<absl::Status>>();
  session->RunAsync({}, {}, {put}, [ended](absl::Status s, std::vector<Tensor>) { ended->set_value(s); });
  const auto waits = [&] {
    const std::vector<std::string> steps = session->RunningSteps();
    return std::any_of(steps.begin(), steps.end(), [](const std::string& s) { return s.find("'put'") != s.npos; });
  };
  while (!waits()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::shared_ptr<Signature> signature = SignatureOf(*session, {}, {}, {put});
  BOOST_REQUIRE(signature != nullptr);
  std::vector<std::shared_ptr<Executor>> done;
  signature->Leased([&](ExecutorSet* set, bool) {
    for (const auto& e : set->executors()) {
      if (e->state().part().device->name().ends_with("CPU:0")) done.push_back(e);
    }
  });
  BOOST_REQUIRE(done.size() == 1u);
  caf::anon_send_exit(done[0]->actor(), caf::exit_reason::kill);
  while (!done[0]->dead()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  BOOST_TEST(session->SnapshotState({.between_steps = true, .timeout_ms = 20000}).status().ok());
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST(absl::IsCancelled(ended->get_future().get()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace snapshots_test
}  // namespace troupe
