// Queue runners and time, on the stage's clock. A runner has no deadline. One whose close is cut
// off does it again after a pause, which is the clock's: no thread sleeps meanwhile.
#include <optional>

#include "tests/cast/stage.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/queues.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/queue_runner.h"

namespace troupe {
namespace {

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

}  // namespace
}  // namespace troupe
