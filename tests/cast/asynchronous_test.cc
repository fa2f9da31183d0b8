// What a blocking Run takes, an asynchronous one takes too: deadline, cancellation, metadata, stall
// reports. On the stage's clock. And what is told of a step whose kernel does not return: the edges
// of signature.h and step_watch.h.
#include "tests/cast/play.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace asynchronous_test {

using namespace std::chrono_literals;

// An asynchronous kernel that calls back when the test says so.
TROUPE_OP("CastMute")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's")
    .Doc("Waits for the test.");
std::vector<std::function<void()>> mute;
class MuteKernel {
 public:
  explicit MuteKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    mute.emplace_back([&ctx, done] {
      ctx.set_output(0, ctx.TakeInput(0));
      done(absl::OkStatus());
    });
  }
};
TROUPE_KERNEL("CastMute").Device("CPU").Class<MuteKernel>();

struct Muted : Play {
  explicit Muted(SessionOptions options = {}) : Play(std::move(options)) {
    auto n = NodeBuilder(root.graph(), "mute", "CastMute").Input(NodeOut{x.node(), x.index()}).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    Extend();
    Warm(feeds, {"mute"});
  }
  ~Muted() { CallBack(); }
  void CallBack() {
    for (const auto& f : std::exchange(mute, {})) f();
    stage.Play();
  }
  std::shared_ptr<Signature> Compiled() {
    std::shared_ptr<Signature> s;
    stage.Inline([&] { s = SignatureOf(*session, {"x"}, {"mute"}); });
    return s;
  }
};

BOOST_AUTO_TEST_CASE(a_step_that_is_told_to_end_is_answered_after_its_grace_and_goes_on_in_the_background) {
  Muted p;
  const std::shared_ptr<Signature> signature = p.Compiled();
  CancellationToken token;
  p.Start({"mute"}, {.cancellation = &token});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running)");
  token.Cancel();
  BOOST_TEST(p.Go() == R"(
executor <- doorbell | running)");
  p.stage.Advance(49ms);
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(1ms);
  BOOST_TEST(p.State() == "CANCELLED");
  BOOST_TEST(p.Message().find("the step was cancelled by its caller; this has not returned, and goes on in the "
                              "background:\n  node 'mute' (CastMute) on /job:localhost") == 0u,
             p.Message());
  BOOST_TEST(p.Message().find("<-") == std::string::npos);
  BOOST_TEST(p.Go() == "");
  BOOST_TEST(!p.stage.clock()->IsSet());
  // Its set is not leased: a second step has executors of its own.
  const absl::Status first = *p.answer;
  p.Start({"mute"});
  BOOST_TEST(p.Go() == R"(
executor2 <- run_step | running)");
  BOOST_TEST(mute.size() == 2u);
  mute.at(0)();
  BOOST_TEST(p.Go() == R"(
executor <- doorbell | running)");  // its end is told to nobody
  mute.at(1)();
  BOOST_TEST(p.Go() == R"(
executor2 <- doorbell | OK)");
  mute.clear();
  // Both are free again.
  auto a = signature->Lease(), b = signature->Lease();
  BOOST_TEST(!a->running());
  BOOST_TEST(!b->running());
  signature->Release(std::move(a));
  signature->Release(std::move(b));
}

BOOST_AUTO_TEST_CASE(a_step_that_ends_within_its_grace_is_answered_by_its_end) {
  Muted p;
  p.Start({"mute"}, {.timeout_ms = 10});
  p.stage.Play();
  p.stage.Advance(10ms);
  BOOST_TEST(p.Go() == R"(
executor <- doorbell | running
executor <- doorbell | running)");
  p.stage.Advance(20ms);
  p.CallBack();
  BOOST_TEST(p.State() == "DEADLINE_EXCEEDED");
  BOOST_TEST(p.Message().find("has not returned") == std::string::npos, p.Message());
  p.stage.Advance(1s);
  BOOST_TEST(p.Go() == "");
}

BOOST_AUTO_TEST_CASE(reports_end_with_the_answer) {
  std::vector<std::string> reports;
  SessionOptions options;
  options.stall_report_ms = 40;
  options.on_stall = [&](const std::string& text) { reports.push_back(text); };
  Muted p(options);
  p.Start({"mute"}, {.timeout_ms = 100});
  p.stage.Play();
  for (int i = 0; i < 100; ++i) {
    p.stage.Advance(10ms);
    p.stage.Play();
    if (i == 20) BOOST_TEST(p.State() == "DEADLINE_EXCEEDED");
    if (i == 20) BOOST_TEST(reports.size() > 0u);
    if (i == 20) reports.clear();
  }
  BOOST_TEST(reports.empty());
  BOOST_TEST(!p.stage.clock()->IsSet());
  // The session says so as long as it lasts.
  std::vector<std::string> lines;
  p.stage.Inline([&] { lines = p.session->RunningSteps(); });
  BOOST_REQUIRE(!lines.empty());
  BOOST_TEST(lines[0].find("node 'mute' (CastMute)") != std::string::npos, lines[0]);
}

