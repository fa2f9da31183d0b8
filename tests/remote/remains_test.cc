// What steps on several processes leave behind, and whom they keep waiting: early messages, parts
// that nobody waits for, updates that nobody settles.
#include <future>

#include "tests/remote/held_op.h"
#include "tests/remote/processes.h"

namespace troupe {
namespace remains_test {

using namespace std::chrono_literals;

// What cannot be sent to another process.
TROUPE_OP("RemainsVariant")
    .Input("x: float")
    .Output("y: variant")
    .Stateful()
    .NotDifferentiable("it is a test's")
    .Doc("A variant.");
absl::Status MakeVariant(KernelContext& ctx) {
  ctx.set_output(0, Tensor(DType::kVariant, TensorShape()));
  return absl::OkStatus();
}
TROUPE_KERNEL("RemainsVariant").Device("CPU").Function<MakeVariant>();

// With `held` on the ps, and a shared variable there: `bad` is NaN after its update `added`.
struct Held : RemotePlay {
  Held() {
    const Scope there = root.WithDevice("/job:ps");
    VariableOptions in;
    in.container = "models";
    in.shared_name = "kept";
    const Variable v(there.WithOpName("kept"), 7.0f, in);
    v.Read(there.WithOpName("read_kept"));
    const Output added = v.AssignAdd(there.WithOpName("added"), ops::Const(there, 1.0f));
    ops::Log(there.WithOpName("bad"), ops::Sub(there, x, added));
    auto n = NodeBuilder(root.graph(), "held", "RemoteHeld").Input(NodeOut{x.node(), 0}).Device("/job:ps").Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    init = GlobalVariablesInitializer(root).name();
    stage.Inline([&] { TROUPE_REQUIRE_OK(session->Extend(*root.graph())); });
    options.check_numerics = true;
    Initialize();
    BOOST_TEST(Run("read_kept") == 7.0f);
  }
  RunOptions options;
};

// A value is fed to a task once, whichever of its devices take it.
BOOST_AUTO_TEST_CASE(a_value_of_a_partial_run_reaches_each_device_of_a_task) {
  Scope root = Scope::NewRootScope();
  const Scope first = root.WithDevice("/job:ps/device:CPU:0"), second = root.WithDevice("/job:ps/device:CPU:1");
  const Output a = ops::Placeholder(first.WithOpName("a"), DType::kFloat),
               b = ops::Placeholder(second.WithOpName("b"), DType::kFloat);
  ops::Neg(first.WithOpName("c"), a);
  ops::Neg(second.WithOpName("d"), b);
  caf::actor_system_config config;
  caf::actor_system system(config);
  Processes processes({kMasterTask, kPsTask}, [&](RuntimeOptions o, const ClusterOptions& c) {
    o.cpu_devices = 2;
    return StartRuntimeIn(system, o, c);
  });
  processes.IntroduceAll();
  SessionOptions options;
  options.runtime = processes.runtimes.at(kMasterTask);
  auto session = NewSession(root, options);
  options.runtime = nullptr;
  RunOptions limited;
  limited.timeout_ms = 5000;
  auto handle = session->PartialRunSetup(limited, {"a", "b"}, {"c", "d"}, {});
  BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->PartialRun(limited, *handle, {{"b", Tensor::Scalar(2.0f)}}, {"d"}, &out));
  BOOST_TEST(out.at(0).scalar<float>() == -2.0f);
  TROUPE_REQUIRE_OK(session->PartialRun(limited, *handle, {{"a", Tensor::Scalar(3.0f)}}, {"c"}, &out));
  BOOST_TEST(out.at(0).scalar<float>() == -3.0f);
}

// The part that has made it waits for a value that is not fed.
BOOST_AUTO_TEST_CASE(a_result_that_cannot_be_sent_ends_the_part_that_made_it) {
  Scope root = Scope::NewRootScope();
  const Scope there = root.WithDevice("/job:ps");
  const Output a = ops::Placeholder(there.WithOpName("a"), DType::kFloat),
               b = ops::Placeholder(there.WithOpName("b"), DType::kFloat);
  auto n = NodeBuilder(root.graph(), "list", "RemainsVariant").Input(NodeOut{a.node(), 0}).Device("/job:ps").Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  ops::Neg(there.WithOpName("d"), b);
  caf::actor_system_config config;
  caf::actor_system system(config);
  Processes processes({kMasterTask, kPsTask},
                      [&](const RuntimeOptions& o, const ClusterOptions& c) { return StartRuntimeIn(system, o, c); });
  processes.IntroduceAll();
  for (const bool wire : {false, true}) {
    SessionOptions options;
    options.wire_messages = wire;
    options.runtime = processes.runtimes.at(kMasterTask);
    auto session = NewSession(root, options);
    options.runtime = nullptr;
    auto handle = session->PartialRunSetup({"a", "b"}, {"list", "d"}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    auto call = std::async(std::launch::async, [&] {
      return session->PartialRun(*handle, {{"a", Tensor::Scalar(2.0f)}}, {"list"}, nullptr);
    });
    const bool answered = call.wait_for(5s) == std::future_status::ready;
    BOOST_TEST(answered);
    if (!answered) session->PartialRunCancel(*handle).IgnoreError();
    const absl::Status s = call.get();
    BOOST_TEST(absl::IsInvalidArgument(s), s);
  }
}

BOOST_AUTO_TEST_CASE(what_is_early_for_a_step_that_is_refused_goes) {
  RemotePlay p;
  p.Warm({"back"});
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  const uint64_t master = p.processes->incarnations.at(kMasterTask);
  constexpr int64_t kStep = int64_t{1} << 40;
  steps.Deliver({master, kStep, {1, 1}, grant{kStep, 0, {}, 0}});
  BOOST_TEST(steps.early() == 1u);
  run_parts unknown;
  unknown.master = master;
  unknown.step = kStep;
  unknown.handle = 9999;
  unknown.task = 1;
  steps.Run(kPsTask, std::move(unknown), WorkerOf(p.processes->Of(kMasterTask), kMasterTask));
  p.stage.Play();
  BOOST_TEST(steps.early() == 0u);
  steps.Deliver({master, kStep, {1, 1}, grant{kStep, 0, {}, 0}});
  BOOST_TEST(steps.early() == 0u);
}

// Messages of steps that never come do not fail the others.
BOOST_AUTO_TEST_CASE(at_the_bound_of_early_messages_the_oldest_steps_lose_theirs) {
  RemotePlay p;
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kPsTask), kPsTask));
  TaskCame(p.processes->Of(kMasterTask), {kPsTask, p.processes->incarnations.at(kPsTask), relay.actor});
  p.stage.Play();
  p.Warm({"back"});
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  const uint64_t master = p.processes->incarnations.at(kMasterTask);
  steps.set_limits({.messages = 2});
  for (int64_t step = int64_t{1} << 40; step < (int64_t{1} << 40) + 3; ++step)
    steps.Deliver({master, step, {1, 1}, grant{step, 0, {}, 0}});
  relay.hold = true;
  p.Start({"back"});
  p.stage.Play();
  BOOST_REQUIRE_EQUAL(relay.held.size(), 2u);
  std::swap(relay.held[0], relay.held[1]);
  relay.Release();
  relay.hold = false;
  p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  p.stage.Inline([&] { p.session = nullptr; });
  p.processes->Introduce(kPsTask, kMasterTask);
  p.stage.Play();
}

