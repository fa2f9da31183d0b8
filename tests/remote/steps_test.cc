// Steps whose parts stand in several processes, message by message.
#include <cstring>

#include "kernels/device/session_containers.h"
#include "tests/remote/held_op.h"
#include "tests/remote/processes.h"

namespace troupe {
namespace steps_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(edges_1_and_3_a_step_runs_on_two_processes) {
  for (const bool wire : {false, true}) {
    SessionOptions options;
    options.wire_messages = wire;
    RemotePlay p(options);
    p.Start({"back"});
    BOOST_TEST(p.Go() == R"(
session <- compile_request | running
worker <- register_graph | running
worker2 <- register_graph | running
session <- graph_registered | running
session <- graph_registered | running
worker2 <- link_graph | running
worker2 <- run_parts | running
executor <- run_step | running
executor2 <- run_step | running
worker2 <- part_letter tensor_to_part | running
executor2 <- doorbell | running
worker <- part_letter tensor_to_part | running
worker <- parts_done | running
executor <- doorbell | OK)");
    BOOST_TEST(p.outputs.at(0).scalar<float>() == -2.0f);
    // All parts are elsewhere.
    p.Start({"far"});
    BOOST_TEST(p.Go() == R"(
session <- compile_request | running
worker2 <- register_graph | running
session <- graph_registered | running
worker2 <- link_graph | running
worker2 <- run_parts | running
executor3 <- run_step | running
worker <- parts_done | OK)");
    BOOST_TEST(p.outputs.at(0).scalar<float>() == -3.0f);
    p.Initialize();
    BOOST_TEST(p.Run("read") == 7.0f);
    for (const float want : {11.0f, 15.0f}) {
      p.Start({}, {"add"});
      p.stage.Play();
      BOOST_TEST(p.State() == "OK", p.Message());
      BOOST_TEST(p.Run("read") == want);
    }
    BOOST_TEST(p.Run("back") == -2.0f);
    BOOST_TEST(p.processes->StepsOf(kPsTask).early() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(edge_2_a_task_that_is_not_there_fails_the_step) {
  RemotePlay p;
  p.Warm({"back"});
  p.processes->Went(kPsTask, kMasterTask);
  // The session has not heard of it yet.
  p.Start({"back"});
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  BOOST_TEST(p.Message().find("the connection was cut") != std::string::npos, p.Message());
  // It has now; what has no part there is run.
  p.Start({"back"});
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  BOOST_TEST(p.Run("twice") == 4.0f);
  p.processes->Introduce(kPsTask, kMasterTask);
  BOOST_TEST(p.Run("back") == -2.0f);
}

BOOST_AUTO_TEST_CASE(a_task_that_has_never_been_there_is_named) {
  RemotePlay p({}, {kMasterTask, kPsTask, kHelperTask});
  p.processes->Went(kPsTask, kMasterTask);
  p.stage.Play();
  p.stage.Inline([&] { p.session = nullptr; });
  SessionOptions options;
  options.runtime = p.processes->runtimes.at(kMasterTask);
  p.stage.Inline([&] {
    p.session = Session::Create(options).value();
    TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph()));
  });
  options.runtime = nullptr;
  BOOST_TEST(p.Run("twice") == 4.0f);
  p.Start({"far"});
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  BOOST_TEST(p.Message().find(kPsTask) != std::string::npos, p.Message());
  p.processes->Introduce(kPsTask, kMasterTask);
  BOOST_TEST(p.Run("far") == -3.0f);
}

// Whatever has been delivered when it goes: the call is answered, and the next one runs.
BOOST_AUTO_TEST_CASE(edge_4_a_task_that_goes_in_mid_step_ends_it) {
  const Quiet quiet;
  for (const bool new_process : {false, true}) {
    int costs = 0;
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT("went after " << position << " messages") {
        RemotePlay p;
        p.Start({"back"});
        int delivered = 0;
        while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        p.processes->Went(kPsTask, kMasterTask);
        p.processes->Went(kMasterTask, kPsTask);
        p.stage.Play();
        BOOST_REQUIRE(p.answer.has_value());
        costs += !p.answer->ok();
        BOOST_TEST((p.answer->ok() || absl::IsAborted(*p.answer) || absl::IsUnavailable(*p.answer)), *p.answer);
        BOOST_TEST(p.processes->StepsOf(kPsTask).graphs() == 0u);
        if (new_process) {
          p.stage.Inline([&] { p.processes->Begin(kPsTask); });
        }
        p.processes->IntroduceAll();
        BOOST_TEST(p.Run("back") == -2.0f);
        BOOST_TEST(p.processes->StepsOf(kPsTask).early() == 0u);
      }
    }
    BOOST_TEST(costs > 3);
  }
}

BOOST_AUTO_TEST_CASE(a_worker_elsewhere_that_dies_at_any_edge_is_answered_and_the_next_call_works) {
  const Quiet quiet;
  int costs = 0;
  for (int position = 0;; ++position) {
    BOOST_TEST_CONTEXT("killed after " << position << " messages") {
      RemotePlay p;
      p.Start({"back"});
      int delivered = 0;
      while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
      if (delivered < position) break;
      p.stage.Kill(WorkerOf(p.processes->Of(kPsTask), kPsTask));
      p.stage.Play();
      p.stage.Advance(5ms);
      p.stage.Play();
      BOOST_REQUIRE(p.answer.has_value());
      costs += !p.answer->ok();
      BOOST_TEST((p.answer->ok() || absl::IsAborted(*p.answer) || absl::IsUnavailable(*p.answer)), *p.answer);
      p.processes->Introduce(kPsTask, kMasterTask);
      BOOST_TEST(p.Run("back") == -2.0f);
    }
  }
  BOOST_TEST(costs > 3);
}

BOOST_AUTO_TEST_CASE(edges_5_and_6_an_error_anywhere_ends_all_parts) {
  RemotePlay p;
  // Elsewhere, while a kernel waits here.
  p.Start({"after_wrong", "never_here"});
  p.stage.Play();
  BOOST_TEST(p.State() == "INVALID_ARGUMENT");
  BOOST_TEST(p.Message().find("node 'wrong' (MatMul) on /job:ps/replica:0/task:0/device:CPU:0") != std::string::npos,
             p.Message());
  BOOST_TEST(HasAddress(*p.answer));
  // Here, while a kernel waits elsewhere.
  p.Start({"wrong_here", "never_there"});
  p.stage.Play();
  BOOST_TEST(p.State() == "INVALID_ARGUMENT");
  BOOST_TEST(p.Message().find("'wrong_here'") != std::string::npos, p.Message());
  BOOST_TEST(p.Run("back") == -2.0f);
  BOOST_TEST(p.session->RunningSteps().empty());
}

BOOST_AUTO_TEST_CASE(edge_7_answers_that_come_late_or_twice_are_dropped) {
  RemotePlay p;
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kMasterTask), kMasterTask));
  p.processes->Introduce(kMasterTask, kPsTask);
  p.Start({"after_never"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  RemoteSteps& steps = p.processes->StepsOf(kMasterTask);
  const uint64_t mine = p.processes->incarnations.at(kMasterTask);
  for (const int64_t step : {int64_t{-1}, int64_t{0}, int64_t{1} << 60}) {
    for (const uint32_t task : {0u, 1u, 99u}) {
      steps.Done({mine, step, task, absl::OkStatus(), false, false, {}, ""});
      steps.Tell({mine, step, {task, 1}, part_failed{step, absl::InternalError("wrong")}});
      steps.Deliver({mine, step, {task, 0}, abort_step{step, absl::InternalError("wrong")}});
      steps.Deliver({mine + 1000, step, {task, 0}, grant{step, 0, {}, 0}});
    }
  }
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  TROUPE_REQUIRE_OK(p.session->Close());
  p.stage.Play();
  BOOST_TEST(p.State() == "CANCELLED");
}

BOOST_AUTO_TEST_CASE(edge_8_a_step_ends_with_the_port_of_its_master) {
  const Quiet quiet;
  RemotePlay p;
  p.Initialize();
  // It has no part on the master's own task.
  p.Start({"read", "never_there"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  p.stage.Kill(WorkerOf(p.processes->Of(kMasterTask), kMasterTask));
  p.stage.Play();
  BOOST_TEST(p.State() == "ABORTED");
  p.stage.Advance(5ms);
  p.stage.Play();
  p.processes->Introduce(kMasterTask, kPsTask);
  BOOST_TEST(p.Run("back") == -2.0f);
  BOOST_TEST(p.Run("read") == 7.0f);
}

// What comes before its step is kept, and delivered when it begins.
BOOST_AUTO_TEST_CASE(edges_1_and_2_what_comes_before_its_step_is_kept) {
  for (const bool room : {true, false}) {
    RemotePlay p;
    Relay relay(&p.stage, WorkerOf(p.processes->Of(kPsTask), kPsTask));
    TaskCame(p.processes->Of(kMasterTask), {kPsTask, p.processes->incarnations.at(kPsTask), relay.actor});
    p.stage.Play();
    p.Warm({"back"});
    RemoteSteps& steps = p.processes->StepsOf(kPsTask);
    if (!room) steps.set_limits({.messages = 0});
    relay.hold = true;
    p.Start({"back"});
    p.stage.Play();
    BOOST_REQUIRE_EQUAL(relay.held.size(), 2u);
    BOOST_TEST(relay.held[0].second.match_elements<run_parts>());
    BOOST_TEST(relay.held[1].second.match_elements<part_letter>());
    std::swap(relay.held[0], relay.held[1]);
    relay.Hand(0);
    p.stage.Play();
    BOOST_TEST(steps.early() == 1u);
    BOOST_TEST(p.State() == "running");
    relay.Hand(1);
    p.stage.Play();
    if (room) {
      BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
      BOOST_TEST(p.outputs.at(0).scalar<float>() == -2.0f);
    } else {
      BOOST_TEST(p.State() == "RESOURCE_EXHAUSTED");
      BOOST_TEST(p.Message().find("'edge_") != std::string::npos, p.Message());
      BOOST_TEST(p.Message().find(kMasterTask) != std::string::npos, p.Message());
    }
    BOOST_TEST(steps.early() == 0u);
    // 9: all of it once more.
    relay.Hand(0);
    relay.Hand(1);
    p.stage.Play();
    BOOST_TEST(steps.early() == 0u);
    relay.hold = false;
    relay.held.clear();
    p.stage.Inline([&] { p.session = nullptr; });
    p.processes->Introduce(kPsTask, kMasterTask);
    p.stage.Play();
  }
}
BOOST_AUTO_TEST_CASE(edges_4_and_5_what_comes_early_is_bounded) {
  RemotePlay p;
  p.Warm({"back"});
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  const uint64_t master = p.processes->incarnations.at(kMasterTask);
  steps.set_limits({.messages = 3, .bytes = 100, .steps = 5});
  // So many steps, of which the oldest goes.
  for (int64_t step = 1; step < 100; ++step) steps.Deliver({master, step << 40, {1, 1}, grant{step, 0, {}, 0}});
  // And as many again, which are known to have lost theirs.
  BOOST_TEST(steps.early() == 10u);
  // Bytes.
  steps.Deliver({master, 7, {1, 1}, tensor_to_part{7, 0, {}, false, Tensor(DType::kFloat, TensorShape({26})), 0}});
  // A master that has nothing here.
  steps.Deliver({master + 1, 7, {1, 1}, grant{7, 0, {}, 0}});
  BOOST_TEST(steps.early() == 10u);
  BOOST_TEST(p.Run("back") == -2.0f);
}
BOOST_AUTO_TEST_CASE(edge_9_what_comes_after_the_end_is_dropped) {
  RemotePlay p;
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kPsTask), kPsTask));
  TaskCame(p.processes->Of(kMasterTask), {kPsTask, p.processes->incarnations.at(kPsTask), relay.actor});
  p.stage.Play();
  p.Warm({}, {"add"});
  p.Initialize();
  relay.hold = true;
  p.Start({}, {"add"});
  p.stage.Play();
  auto messages = relay.held;
  relay.Release();
  p.stage.Play();
  BOOST_TEST(p.State() == "OK");
  relay.held = messages;
  relay.Release();
  p.stage.Play();
  relay.hold = false;
  BOOST_TEST(p.processes->StepsOf(kPsTask).early() == 0u);
  BOOST_TEST(p.Run("read") == 11.0f);  // it was added once
  p.stage.Inline([&] { p.session = nullptr; });
  p.processes->Introduce(kPsTask, kMasterTask);
  p.stage.Play();
}

