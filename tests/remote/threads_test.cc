// Steps on several processes with real threads: control flow that spans them, training, many
// callers, two masters, deaths.
#include <cstring>
#include <future>
#include <thread>

#include <spdlog/spdlog.h>

#include "actors/supervision/supervisor.h"
#include "tests/remote/processes.h"
#include "troupe/control_flow.h"
#include "troupe/gradients.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace threads_test {

using namespace std::chrono_literals;

template <class F>
bool Soon(F f) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!f()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

CastPolicies Quick() {
  CastPolicies policies;
  for (RestartPolicy* p :
       {&policies.session, &policies.worker, &policies.device, &policies.container, &policies.supervisor}) {
    p->min_delay = p->max_delay = 1ms;
    p->max_failures = 1 << 30;
  }
  return policies;
}

// Several processes in one actor system, with threads of their own.
struct Threads {
  explicit Threads(std::vector<std::string> names = {kMasterTask, kPsTask})
      : processes(std::move(names), [this](const RuntimeOptions& o, const ClusterOptions& c) {
          return StartRuntimeIn(system, o, c, nullptr, Quick());
        }) {
    processes.IntroduceAll();
  }
  std::unique_ptr<Session> SessionOn(const std::string& task, const Scope& root, SessionOptions options = {}) {
    options.runtime = processes.runtimes.at(task);
    return NewSession(root, options);
  }
  caf::actor_system_config config;
  caf::actor_system system{config};
  Processes processes;
};

// The same tasks in one process.
std::unique_ptr<Session> InOneProcess(const Scope& root, const std::vector<std::string>& names) {
  SessionOptions options;
  options.runtime_options.tasks = names;
  options.runtime_options.threads = 2;
  return NewSession(root, options);
}

Tensor RunIt(Session& session, const Feeds& feeds, const std::string& fetch) {
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session.Run(feeds, {fetch}, {}, &out));
  return out.at(0);
}

BOOST_AUTO_TEST_CASE(a_loop_and_a_conditional_span_two_processes) {
  Scope root = Scope::NewRootScope().WithDevice("/job:master");
  const Output n = ops::Placeholder(root.WithOpName("n"), DType::kInt32);
  const auto loop = While(
      root, {ops::Const(root, 0), ops::Const(root, 0)},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n); },
      [&](const Scope& s, const OutputList& v) {
        const Scope there = s.WithDevice("/job:ps");
        const Output tens = ops::Mul(there, v[0], 10);
        return OutputList{ops::Add(s, v[0], 1), ops::Sub(s, ops::Add(there, tens, v[0]), v[1])};
      });
  const Output looped = ops::Identity(root.WithOpName("looped"), loop[1]);
  const Output cond = Cond(
      root, ops::Less(root, n, ops::Const(root, 3)),
      [&](const Scope& s) { return ops::Mul(s.WithDevice("/job:ps"), n, 100); },
      [&](const Scope& s) { return ops::Neg(s, ops::Add(s.WithDevice("/job:ps"), n, 1)); });
  const Output chosen = ops::Identity(root.WithOpName("chosen"), cond);
  for (const bool wire : {false, true}) {
    Threads t;
    SessionOptions options;
    options.wire_messages = wire;
    auto session = t.SessionOn(kMasterTask, root, options);
    for (const int trips : {0, 1, 4, 17}) {
      int want = 0;
      for (int i = 0; i < trips; ++i) want = i * 10 + i - want;
      const Feeds feeds = {{"n", Tensor::Scalar(trips)}};
      BOOST_TEST(RunIt(*session, feeds, "looped").scalar<int32_t>() == want);
      BOOST_TEST(RunIt(*session, feeds, "chosen").scalar<int32_t>() == (trips < 3 ? trips * 100 : -(trips + 1)));
    }
  }
}

