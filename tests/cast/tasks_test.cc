// Two tasks in one process: each has a worker, devices and named state of its own; a step may have
// parts on both.
#include <chrono>
#include <future>
#include <thread>

#include "tests/cast/play.h"

namespace troupe {
namespace tasks_test {

using namespace std::chrono_literals;

const char* const kMaster = "/job:master/replica:0/task:0";
const char* const kHelper = "/job:helper/replica:0/task:3";

// x -> twice on the first task -> there on the second -> back on the first; and on each a variable
// of one name.
struct Tasks : Play {
  explicit Tasks(SessionOptions options = {}) : Play(options, 1, 1, {}, {kMaster, kHelper}) {
    const Output there = ops::Neg(root.WithDevice("/job:helper").WithOpName("there"), twice);
    ops::Add(root.WithDevice("/job:master").WithOpName("back"), there, x);
    ops::Neg(root.WithDevice("/job:helper").WithOpName("far"), ops::Const(root.WithDevice("/job:helper"), 3.0f));
    VariableOptions in;
    in.container = "ours";
    in.shared_name = "same";
    const Variable near_v(root.WithDevice("/job:master").WithOpName("near_v"), 5.0f, in);
    const Variable far_v(root.WithDevice("/job:helper").WithOpName("far_v"), 7.0f, in);
    near_v.Read(root.WithDevice("/job:master").WithOpName("near_read"));
    far_v.Read(root.WithDevice("/job:helper").WithOpName("far_read"));
    init = GlobalVariablesInitializer(root).name();
    Extend();
    stage.Inline([&] { TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr)); });
  }
  float Run(const std::string& fetch) {
    Start({fetch});
    stage.Play();
    BOOST_REQUIRE_MESSAGE(State() == "OK", Message());
    return outputs.at(0).scalar<float>();
  }
  std::string init;
};

SessionOptions Options(bool wire) {
  SessionOptions options;
  options.wire_messages = wire;
  return options;
}

BOOST_AUTO_TEST_CASE(a_signature_is_registered_once_for_each_task) {
  for (const bool wire : {false, true}) {
    Tasks t(Options(wire));
    t.Start({"back"});
    BOOST_TEST(t.Go() == R"(
session <- compile_request | running
worker <- register_graph | running
worker2 <- register_graph | running
session <- graph_registered | running
session <- graph_registered | running
executor <- run_step | running
executor2 <- run_step | running
executor2 <- doorbell | running
executor <- doorbell | OK)");
    BOOST_TEST(t.outputs.at(0).scalar<float>() == -2.0f);
    // One that has all its parts on one task does not concern the other.
    t.Start({"far"});
    BOOST_TEST(t.Go() == R"(
session <- compile_request | running
worker2 <- register_graph | running
session <- graph_registered | running
executor3 <- run_step | OK)");
  }
}

BOOST_AUTO_TEST_CASE(each_task_has_devices_and_state_of_its_own) {
  for (const bool wire : {false, true}) {
    Tasks t(Options(wire));
    const std::vector<DeviceStatus> devices = t.runtime->devices();
    BOOST_REQUIRE_EQUAL(devices.size(), 2u);
    BOOST_TEST(devices[0].name == StrCat(kMaster, "/device:CPU:0"));
    BOOST_TEST(devices[1].name == StrCat(kHelper, "/device:CPU:0"));
    BOOST_TEST(t.Run("near_read") == 5.0f);
    BOOST_TEST(t.Run("far_read") == 7.0f);
    t.stage.Inline([&] { TROUPE_REQUIRE_OK(t.session->Reset({"ours"})); });
    t.Start({"far_read"});
    t.stage.Play();
    BOOST_TEST(t.State() == "FAILED_PRECONDITION");
  }
}

// A device's death and a worker's cost what stands on their task.
BOOST_AUTO_TEST_CASE(a_dead_worker_ends_the_steps_of_its_task_and_no_others) {
  for (const bool wire : {false, true}) {
    Tasks t(Options(wire));
    auto never = NodeBuilder(t.root.graph(), "far_never", "CastNever")
                     .Input(NodeOut{t.x.node(), 0})
                     .Device("/job:helper")
                     .Build();
    BOOST_REQUIRE_MESSAGE(never.ok(), never.status());
    t.Extend();
    // One step on each task.
    std::map<std::string, std::optional<absl::Status>> ended;
    for (const std::string fetch : {"never", "far_never"}) {
      ended[fetch] = std::nullopt;
      t.session->RunAsync({}, t.feeds, {fetch}, {},
                          [&ended, fetch](absl::Status s, std::vector<Tensor>) { ended[fetch] = std::move(s); });
    }
    t.stage.Play();
    BOOST_TEST((!ended["never"] && !ended["far_never"]));
    t.stage.Kill(t.Find(WorkerName(kHelper)));
    t.stage.Play();
    BOOST_TEST(!ended["never"]);
    BOOST_REQUIRE(ended["far_never"].has_value());
    BOOST_TEST(absl::IsAborted(*ended["far_never"]), *ended["far_never"]);
    BOOST_TEST(ended["far_never"]->message().find(kHelper) != std::string::npos, *ended["far_never"]);
    // While it is down, the other compiles; what needs it is refused.
    BOOST_TEST(t.Run("near_read") == 5.0f);
    t.Start({"far"});
    t.stage.Play();
    BOOST_TEST(t.State() == "UNAVAILABLE");
    t.Start({"back"});
    t.stage.Play();
    BOOST_TEST(t.State() == "UNAVAILABLE");
    t.stage.Advance(2ms);
    t.stage.Play();
    BOOST_TEST(t.Run("far") == -3.0f);
    BOOST_TEST(t.Run("back") == -2.0f);
    BOOST_TEST(t.Run("far_read") == 7.0f);
    BOOST_TEST(!ended["never"]);
    TROUPE_REQUIRE_OK(t.session->Close());
    t.stage.Play();
    BOOST_TEST(absl::IsCancelled(*ended["never"]), *ended["never"]);
  }
}