// Of two who know each other, one has forgotten: a call is answered, and the next compiles anew.
BOOST_AUTO_TEST_CASE(edge_3_a_step_of_an_unknown_graph_is_answered) {
  RemotePlay p;
  BOOST_TEST(p.Run("back") == -2.0f);
  p.processes->Went(kMasterTask, kPsTask);
  p.stage.Play();
  p.Start({"back"});
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  p.processes->Introduce(kMasterTask, kPsTask);
  p.Start({"back"});
  p.stage.Play();
  BOOST_TEST(p.State() == "ABORTED");
  BOOST_TEST(p.Run("back") == -2.0f);
}

BOOST_AUTO_TEST_CASE(edges_6_and_7_a_step_of_another_master_runs) {
  RemotePlay p;
  // A token reaches kernels elsewhere.
  CancellationToken token;
  RunOptions options;
  options.cancellation = &token;
  p.Start({"after_never"}, {}, options);
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  token.Cancel();
  p.stage.Play();
  BOOST_TEST(p.State() == "CANCELLED");
  // So does a deadline, which tells what waits there.
  RunOptions late;
  late.timeout_ms = 100;
  p.Start({"after_never"}, {}, late);
  p.stage.Play();
  p.stage.Advance(100ms);
  p.stage.Play();
  p.stage.Advance(100ms);
  p.stage.Play();
  BOOST_TEST(p.State() == "DEADLINE_EXCEEDED");
  BOOST_TEST(p.Message().find("node 'never_there' (CastNever) on /job:ps") != std::string::npos, p.Message());
  BOOST_TEST(p.session->RunningSteps().empty());
}

