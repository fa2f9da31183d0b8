// The executor actor: every numbered edge of executor/executor_actor.h, message by message.
#include "actors/executor/executor_actor.h"
#include <future>
#include <thread>

#include "actors/signature/signature.h"
#include "actors/step/blocking_step.h"
#include "tests/cast/play.h"

namespace troupe {
namespace executor_test {

using namespace std::chrono_literals;

// A kernel that waits for the test, which has its `go_on` as long as it likes.
std::promise<std::function<void()>> asked_to_go_on;
class TestWait : public KernelWait {
 public:
  void Await(std::function<void()> go_on) override { asked_to_go_on.set_value(std::move(go_on)); }
  std::string What() const override { return "the test"; }
};
TROUPE_OP("CastWaits")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it waits")
    .Doc("Waits for the test.");
absl::Status Waits(KernelContext& c) { return c.WaitFor(std::make_unique<TestWait>()); }
TROUPE_KERNEL("CastWaits").Device("CPU").Function<Waits>();

// x -> twice on the first device -> there on the second; and one there that waits for ever.
struct TwoParts : Play {
  explicit TwoParts(SessionOptions options = {}) : Play(options, 2) {
    const Scope second = root.WithDevice("/device:CPU:1");
    there = ops::Neg(second.WithOpName("there"), twice);
    auto n = NodeBuilder(second.graph(), "stuck", "CastNever")
                 .Input(NodeOut{twice.node(), 0})
                 .Device("/device:CPU:1")
                 .Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    Extend();
  }
  Output there;
};

// x -> twice, on one device and compiled.
struct OnePart : Play {
  explicit OnePart(SessionOptions options = {}) : Play(options) {
    Extend();
    Warm(feeds, {"twice"});
  }
};

BOOST_AUTO_TEST_CASE(edges_1_and_5_one_part_runs_in_one_turn) {
  OnePart p;
  for (int i = 0; i < 3; ++i) {
    p.Start({"twice"});
    BOOST_TEST(p.Go() == R"(
executor <- run_step | OK)");
  }
}

BOOST_AUTO_TEST_CASE(edge_2_a_tensor_rings_the_bell_of_its_receiver) {
  TwoParts p;
  p.Warm(p.feeds, {"there"});
  p.Start({"there"});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running
executor2 <- run_step | running
executor2 <- doorbell | OK)");
  BOOST_TEST(p.outputs.at(0).scalar<float>() == -4.0f);
}

BOOST_AUTO_TEST_CASE(edge_3_every_token_is_a_message_in_the_debugging_mode) {
  OnePart p({.token_messages = true});
  p.Start({"twice"});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running
executor <- token | running
executor <- token | running
executor <- token | OK)");  // x to both inputs of the sum, the sum to the result
}

BOOST_AUTO_TEST_CASE(edge_4_a_long_turn_gives_way_to_others) {
  Play p({.fuse = false});
  Output y = p.x;
  for (int i = 0; i < 30000; ++i) y = ops::Neg(p.root, y);
  p.Extend();
  p.Warm(p.feeds, {y.name()});
  p.Start({y.name()});
  const std::string log = p.Go();
  BOOST_TEST(log.find("\nexecutor <- run_step | running\nexecutor <- go_on | ") == 0u, log);
  BOOST_TEST(log.substr(log.rfind('\n')) == "\nexecutor <- go_on | OK", log);
  BOOST_TEST(p.outputs.at(0).scalar<float>() == 2.0f);
}

BOOST_AUTO_TEST_CASE(edge_2_an_abort_reaches_every_part_and_edge_6_late_ones_are_dropped) {
  TwoParts p;
  p.Warm(p.feeds, {"there", "stuck"});
  CancellationToken token;
  p.Start({"there", "stuck"}, {.cancellation = &token});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running
executor2 <- run_step | running
executor2 <- doorbell | running)");
  token.Cancel();
  BOOST_TEST(p.Go() == R"(
executor <- doorbell | running
executor2 <- doorbell | CANCELLED)");  // the first part's step was over: its abort is late
  token.Cancel();
  BOOST_TEST(p.Go() == "");
  p.Start({"there", "stuck"});  // the same set, and nothing of the step before
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running
executor2 <- run_step | running
executor2 <- doorbell | running)");
}