// The parts of one step on two tasks, when one of them dies with its worker between any two
// messages.
BOOST_AUTO_TEST_CASE(a_worker_that_dies_at_any_edge_is_answered_and_the_next_call_works) {
  int costs = 0;
  for (const bool wire : {false, true}) {
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT("killed after " << position << " messages") {
        Tasks t(Options(wire));
        t.Start({"back"});
        int delivered = 0;
        while (delivered < position && !t.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        t.stage.Kill(t.Find(WorkerName(kHelper)));
        t.stage.Play();
        for (int i = 0; i < 3; ++i) {
          t.stage.Advance(2ms);
          t.stage.Play();
        }
        BOOST_REQUIRE(t.answer.has_value());
        costs += !t.answer->ok();
        BOOST_TEST((t.answer->ok() || absl::IsAborted(*t.answer) || absl::IsUnavailable(*t.answer)), *t.answer);
        BOOST_TEST(t.Run("back") == -2.0f);
        BOOST_TEST(t.session->RunningSteps().empty());
      }
    }
  }
  BOOST_TEST(costs > 3);
}

// On threads: training-like steps across tasks go on while workers and devices die.
BOOST_AUTO_TEST_CASE(steps_across_tasks_go_on_through_deaths) {
  for (const bool wire : {false, true}) {
    CastPolicies policies;
    for (RestartPolicy* p : {&policies.session, &policies.worker, &policies.device, &policies.container}) {
      p->min_delay = p->max_delay = 1ms;
      p->max_failures = 1 << 30;
    }
    auto started = StartRuntime({.threads = 2, .cpu_devices = 2, .tasks = {kMaster, kHelper}}, policies);
    BOOST_REQUIRE_MESSAGE(started.ok(), started.status());
    const std::shared_ptr<Runtime> runtime = *std::move(started);
    Scope root = Scope::NewRootScope();
    const Variable v(root.WithDevice("/job:helper/device:CPU:1").WithOpName("v"), 0.0f);
    const Output one = ops::Const(root.WithDevice("/job:master"), 1.0f);
    const Output sum = v.AssignAdd(root, ops::Neg(root.WithDevice("/job:master/device:CPU:1"), ops::Neg(root, one)));
    const Output read = v.Read(root.WithOpName("read"));
    const std::string init = GlobalVariablesInitializer(root).name();
    SessionOptions options = Options(wire);
    options.runtime = runtime;
    auto session = Session::Create(options).value();
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    options.runtime = nullptr;
    int done = 0, failed = 0;
    const std::vector<std::string> who = {
        WorkerName(kHelper), WorkerName(kMaster), StrCat("device:", kHelper, "/device:CPU:1"),
        StrCat("device:", kMaster, "/device:CPU:1"), StrCat("container:", kHelper, "/device:CPU:1")};
    for (int i = 0; done < 40; ++i) {
      BOOST_REQUIRE(i < 100000);
      if (i % 2 == 0) {
        const caf::actor target = runtime->impl()->directory->Find(who[static_cast<size_t>(i / 2) % who.size()]);
        if (target) caf::anon_send_exit(target, caf::exit_reason::kill);
      }
      const absl::Status s = session->Run({}, {}, {Operation(sum).name()}, nullptr);
      if (!s.ok()) BOOST_TEST((absl::IsAborted(s) || absl::IsUnavailable(s)), s);
      s.ok() ? ++done : ++failed;
    }
    // What was aborted may have added before it ended.
    std::vector<Tensor> out;
    absl::Status s;
    do {
      s = session->Run({}, {"read"}, {}, &out);
    } while (absl::IsAborted(s) || absl::IsUnavailable(s));
    TROUPE_REQUIRE_OK(s);
    const float value = out.at(0).scalar<float>();
    BOOST_TEST((value >= static_cast<float>(done) && value <= static_cast<float>(done + failed)), value);
  }
}

BOOST_AUTO_TEST_CASE(tasks_have_full_names_that_differ) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {""},
                                             {"master"},
                                             {"/job:a"},
                                             {"/job:a/task:0"},
                                             {"/job:a/replica:0/task:0/device:CPU:0"},
                                             {kMaster, kMaster}}) {
    const auto runtime = Runtime::Start({.threads = 1, .tasks = wrong});
    BOOST_TEST(absl::IsInvalidArgument(runtime.status()), runtime.status());
  }
}

}  // namespace tasks_test
}  // namespace troupe