// A kernel elsewhere does not return: the call is answered, and the step goes on in the background.
BOOST_AUTO_TEST_CASE(a_kernel_elsewhere_that_does_not_return_keeps_nobody) {
  RemotePlay p;
  auto n =
      NodeBuilder(p.root.graph(), "stubborn", "RemoteHeld").Input(NodeOut{p.x.node(), 0}).Device("/job:ps").Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  p.Start({"stubborn"});
  p.stage.Play();
  BOOST_REQUIRE_EQUAL(HeldCalls().size(), 1u);
  TROUPE_REQUIRE_OK(p.session->Close());
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(50ms);
  p.stage.Play();
  BOOST_TEST(p.State() == "CANCELLED");
  BOOST_TEST(p.Message().find("'stubborn'") != std::string::npos, p.Message());
  LetGo();
  p.stage.Play();
}

BOOST_AUTO_TEST_CASE(edges_8_and_10_nothing_is_left_of_a_master_that_went) {
  RemotePlay p;
  p.Initialize();
  BOOST_TEST(p.Run("read") == 7.0f);
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  ResourceContainers* const there = p.processes->Of(kPsTask).impl()->devices[0]->containers();
  BOOST_TEST(!there->List().empty());
  p.Start({"after_never"});
  p.stage.Play();
  steps.Deliver({p.processes->incarnations.at(kMasterTask), int64_t{1} << 50, {1, 1}, grant{1, 0, {}, 0}});
  BOOST_TEST(steps.graphs() > 0u);
  BOOST_TEST(steps.early() == 1u);
  p.processes->Went(kMasterTask, kPsTask);
  p.stage.Play();
  BOOST_TEST(steps.graphs() == 0u);
  BOOST_TEST(steps.early() == 0u);
  BOOST_TEST(there->List().empty());
}