// Variables on one process (ps), gradients on another: w -= 0.05 * d((features - w)^2), and what
// was lost.
struct Model {
  static constexpr int kSize = 9;
  explicit Model(const std::string& shared = "") {
    const Scope ps = root.WithDevice("/job:ps"), work = root.WithDevice("/job:helper");
    step = ops::Placeholder(root.WithDevice("/job:master").WithOpName("step"), DType::kFloat);
    Tensor ramp(DType::kFloat, TensorShape({kSize})), zeros(DType::kFloat, TensorShape({kSize}));
    for (int i = 0; i < kSize; ++i) {
      ramp.data<float>()[i] = 0.01f * static_cast<float>(i + 1);
      zeros.data<float>()[i] = 0.0f;
    }
    const Output features = ops::Sin(work, ops::Mul(work, ops::Const(work, ramp), step));
    VariableOptions in;
    if (!shared.empty()) {
      in.container = "models";
      in.shared_name = shared;
    }
    const Variable v(ps.WithOpName("w"), ops::Const(ps, zeros), in);
    const Output value = ops::Identity(work, v);
    const Output loss =
        ops::Sum(work.WithOpName("loss"), ops::Square(work, ops::Sub(work, value, features)), ops::Const(work, {0}));
    const Output slope = Gradients(work, {loss}, {value})[0];
    v.AssignAdd(ps.WithOpName("update"), ops::Mul(work, ops::Const(work, -0.05f), slope));
    v.AssignAdd(ps.WithOpName("count"), ops::Const(ps, std::vector<float>(kSize, 1.0f)));
    v.Read(ps.WithOpName("read"));
    init = GlobalVariablesInitializer(root).name();
  }
  Scope root = Scope::NewRootScope();
  Output step;
  std::string init;
};

std::vector<float> Train(Session& session, const Model& model) {
  TROUPE_REQUIRE_OK(session.Run({}, {}, {model.init}, nullptr));
  std::vector<float> curve;
  for (int i = 0; i < 50; ++i) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session.Run({{"step", Tensor::Scalar(static_cast<float>(i))}}, {"loss"}, {"update"}, &out));
    curve.push_back(out.at(0).scalar<float>());
  }
  const Tensor w = RunIt(session, {}, "read");
  for (int i = 0; i < Model::kSize; ++i) curve.push_back(w.data<float>()[i]);
  return curve;
}

BOOST_AUTO_TEST_CASE(fifty_steps_of_training_are_the_same_bit_for_bit) {
  const Model model;
  const std::vector<std::string> names = {kMasterTask, kPsTask, kHelperTask};
  auto together = InOneProcess(model.root, names);
  const std::vector<float> want = Train(*together, model);
  Threads t(names);
  auto session = t.SessionOn(kMasterTask, model.root);
  const std::vector<float> have = Train(*session, model);
  BOOST_REQUIRE_EQUAL(have.size(), want.size());
  BOOST_TEST(std::memcmp(have.data(), want.data(), have.size() * sizeof(float)) == 0);
  BOOST_TEST(have[1] > have[0]);
}

BOOST_AUTO_TEST_CASE(eight_threads_run_steps_at_once) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithDevice("/job:master").WithOpName("x"), DType::kFloat);
  const Output there = ops::Neg(root.WithDevice("/job:ps"), x);
  ops::Add(root.WithDevice("/job:master").WithOpName("back"), there, ops::Mul(root.WithDevice("/job:master"), x, 3.0f));
  Threads t;
  auto session = t.SessionOn(kMasterTask, root);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 100; ++k) {
        const float value = static_cast<float>(i * 1000 + k);
        std::vector<Tensor> out;
        RunOptions options;
        if (k % 3 == 0) options.timeout_ms = 60000;
        const absl::Status s = session->Run(options, {{"x", Tensor::Scalar(value)}}, {"back"}, {}, &out, nullptr);
        if (!s.ok() || out.at(0).scalar<float>() != 2 * value) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(two_masters_share_the_variables_of_a_third) {
  const Model model("shared");
  Threads t({kMasterTask, kPsTask, kHelperTask});
  SessionOptions options;
  auto one = t.SessionOn(kMasterTask, model.root);
  auto two = t.SessionOn(kHelperTask, model.root);
  TROUPE_REQUIRE_OK(one->Run({}, {}, {model.init}, nullptr));
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) TROUPE_REQUIRE_OK(two->Run({}, {}, {"count"}, nullptr));
  });
  for (int i = 0; i < 200; ++i) TROUPE_REQUIRE_OK(one->Run({}, {}, {"count"}, nullptr));
  other.join();
  BOOST_TEST(RunIt(*two, {}, "read").data<float>()[3] == 400.0f);
  BOOST_TEST(RunIt(*one, {}, "read").data<float>()[3] == 400.0f);
}

// Feeds and fetches on both sides, statistics of both, and a step that is fed piece by piece.
struct BothSides {
  BothSides() {
    const Scope here = root.WithDevice("/job:master"), there = root.WithDevice("/job:ps");
    const Output a = ops::Placeholder(here.WithOpName("a"), DType::kFloat),
                 b = ops::Placeholder(there.WithOpName("b"), DType::kFloat);
    const Output c = ops::Neg(there.WithOpName("c"), a);
    ops::Add(here.WithOpName("d"), c, ops::Mul(there.WithOpName("e"), b, b));
  }
  Scope root = Scope::NewRootScope();
};