BOOST_AUTO_TEST_CASE(close_answers_every_step_of_the_session) {
  Muted p;
  p.Start({"mute"});
  p.stage.Play();
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Close()); });
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(50ms);
  BOOST_TEST(p.State() == "CANCELLED");
  BOOST_TEST(p.Message().find("the session was closed; this has not returned") == 0u, p.Message());
}

BOOST_AUTO_TEST_CASE(a_step_that_ends_in_time_is_forgotten_by_the_watch) {
  Play p;
  p.Extend();
  p.Warm(p.feeds, {"twice"});
  p.Start({"twice"}, {.timeout_ms = 50});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | OK)");
  BOOST_TEST(p.outputs.at(0).scalar<float>() == 4.0f);
  BOOST_TEST(p.stage.clock()->IsSet());
  p.stage.Advance(1s);
  BOOST_TEST(p.Go() == "");
  BOOST_TEST(!p.stage.clock()->IsSet());  // no timer is left
}

BOOST_AUTO_TEST_CASE(a_deadline_asks_every_part_and_ends_the_step) {
  Play p;
  p.Extend();
  p.Warm(p.feeds, {"never"});
  p.Start({"never"}, {.timeout_ms = 50});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running)");
  p.stage.Advance(49ms);
  BOOST_TEST(p.Go() == "");
  p.stage.Advance(1ms);
  BOOST_TEST(p.Go() == R"(
executor <- doorbell | DEADLINE_EXCEEDED
executor <- doorbell | DEADLINE_EXCEEDED)");
  BOOST_TEST(
      p.Message().find(
          "the step did not end within 50 ms; it waits for:\n  node 'never' (CastNever) on /job:localhost") == 0u,
      p.Message());
  p.stage.Advance(1s);  // the timer of the time of grace finds nothing
  BOOST_TEST(p.Go() == "");
  p.Start({"never"}, {.timeout_ms = -1});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running)");
}

BOOST_AUTO_TEST_CASE(the_sessions_default_deadline_holds_and_a_shorter_one_moves_the_timer) {
  Play p({.operation_timeout_ms = 1000});
  p.Extend();
  p.Warm(p.feeds, {"never"});
  std::string order;
  const auto start = [&](const char* name, int64_t ms) {
    p.session->RunAsync({.timeout_ms = ms}, p.feeds, {"never"}, {},
                        [&order, name](absl::Status, std::vector<Tensor>) { order += name; });
    p.stage.Play();
  };
  start("a", 0);
  start("b", 300);
  start("c", 500);
  p.stage.Advance(300ms);
  p.stage.Play();
  BOOST_TEST(order == "b");
  p.stage.Advance(200ms);
  p.stage.Play();
  BOOST_TEST(order == "bc");
  p.stage.Advance(499ms);
  p.stage.Play();
  BOOST_TEST(order == "bc");
  p.stage.Advance(1ms);
  p.stage.Play();
  BOOST_TEST(order == "bca");
}