// A session that ends leaves nothing elsewhere; a signature that goes lets its graph go.
BOOST_AUTO_TEST_CASE(what_a_session_has_elsewhere_ends_with_it) {
  SessionOptions options;
  options.max_signatures = 2;
  RemotePlay p(options);
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  ResourceContainers* const there = p.processes->Of(kPsTask).impl()->devices[0]->containers();
  p.Initialize();
  for (const char* fetch : {"far", "there", "back", "read", "far", "there", "back", "read"}) p.Run(fetch);
  p.stage.Play();
  BOOST_TEST(steps.graphs() <= 3u);
  BOOST_TEST(!there->List().empty());
  p.stage.Inline([&] { p.session = nullptr; });
  p.stage.Play();
  BOOST_TEST(steps.graphs() == 0u);
  BOOST_TEST(there->List().empty());
}

// The death of a device's actor elsewhere ends the steps that have a part on it, and gives the
// device another incarnation, which its masters hear of.
BOOST_AUTO_TEST_CASE(a_device_elsewhere_that_dies_ends_its_steps) {
  const Quiet quiet;
  RemotePlay p;
  BOOST_TEST(p.Run("back") == -2.0f);
  p.Start({"after_never"});
  p.stage.Play();
  p.stage.Kill(DeviceActorOf(p.processes->Of(kPsTask), StrCat(kPsTask, "/device:CPU:0")));
  p.stage.Play();
  BOOST_TEST(p.State() == "ABORTED");
  p.stage.Advance(5ms);
  p.stage.Play();
  BOOST_TEST(p.Run("back") == -2.0f);
}