// Who hears late that a process is a new one ends no steps that run on it.
BOOST_AUTO_TEST_CASE(steps_end_with_the_incarnation_that_they_run_on) {
  RemotePlay p;
  p.Start({"after_never"});
  p.stage.Play();
  const uint64_t other = p.processes->incarnations.at(kPsTask) + 1000;
  p.processes->StepsOf(kMasterTask).TaskWent({kPsTask, other, nullptr}, Unavailable("it is gone"), true);
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
}

// A connection that is cut and comes again: the part there has not ended with it.
BOOST_AUTO_TEST_CASE(parts_that_nobody_waits_for_are_told_to_end_when_their_process_is_back) {
  RemotePlay p;
  auto relay = std::make_unique<Relay>(&p.stage, WorkerOf(p.processes->Of(kPsTask), kPsTask));
  TaskCame(p.processes->Of(kMasterTask), {kPsTask, p.processes->incarnations.at(kPsTask), relay->actor});
  p.stage.Play();
  p.Warm({"after_never"});
  const std::weak_ptr<Runtime> there = p.processes->runtimes.at(kPsTask);
  const auto before = there.use_count();
  p.Start({"after_never"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  BOOST_TEST(there.use_count() == before + 1);
  relay = nullptr;
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  p.processes->Introduce(kPsTask, kMasterTask);
  p.stage.Play();
  BOOST_TEST(there.use_count() == before);
  BOOST_TEST(p.Run("back") == -2.0f);
}

// The worker that its tensors go to is out of reach for one of the processes only.
BOOST_AUTO_TEST_CASE(a_part_ends_when_its_process_loses_another_of_the_step) {
  RemotePlay p({}, {kMasterTask, kPsTask, kHelperTask});
  const Scope helper = p.root.WithDevice("/job:helper"), ps = p.root.WithDevice("/job:ps");
  ops::Neg(helper.WithOpName("second"), ops::Neg(ps.WithOpName("first"), p.x));
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  auto relay = std::make_unique<Relay>(&p.stage, WorkerOf(p.processes->Of(kHelperTask), kHelperTask));
  TaskCame(p.processes->Of(kPsTask), {kHelperTask, p.processes->incarnations.at(kHelperTask), relay->actor});
  p.stage.Play();
  relay->hold = true;
  p.Start({"second", "never_there"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  BOOST_TEST(!relay->held.empty());
  relay = nullptr;
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
}

// A task speaks for its own parts only.
BOOST_AUTO_TEST_CASE(what_a_task_tells_of_parts_of_others_is_dropped) {
  RemotePlay p;
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kPsTask), kPsTask));
  TaskCame(p.processes->Of(kMasterTask), {kPsTask, p.processes->incarnations.at(kPsTask), relay.actor});
  p.stage.Play();
  p.Warm({"after_never"});
  relay.hold = true;
  p.Start({"after_never"});
  p.stage.Play();
  BOOST_REQUIRE(!relay.held.empty());
  BOOST_REQUIRE(relay.held[0].second.match_elements<run_parts>());
  const auto run = relay.held[0].second.get_as<run_parts>(0);
  relay.hold = false;
  relay.Release();
  p.stage.Play();
  RemoteSteps& steps = p.processes->StepsOf(kMasterTask);
  for (const uint32_t part : {0u, 2u, ~0u})
    steps.Tell({run.master, run.step, {run.task, part}, part_failed{run.step, absl::InternalError("wrong")}});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  TROUPE_REQUIRE_OK(p.session->Close());
  p.stage.Play();
  BOOST_TEST(p.State() == "CANCELLED");
  p.stage.Inline([&] { p.session = nullptr; });
  p.processes->Introduce(kPsTask, kMasterTask);
  p.stage.Play();
}

// Nobody settles it any more.
BOOST_AUTO_TEST_CASE(a_step_that_failed_its_check_takes_its_updates_back_without_its_master) {
  Held p;
  p.Start({"bad", "held"}, {"added"}, p.options);
  p.stage.Play();
  BOOST_REQUIRE_EQUAL(HeldCalls().size(), 1u);
  p.processes->Went(kMasterTask, kPsTask);
  p.processes->Went(kPsTask, kMasterTask);
  p.stage.Play();
  LetGo();
  p.stage.Play();
  p.processes->IntroduceAll();
  BOOST_TEST(p.Run("read_kept") == 7.0f);
}

// The port of the master dies, which ends the call, while a kernel elsewhere does not return.
BOOST_AUTO_TEST_CASE(a_step_that_is_settled_before_its_end_keeps_no_updates) {
  const Quiet quiet;
  for (const bool fails : {false, true}) {
    Held p;
    p.Start(fails ? Names{"bad", "held"} : Names{"held"}, {"added"}, p.options);
    p.stage.Play();
    BOOST_REQUIRE_EQUAL(HeldCalls().size(), 1u);
    p.stage.Kill(WorkerOf(p.processes->Of(kMasterTask), kMasterTask));
    p.stage.Play();
    BOOST_REQUIRE(p.answer.has_value());
    LetGo();
    p.stage.Play();
    BOOST_TEST(p.processes->StepsOf(kPsTask).unsettled() == 0u);
    p.stage.Advance(5ms);
    p.stage.Play();
    p.processes->Introduce(kMasterTask, kPsTask);
    BOOST_TEST(p.Run("read_kept") == (fails ? 7.0f : 8.0f));
  }
}

// A master that was taken for dead and is not: its session's variables are not those of the step
// that still ran then.
BOOST_AUTO_TEST_CASE(a_step_that_ends_late_leaves_the_variables_of_its_session) {
  Held p;
  p.Start({"held"});
  p.stage.Play();
  BOOST_REQUIRE_EQUAL(HeldCalls().size(), 1u);
  p.processes->Went(kMasterTask, kPsTask);
  p.processes->Went(kPsTask, kMasterTask);
  p.stage.Play();
  p.processes->IntroduceAll();
  // `v` is the session's own.
  p.Initialize();
  BOOST_TEST(p.Run("read") == 7.0f);
  LetGo();
  p.stage.Play();
  BOOST_TEST(p.Run("read") == 7.0f);
}

// Only one side takes the other for gone, and takes it back.
BOOST_AUTO_TEST_CASE(a_part_is_told_to_end_by_a_master_that_only_took_it_for_gone) {
  RemotePlay p;
  p.Warm({"after_never"});
  const std::weak_ptr<Runtime> there = p.processes->runtimes.at(kPsTask);
  const auto before = there.use_count();
  p.Start({"after_never"});
  p.stage.Play();
  BOOST_TEST(there.use_count() == before + 1);
  p.processes->Went(kPsTask, kMasterTask);
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE");
  BOOST_TEST(there.use_count() == before);
  p.processes->Introduce(kPsTask, kMasterTask);
  BOOST_TEST(p.Run("back") == -2.0f);
}

// A step that lost what it was sent does not begin without it.
BOOST_AUTO_TEST_CASE(a_step_that_is_one_too_many_is_answered) {
  RemotePlay p;
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kPsTask), kPsTask));
  TaskCame(p.processes->Of(kMasterTask), {kPsTask, p.processes->incarnations.at(kPsTask), relay.actor});
  p.stage.Play();
  p.Warm({"back"});
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  const uint64_t master = p.processes->incarnations.at(kMasterTask);
  steps.set_limits({.steps = 2});
  relay.hold = true;
  p.Start({"back"});
  p.stage.Play();
  BOOST_REQUIRE_EQUAL(relay.held.size(), 2u);
  std::swap(relay.held[0], relay.held[1]);
  relay.Hand(0);
  p.stage.Play();
  for (int64_t step = int64_t{1} << 40; step < (int64_t{1} << 40) + 2; ++step)
    steps.Deliver({master, step, {1, 1}, grant{step, 0, {}, 0}});
  relay.Hand(1);
  relay.hold = false;
  relay.held.clear();
  p.stage.Play();
  BOOST_TEST(p.State() == "RESOURCE_EXHAUSTED", p.Message());
  p.stage.Inline([&] { p.session = nullptr; });
  p.processes->Introduce(kPsTask, kMasterTask);
  p.stage.Play();
}