BOOST_AUTO_TEST_CASE(a_token_ends_a_step_before_it_starts_while_it_runs_and_never_the_next_one) {
  Play p;
  p.Extend();
  p.Warm(p.feeds, {"never"});
  {
    CancellationToken token;
    p.Start({"never"}, {.cancellation = &token});
    p.stage.Play();
    BOOST_TEST(p.State() == "running");
    token.Cancel();
    BOOST_TEST(p.Go() == R"(
executor <- doorbell | CANCELLED)");
    BOOST_TEST(p.Message() == "the step was cancelled by its caller");
    p.Start({"never"}, {.cancellation = &token});  // cancelled already
    BOOST_TEST(p.Go() == R"(
executor <- run_step | CANCELLED)");
  }
  std::optional<CancellationToken> token(std::in_place);
  p.Start({"never"}, {.cancellation = &*token});
  token->Cancel();  // before the executor's turn, and the token is gone before the step's end
  token.reset();
  BOOST_TEST(p.Go() == R"(
executor <- run_step | CANCELLED
executor <- doorbell | CANCELLED)");
  p.Start({"never"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
}

BOOST_AUTO_TEST_CASE(metadata_has_the_nodes_and_the_parts) {
  Play p({}, 2);
  const Output there = ops::Neg(p.root.WithOpName("there").WithDevice("/device:CPU:1"), p.twice);
  p.Extend();
  proto::RunMetadata metadata;
  p.Start({"there"}, {.collect_stats = true, .partition_graphs = true}, &metadata);
  p.stage.Play();
  BOOST_TEST(p.State() == "OK");
  BOOST_TEST(p.outputs.at(0).scalar<float>() == -4.0f);
  BOOST_REQUIRE_EQUAL(metadata.partition_graphs_size(), 2);
  std::string nodes;
  for (const auto& d : metadata.step_stats().dev_stats()) {
    for (const auto& n : d.node_stats()) StrAppend(&nodes, n.node_name(), " ");
  }
  BOOST_TEST(nodes.find("twice ") != std::string::npos, nodes);
  BOOST_TEST(nodes.find("there ") != std::string::npos, nodes);
}

BOOST_AUTO_TEST_CASE(a_step_without_progress_is_reported_again_and_again) {
  std::vector<std::string> reports;
  SessionOptions options;
  options.stall_report_ms = 100;
  options.on_stall = [&](const std::string& text) { reports.push_back(text); };
  Play p(options);
  p.Extend();
  p.Warm(p.feeds, {"never"});
  p.Start({"never"});
  p.stage.Play();
  for (const size_t expected : {0, 0, 1, 1, 2}) {
    p.stage.Advance(50ms);
    p.stage.Play();
    BOOST_TEST(reports.size() == expected);
  }
  BOOST_REQUIRE(!reports.empty());
  BOOST_TEST(reports[0].find("(never) has made no progress for 100 ms; it waits for:\n  node 'never' (CastNever)") !=
                 std::string::npos,
             reports[0]);
  BOOST_TEST(p.State() == "running");
}

BOOST_AUTO_TEST_CASE(a_lent_step_sends_the_scheduler_nothing_and_keeps_its_deadline) {
  Play p({.lend_thread_us = 1'000'000'000});
  p.Extend();
  p.Warm(p.feeds, {"twice"});
  p.Start({"twice"});  // nobody knows yet how long it takes
  BOOST_TEST(p.Go() == R"(
executor <- run_step | OK)");
  p.Start({"twice"});
  BOOST_TEST(p.State() == "OK");
  BOOST_TEST(p.outputs.at(0).scalar<float>() == 4.0f);
  BOOST_TEST(p.Go() == "");
  p.Start({"twice"}, {.timeout_ms = 50});
  BOOST_TEST(p.State() == "OK");
  p.stage.Advance(1s);
  BOOST_TEST(p.Go() == "");
  // A step that `done` starts begins when that has returned.
  std::string order;
  p.session->RunAsync(p.feeds, {"twice"}, {}, [&](absl::Status, std::vector<Tensor>) {
    order += "a(";
    p.session->RunAsync(p.feeds, {"twice"}, {}, [&](absl::Status, std::vector<Tensor>) { order += "b"; });
    order += ")";
  });
  BOOST_TEST(order == "a()b");
  BOOST_TEST(p.Go() == "");
}

BOOST_AUTO_TEST_CASE(a_users_actors_message_has_the_same_options) {
  Play p;
  p.Extend();
  caf::scoped_actor user(p.stage.system());
  const auto ask = [&](run_request r) {
    user->send(ActorOf(*p.session), std::move(r));
    p.stage.Play();
  };
  std::optional<run_reply> reply;
  const auto take = [&] {
    reply.reset();
    user->receive([&](const run_reply& r) { reply = r; }, caf::after(0s) >> [] {});
  };
  ask({p.feeds, {"twice"}, {}, {.collect_stats = true, .partition_graphs = true}});
  take();
  BOOST_REQUIRE(reply);
  TROUPE_REQUIRE_OK(reply->status);
  BOOST_REQUIRE(reply->metadata != nullptr);
  BOOST_TEST(reply->metadata->partition_graphs_size() == 1);
  BOOST_TEST(reply->metadata->step_stats().dev_stats_size() == 1);

  ask({p.feeds, {"never"}, {}, {.timeout_ms = 20}});
  take();
  BOOST_TEST(!reply);
  p.stage.Advance(20ms);
  p.stage.Play();
  take();
  BOOST_REQUIRE(reply);
  BOOST_TEST(reply->status.code() == absl::StatusCode::kDeadlineExceeded, reply->status);
  BOOST_TEST(reply->metadata == nullptr);

  CancellationToken token;
  ask({p.feeds, {"never"}, {}, {.cancellation = &token}});
  token.Cancel();
  p.stage.Play();
  take();
  BOOST_REQUIRE(reply);
  BOOST_TEST(reply->status.code() == absl::StatusCode::kCancelled, reply->status);
}

}  // namespace asynchronous_test
}  // namespace troupe
