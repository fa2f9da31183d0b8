// Queue runners and time, on the stage's clock. A runner has no deadline. One whose close is cut
// off does it again after a pause, which is the clock's: no thread sleeps meanwhile.
#include <optional>

#include "actors/state/state_actors.h"
#include "actors/train/coordinator_impl.h"
#include "tests/cast/stage.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/queues.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/queue_runner.h"

namespace troupe {
namespace runner_time_test {

using namespace std::chrono_literals;

int runs = 0;
TROUPE_OP("QueueCutOffTwice").Stateful().NotDifferentiable("a test's").Doc("Fails as a step that a death cuts off.");
absl::Status CutOffTwice(KernelContext&) { return ++runs <= 2 ? absl::AbortedError("died") : absl::OkStatus(); }
TROUPE_KERNEL("QueueCutOffTwice").Device("CPU").Function<CutOffTwice>();

BOOST_AUTO_TEST_CASE(a_runner_has_no_deadline_and_its_pauses_are_the_clocks) {
  Stage stage;
  const Scope root = Scope::NewRootScope();
  const auto close = NodeBuilder(root.graph(), "close", "QueueCutOffTwice").Build();
  BOOST_REQUIRE_MESSAGE(close.ok(), close.status());
  const Queue numbers = Queue::Fifo(root.WithOpName("numbers"), {DType::kInt32}, {.shapes = {TensorShape()}});
  const Operation take(numbers.Dequeue(root)[0]), end = numbers.Close(root);
  std::unique_ptr<Session> session;
  stage.Inline([&] {
    SessionOptions options{.operation_timeout_ms = 500, .lend_thread_us = 0};
    options.runtime = StartRuntimeIn(stage.system(), {.threads = 1}, stage.clock(), {}).value();
    session = Session::Create(options).value();
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    BOOST_REQUIRE(session->Prepare({}, {}, {end}).ok());
  });
  QueueRunner runner;
  runner.queue = "out";
  runner.enqueue_ops = {take.name()};
  runner.close_op = "close";
  runner.queue_closed = {absl::StatusCode::kOutOfRange};
  std::optional<train::Coordinator> coordinator;
  stage.Inline([&] {
    coordinator.emplace(*session);
    TROUPE_REQUIRE_OK(train::StartQueueRunners(*session, *coordinator, std::vector<QueueRunner>{runner}));
  });
  // The session's default deadline is for the program's steps: a runner may wait for long.
  BOOST_TEST(!stage.clock()->IsSet());
  stage.Inline([&] { stage.Advance(1h); });
  BOOST_TEST(!coordinator->ShouldStop());
  runs = 0;
  RunOptions without_deadline;
  without_deadline.timeout_ms = -1;
  stage.Inline([&] {
    session->RunAsync(without_deadline, {}, {}, {end},
                      [](const absl::Status& s, const std::vector<Tensor>&) { BOOST_TEST(s.ok()); });
  });
  const auto after = [&](std::chrono::milliseconds time) {
    stage.Inline([&] { stage.Advance(time); });
    return runs;
  };
  BOOST_TEST(runs == 1);
  BOOST_TEST(stage.clock()->IsSet());
  BOOST_TEST(after(9ms) == 1);
  BOOST_TEST(after(1ms) == 2);
  BOOST_TEST(after(19ms) == 2);
  BOOST_TEST(after(1ms) == 3);
  BOOST_TEST(!stage.clock()->IsSet());
  stage.Inline([&] { TROUPE_REQUIRE_OK(coordinator->Join()); });
  stage.Inline([&] {
    coordinator.reset();
    session = nullptr;
  });
}

train::Coordinator* asked = nullptr;
int cancels = 0, cancels_without_a_cause = 0;
TROUPE_OP("QueueDies").Stateful().NotDifferentiable("a test's").Doc("Fails as a step that a death cuts off.");
absl::Status Dies(KernelContext&) { return absl::AbortedError("died"); }
TROUPE_KERNEL("QueueDies").Device("CPU").Function<Dies>();
TROUPE_OP("QueueCancels").Stateful().NotDifferentiable("a test's").Doc("Looks whether the coordinator has stopped.");
absl::Status Cancels(KernelContext&) {
  ++cancels;
  cancels_without_a_cause += !asked->ShouldStop();
  return absl::OkStatus();
}
TROUPE_KERNEL("QueueCancels").Device("CPU").Function<Cancels>();

// A step that finds the queue cancelled, and no error at the coordinator, would take that for the
// end of the input.
BOOST_AUTO_TEST_CASE(a_runner_cancels_its_queue_when_the_coordinator_knows_why) {
  Stage stage;
  const Scope root = Scope::NewRootScope();
  BOOST_REQUIRE(NodeBuilder(root.graph(), "put", "QueueDies").Build().ok());
  BOOST_REQUIRE(NodeBuilder(root.graph(), "cancel", "QueueCancels").Build().ok());
  std::unique_ptr<Session> session;
  std::optional<train::Coordinator> coordinator;
  stage.Inline([&] {
    SessionOptions options{.lend_thread_us = 0};
    options.runtime = StartRuntimeIn(stage.system(), {.threads = 1}, stage.clock(), {}).value();
    session = Session::Create(options).value();
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    coordinator.emplace(*session);
  });
  asked = &*coordinator;
  stage.Inline([&] { stage.Kill(StateActorOf(*coordinator->impl()->mailbox)); });
  QueueRunner runner;
  runner.queue = "q";
  runner.enqueue_ops = {"put"};
  runner.cancel_op = "cancel";
  runner.queue_closed = {absl::StatusCode::kOutOfRange};
  stage.Inline(
      [&] { TROUPE_REQUIRE_OK(train::StartQueueRunners(*session, *coordinator, std::vector<QueueRunner>{runner})); });
  BOOST_TEST(!coordinator->ShouldStop());
  BOOST_TEST(cancels == 0);
  // The coordinator's next actor.
  for (int i = 0; i < 10; ++i) stage.Inline([&] { stage.Advance(10ms); });
  BOOST_TEST(coordinator->ShouldStop());
  BOOST_TEST(cancels == 1);
  BOOST_TEST(cancels_without_a_cause == 0);
  stage.Inline([&] { BOOST_TEST(absl::IsAborted(coordinator->Join())); });
  stage.Inline([&] {
    coordinator.reset();
    session = nullptr;
  });
}

}  // namespace runner_time_test
}  // namespace troupe