BOOST_AUTO_TEST_CASE(feeds_fetches_and_statistics_of_both_sides) {
  const BothSides g;
  Threads t;
  auto session = t.SessionOn(kMasterTask, g.root);
  RunOptions options;
  options.collect_stats = true;
  options.partition_graphs = true;
  proto::RunMetadata metadata;
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run(options, {{"a", Tensor::Scalar(2.0f)}, {"b", Tensor::Scalar(3.0f)}},
                                 {"c", "d", "a", "b", "e"}, {}, &out, &metadata));
  const std::vector<float> want = {-2, 7, 2, 3, 9};
  for (size_t i = 0; i < want.size(); ++i) BOOST_TEST(out.at(i).scalar<float>() == want[i]);
  std::set<std::string> devices, nodes;
  for (const auto& d : metadata.step_stats().dev_stats()) {
    devices.insert(d.device());
    for (const auto& n : d.node_stats()) nodes.insert(n.node_name());
  }
  BOOST_TEST(devices.contains(kPsTask + "/device:CPU:0"));
  BOOST_TEST(devices.contains(kMasterTask + "/device:CPU:0"));
  BOOST_TEST(nodes.contains("e"));
  BOOST_TEST(nodes.contains("d"));
  BOOST_TEST(metadata.partition_graphs_size() == 2);
}

BOOST_AUTO_TEST_CASE(a_partial_run_is_fed_and_fetched_on_both_sides) {
  const BothSides g;
  Threads t;
  auto session = t.SessionOn(kMasterTask, g.root);
  for (int i = 0; i < 20; ++i) {
    auto handle = session->PartialRunSetup({"a", "b"}, {"c", "d", "e"}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->PartialRun(*handle, {{"a", Tensor::Scalar(2.0f)}}, {"c"}, &out));
    BOOST_TEST(out.at(0).scalar<float>() == -2.0f);
    TROUPE_REQUIRE_OK(session->PartialRun(*handle, {{"b", Tensor::Scalar(3.0f)}}, {"d", "e"}, &out));
    BOOST_TEST(out.at(0).scalar<float>() == 7.0f);
    BOOST_TEST(out.at(1).scalar<float>() == 9.0f);
  }
}

BOOST_AUTO_TEST_CASE(state_elsewhere_is_reset_saved_and_restored) {
  const Model model("kept");
  Threads t({kMasterTask, kPsTask, kHelperTask});
  auto session = t.SessionOn(kMasterTask, model.root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {model.init}, nullptr));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"count"}, nullptr));
  SnapshotOptions options;
  options.containers = {"models"};
  const auto snapshot = session->SnapshotState(options);
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  BOOST_REQUIRE_EQUAL(snapshot->entries.size(), 1u);
  BOOST_TEST(snapshot->entries[0].device == kPsTask + "/device:CPU:0");
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"count"}, nullptr));
  BOOST_TEST(RunIt(*session, {}, "read").data<float>()[0] == 2.0f);
  TROUPE_REQUIRE_OK(session->RestoreState(*snapshot));
  BOOST_TEST(RunIt(*session, {}, "read").data<float>()[0] == 1.0f);
  TROUPE_REQUIRE_OK(session->Reset({"models"}));
  BOOST_TEST(absl::IsFailedPrecondition(session->Run({}, {"read"}, {}, nullptr)));
}

// Who is asked goes without an answer.
BOOST_AUTO_TEST_CASE(a_request_to_a_process_that_goes_is_answered) {
  const Model model("kept");
  Threads t({kMasterTask, kPsTask, kHelperTask});
  auto session = t.SessionOn(kMasterTask, model.root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {model.init}, nullptr));
  const caf::actor mute = t.system.spawn(
      [](caf::event_based_actor* self, int) -> caf::behavior {
        self->set_default_handler(caf::skip);
        return {[](int) {}};
      },
      0);
  TaskCame(t.processes.Of(kMasterTask), {kPsTask, t.processes.incarnations.at(kPsTask), mute});
  auto reset = std::async(std::launch::async, [&] { return session->Reset({"models"}); });
  BOOST_TEST((reset.wait_for(100ms) == std::future_status::timeout));
  t.processes.Went(kPsTask, kMasterTask);
  const absl::Status s = reset.get();
  BOOST_TEST(absl::IsUnavailable(s), s);
  caf::anon_send_exit(mute, caf::exit_reason::user_shutdown);
}