BOOST_AUTO_TEST_CASE(edge_7_a_free_executor_that_is_killed_is_replaced_at_the_next_lease) {
  OnePart p;
  p.Start({"twice"});
  p.stage.Play();
  p.stage.Kill(p.stage.Actor("executor"));
  BOOST_TEST(p.Go() == R"(
executor <- exit | OK)");
  p.Start({"twice"});
  BOOST_TEST(p.Go() == R"(
executor2 <- run_step | OK)");
}

BOOST_AUTO_TEST_CASE(edge_7_a_step_that_meets_a_dying_executor_fails) {
  OnePart p;
  p.Start({"twice"});
  p.stage.Play();
  p.stage.Kill(p.stage.Actor("executor"));
  p.Start({"twice"});  // leased before the exit is delivered
  BOOST_TEST(p.Go() == R"(
executor <- exit | ABORTED)");
  BOOST_TEST(p.Message().find("an executor actor was killed") == 0u, p.Message());
  p.Start({"twice"});
  BOOST_TEST(p.Go() == R"(
executor2 <- run_step | OK)");
}

BOOST_AUTO_TEST_CASE(edges_8_and_9_an_executor_killed_in_mid_step_fails_the_step_and_ends_the_other_part) {
  TwoParts p;
  p.Warm(p.feeds, {"there", "stuck"});
  p.Start({"there", "stuck"});
  // Killed between its run_step and the tensor.
  BOOST_TEST(p.stage.Deliver() == "executor <- run_step");
  BOOST_TEST(p.stage.Deliver() == "executor2 <- run_step");
  BOOST_TEST(p.stage.Queue() == "executor2 <- doorbell");
  p.stage.Kill(p.stage.Actor("executor2"));
  BOOST_TEST(p.Go() == R"(
executor2 <- doorbell | running
executor2 <- exit | ABORTED
executor <- doorbell | ABORTED
executor <- exit | ABORTED)");  // the other part hears of it, and the set is thrown away
  // The sender is killed before it has sent: the receiver is told, and does not wait for ever.
  p.Warm(p.feeds, {"there"});
  p.Start({"there"});
  BOOST_TEST(p.Go() == R"(
executor3 <- run_step | running
executor4 <- run_step | running
executor4 <- doorbell | OK)");
  p.stage.Kill(p.stage.Actor("executor3"));
  p.Start({"there"});
  BOOST_TEST(p.Go() == R"(
executor3 <- exit | running
executor4 <- run_step | ABORTED
executor4 <- doorbell | ABORTED
executor4 <- exit | ABORTED)");
  // What is sent to a dead executor is dropped.
  caf::anon_send(p.stage.Actor("executor2"), doorbell{});
  BOOST_TEST(p.Go() == "");
}

BOOST_AUTO_TEST_CASE(edge_10_who_goes_on_when_the_group_is_gone_rings_no_bell) {
  Play p;
  auto n = NodeBuilder(p.root.graph(), "waits", "CastWaits").Input(NodeOut{p.x.node(), p.x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  p.Extend();
  std::shared_ptr<Signature> compiled;
  p.stage.Inline([&] { compiled = SignatureOf(*p.session, {"x"}, {"waits"}); });
  BOOST_REQUIRE(compiled != nullptr);
  // One that the session does not know, so that the test may end its set.
  const auto signature = std::make_shared<Signature>();
  signature->feeds = compiled->feeds;
  signature->fetches = compiled->fetches;
  signature->parts = compiled->parts;
  signature->system = &p.stage.system();
  signature->closed = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<ExecutorSet> set = signature->Lease();
  const std::shared_ptr<Executor> executor = set->executors().at(0);
  CancellationToken token;
  std::function<void()> go_on;
  asked_to_go_on = {};
  std::thread other([&] {
    go_on = asked_to_go_on.get_future().get();
    token.Cancel();
  });
  const std::vector<Tensor> x = {Tensor::Scalar(2.0f)};
  RunOptions options;
  options.cancellation = &token;
  const absl::Status ended = BlockingStep(set.get()).Run(options, {}, absl::Span<const Tensor>(x), nullptr, nullptr);
  other.join();
  BOOST_TEST(absl::IsCancelled(ended), ended);
  // The actor lives until its exit is delivered; its group is gone before.
  set.reset();
  BOOST_TEST(executor->dead());
  BOOST_TEST(p.stage.Queue() == "executor <- exit");
  go_on();
  BOOST_TEST(p.stage.Play() == "\nexecutor <- exit");
}

}  // namespace executor_test
}  // namespace troupe