// Nobody takes the tensors of a step that is told to end before it begins.
BOOST_AUTO_TEST_CASE(an_abort_that_comes_early_keeps_no_tensors) {
  RemotePlay p;
  p.Warm({"back"});
  RemoteSteps& steps = p.processes->StepsOf(kPsTask);
  const uint64_t master = p.processes->incarnations.at(kMasterTask);
  const int64_t step = int64_t{1} << 40;
  steps.Deliver(
      {master, step, {1, 1}, tensor_to_part{step, 0, {}, false, Tensor(DType::kFloat, TensorShape({26})), 0}});
  BOOST_TEST(steps.early_bytes() == 104);
  steps.Deliver({master, step, {1, 1}, abort_step{step, Aborted("why")}});
  BOOST_TEST(steps.early_bytes() == 3);
  BOOST_TEST(steps.early() == 1u);
}

// From one process to another beside the master, whose part is done: the tensor is lost with the
// way between the two, and only its sender hears of it.
BOOST_AUTO_TEST_CASE(edge_11_what_a_part_sent_before_its_end_may_be_lost) {
  RemotePlay p({}, {kMasterTask, kPsTask, kHelperTask});
  const Scope helper = p.root.WithDevice("/job:helper"), ps = p.root.WithDevice("/job:ps");
  ops::Neg(helper.WithOpName("second"), ops::Neg(ps.WithOpName("first"), p.x));
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  Relay relay(&p.stage, WorkerOf(p.processes->Of(kHelperTask), kHelperTask));
  TaskCame(p.processes->Of(kPsTask), {kHelperTask, p.processes->incarnations.at(kHelperTask), relay.actor});
  p.stage.Play();
  p.Warm({"second"});
  relay.hold = true;
  p.Start({"second"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  BOOST_REQUIRE_EQUAL(relay.held.size(), 1u);
  relay.held.clear();
  p.processes->Went(kHelperTask, kPsTask);
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE", p.Message());
  relay.hold = false;
  p.processes->Introduce(kHelperTask, kPsTask);
  BOOST_TEST(p.Run("second") == 2.0f);
}

}  // namespace remains_test
}  // namespace troupe