BOOST_AUTO_TEST_CASE(an_executor_elsewhere_that_is_killed_ends_its_step) {
  RemotePlay p;
  p.Start({"after_never"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  // Its kernel waits in the second.
  p.stage.Kill(p.stage.Actor("executor2"));
  p.stage.Play();
  BOOST_TEST(p.State() == "ABORTED");
  BOOST_TEST(p.Run("back") == -2.0f);
}

// From one process to another beside the master, which has no part between.
BOOST_AUTO_TEST_CASE(tensors_go_from_process_to_process) {
  RemotePlay p({}, {kMasterTask, kPsTask, kHelperTask});
  const Scope helper = p.root.WithDevice("/job:helper"), ps = p.root.WithDevice("/job:ps");
  const Output first = ops::Neg(ps.WithOpName("first"), p.x);
  ops::Neg(helper.WithOpName("second"), first);
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  p.Warm({"second"});
  p.Start({"second"});
  BOOST_TEST(p.Go() == R"(
worker <- run_parts | running
worker2 <- run_parts | running
executor <- run_step | running
executor2 <- run_step | running
worker2 <- part_letter tensor_to_part | running
worker3 <- parts_done | running
executor2 <- doorbell | running
worker3 <- parts_done | OK)");
  BOOST_TEST(p.outputs.at(0).scalar<float>() == 2.0f);
  // One of the two goes, of which the other does not hear: the master ends the step there.
  p.Warm({"second", "never_there"});
  p.Start({"second", "never_there"});
  p.processes->Went(kHelperTask, kMasterTask);
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  p.processes->Introduce(kHelperTask, kMasterTask);
  BOOST_TEST(p.Run("second") == 2.0f);
}

// Big tensors stay with their sender until a process elsewhere is about to need them.
BOOST_AUTO_TEST_CASE(grants_pass_between_processes) {
  constexpr int64_t kSide = 256;
  std::vector<Tensor> results;
  for (const bool schedule : {true, false}) {
    SessionOptions options;
    options.schedule_recvs = schedule;
    RemotePlay p(options);
    const Scope here = p.root.WithDevice("/job:master"), there = p.root.WithDevice("/job:ps");
    const Output big = ops::Placeholder(here.WithOpName("big"), DType::kFloat, {.shape = TensorShape({kSide, kSide})});
    Output sum = ops::Placeholder(there.WithOpName("start"), DType::kFloat, {.shape = TensorShape({kSide, kSide})});
    for (int i = 0; i < 6; ++i) {
      const Output made = ops::Mul(here, big, ops::Const(here, 1.0f * static_cast<float>(i + 1)));
      for (int k = 0; k < 8; ++k) sum = ops::Sqrt(there, ops::Abs(there, sum));
      auto take = NodeBuilder(there.graph(), StrCat("take", i), "CastTake")
                      .Input(NodeOut{sum.node(), sum.index()})
                      .Input(NodeOut{made.node(), made.index()})
                      .Device("/job:ps")
                      .Build();
      BOOST_REQUIRE_MESSAGE(take.ok(), take.status());
      sum = Output({*take, 0}, sum.scope_state());
    }
    p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
    Tensor first(DType::kFloat, TensorShape({kSide, kSide})), start(DType::kFloat, TensorShape({kSide, kSide}));
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      first.flat<float>()[i] = static_cast<float>(i % 17);
      start.flat<float>()[i] = static_cast<float>(i % 5);
    }
    std::optional<absl::Status> answer;
    p.session->RunAsync({}, {{"big", first}, {"start", start}}, {"take5"}, {},
                        [&](absl::Status s, std::vector<Tensor> out) {
                          answer = std::move(s);
                          if (!out.empty()) results.push_back(out[0]);
                        });
    const std::string play = p.stage.Play();
    BOOST_REQUIRE(answer.has_value());
    TROUPE_REQUIRE_OK(*answer);
    BOOST_TEST((play.find("part_letter grant") != std::string::npos) == schedule, play);
  }
  BOOST_TEST(std::memcmp(results.at(0).raw(), results.at(1).raw(), results[0].bytes()) == 0);
}

}  // namespace steps_test
}  // namespace troupe