// A NaN in one process takes back what the step has updated in another.
BOOST_AUTO_TEST_CASE(a_step_that_fails_its_check_leaves_variables_elsewhere_as_they_were) {
  Scope root = Scope::NewRootScope();
  const Scope here = root.WithDevice("/job:master"), there = root.WithDevice("/job:ps");
  const Output x = ops::Placeholder(here.WithOpName("x"), DType::kFloat);
  const Variable v(there.WithOpName("v"), 1.0f), w(here.WithOpName("w"), 1.0f);
  const Output added = v.AssignAdd(there.WithOpName("added"), 1.0f);
  const Output here_added = w.AssignAdd(here.WithOpName("here_added"), 1.0f);
  // After both.
  const Output both = ops::Add(here, ops::Identity(there, added), here_added);
  ops::Log(here.WithOpName("log"), ops::Sub(here, x, both));
  ops::Log(there.WithOpName("log_there"), ops::Sub(there, x, both));
  v.Read(there.WithOpName("read"));
  w.Read(here.WithOpName("read_here"));
  const std::string init = GlobalVariablesInitializer(root).name();
  Threads t;
  auto session = t.SessionOn(kMasterTask, root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  RunOptions options;
  options.check_numerics = true;
  for (const char* log : {"log", "log_there"}) {
    const absl::Status s = session->Run(options, {{"x", Tensor::Scalar(0.0f)}}, {log}, {}, nullptr, nullptr);
    BOOST_TEST(absl::IsInvalidArgument(s), s);
    BOOST_TEST(RunIt(*session, {}, "read").scalar<float>() == 1.0f);
    BOOST_TEST(RunIt(*session, {}, "read_here").scalar<float>() == 1.0f);
  }
  TROUPE_REQUIRE_OK(session->Run(options, {{"x", Tensor::Scalar(9.0f)}}, {"log"}, {}, nullptr, nullptr));
  BOOST_TEST(RunIt(*session, {}, "read").scalar<float>() == 2.0f);
}

// It is not they who left of whom it hears no more.
BOOST_AUTO_TEST_CASE(a_step_of_who_has_left_its_cluster_says_so) {
  const Model model;
  Threads t({kMasterTask, kPsTask, kHelperTask});
  auto session = t.SessionOn(kMasterTask, model.root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {model.init}, nullptr));
  LeaveCluster(t.processes.Of(kMasterTask));
  const absl::Status left = session->Run({}, {}, {model.init}, nullptr);
  BOOST_TEST(absl::IsUnavailable(left), left);
  BOOST_TEST(left.message().find(StrCat("task ", kMasterTask, " has left its cluster")) != std::string::npos, left);
}

// Workers die, and tasks go and come, while steps run: each is answered, and the next ones run.
BOOST_AUTO_TEST_CASE(steps_go_on_through_deaths_of_other_processes) {
  const Model model;
  Threads t({kMasterTask, kPsTask, kHelperTask});
  // What a server does: it tells the others of the next worker.
  for (const std::string& task : t.processes.names) {
    WatchWorkers(t.processes.Of(task), [&t](const std::string& name, const caf::actor& worker) {
      for (const auto& [other, runtime] : t.processes.runtimes) {
        if (other != name) TaskCame(*runtime, {name, t.processes.incarnations.at(name), worker});
      }
    });
  }
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::off);
  auto session = t.SessionOn(kMasterTask, model.root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {model.init}, nullptr));
  int done = 0, failed = 0;
  for (int i = 0; done < 40; ++i) {
    BOOST_REQUIRE(i < 100000);
    if (i % 2 == 0) {
      const std::string& victim = t.processes.names[static_cast<size_t>(i / 2) % 3];
      if (i % 4 == 0) {
        const caf::actor worker = WorkerOf(t.processes.Of(victim), victim);
        if (worker) caf::anon_send_exit(worker, caf::exit_reason::kill);
      } else if (victim != kMasterTask) {
        // The connection is cut and comes again: the process is the same.
        t.processes.Went(victim, kMasterTask);
        t.processes.Introduce(victim, kMasterTask);
      }
    }
    RunOptions options;
    options.timeout_ms = 30000;
    const absl::Status s = session->Run(options, {{"step", Tensor::Scalar(1.0f)}}, {}, {"update"}, nullptr, nullptr);
    if (!s.ok()) BOOST_TEST((absl::IsAborted(s) || absl::IsUnavailable(s)), s);
    s.ok() ? ++done : ++failed;
  }
  for (const std::string& task : t.processes.names) WatchWorkers(t.processes.Of(task), nullptr);
  spdlog::set_level(level);
  BOOST_TEST(failed > 0);
  session = nullptr;
  BOOST_TEST(Soon([&] { return t.processes.StepsOf(kPsTask).graphs() == 0; }));
}

}  // namespace threads_test
}  // namespace troupe
