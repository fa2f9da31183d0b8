// Steps in the lane of the thread that asks for them, blocking and lent: the edges of signature.h
// and lend.cc that the scheduler has no part in. Nothing is delivered here unless the stage is told
// to.
#include <thread>

#include "actors/threads/lane.h"
#include "tests/cast/play.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace lane_test {

using namespace std::chrono_literals;

constexpr int64_t kAlways = 1'000'000'000;  // any step is short

// What the kernel of CastCalls does.
std::function<void()> to_do;

TROUPE_OP("CastCalls")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's")
    .Doc("Does what the test says, and hands its input on.");
absl::Status Call(KernelContext& ctx) {
  if (to_do) to_do();
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("CastCalls").Device("CPU").Function<Call>();

// Hands its input on when the test says so; it vouches for itself, so that threads are lent to it.
TROUPE_OP("CastLentGate")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's")
    .Doc("Waits for the test, when its input is negative.");
std::vector<DoneFn> gates;
class LentGate {
 public:
  explicit LentGate(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    const bool waits = *ctx.input(0).data<float>() < 0;
    ctx.set_output(0, ctx.TakeInput(0));
    if (!waits) return done(absl::OkStatus());
    gates.push_back(std::move(done));
  }
};
const KernelRegistrar lent_gate = KernelBuilder("CastLentGate", KernelOrigin::kLibrary).Device("CPU").Class<LentGate>();

struct Laned : Play {
  explicit Laned(SessionOptions options = {}) : Play(std::move(options)) {
    calls = Built("CastCalls", "calls");
    gate = Built("CastLentGate", "gate");
    Extend();
  }
  ~Laned() {
    to_do = nullptr;
    for (const DoneFn& done : std::exchange(gates, {})) done(absl::OkStatus());
    stage.Play();
  }
  Output Built(const char* op, const char* name) {
    auto n = NodeBuilder(root.graph(), name, op).Input(NodeOut{x.node(), x.index()}).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    return Output({*n, 0}, x.scope_state());
  }
  // Runs a step of the signature under the scheduler, so that it is known to be short.
  void First(const char* fetch) {
    Warm(feeds, {fetch});
    Start({fetch});
    stage.Play();
    BOOST_TEST(State() == "OK");
  }
  absl::Status Blocking(const char* fetch) { return session->Run(feeds, {fetch}, {}, &outputs); }
  Output calls, gate;
};

BOOST_AUTO_TEST_CASE(edges_1_and_5_a_blocking_run_has_its_step_in_its_lane) {
  Laned p;
  p.Warm(p.feeds, {"twice"});
  for (int i = 0; i < 3; ++i) {
    TROUPE_REQUIRE_OK(p.Blocking("twice"));
    BOOST_TEST(p.outputs.at(0).scalar<float>() == 4.0f);
    BOOST_TEST(p.stage.Queue() == "");  // the scheduler has heard of nothing
  }
}

BOOST_AUTO_TEST_CASE(edge_3_a_step_in_its_lane_that_is_told_to_end_keeps_the_error) {
  Laned p;
  p.First("calls");
  const std::string device = "device:" + p.runtime->devices()[0].name;
  to_do = [&] {
    // In the middle of the step its device's actor dies, and the session hears of it.
    p.stage.Kill(p.Find(device));
    p.stage.Play();
  };
  const absl::Status s = p.Blocking("calls");
  BOOST_TEST(s.code() == absl::StatusCode::kAborted, s);
  BOOST_TEST(std::string(s.message()).find(StrCat("actor '", device, "' died while the step ran")) == 0u, s);
  to_do = nullptr;
  p.stage.Advance(10ms);
  p.stage.Play();
  // The next one is not touched. On a busy machine the step before took long, and this one is the
  // scheduler's.
  absl::Status next;
  p.stage.Inline([&] { next = p.Blocking("calls"); });
  TROUPE_REQUIRE_OK(next);
}

BOOST_AUTO_TEST_CASE(edge_2_no_thread_is_lent_to_kernels_of_the_users) {
  Laned p({.lend_thread_us = kAlways});
  p.First("calls");
  p.Start({"calls"});
  BOOST_TEST(p.State() == "running");
  BOOST_TEST(p.Go() == R"(
executor <- run_step | OK)");
}

BOOST_AUTO_TEST_CASE(edge_2_no_thread_is_lent_inside_of_an_executors_turn) {
  Laned p({.lend_thread_us = kAlways});
  p.First("twice");
  p.First("calls");
  std::string inner = "not asked";
  to_do = [&] {
    to_do = nullptr;
    inner = "running";
    p.session->RunAsync(p.feeds, {"twice"}, {},
                        [&](absl::Status s, std::vector<Tensor>) { inner = s.ok() ? "OK" : s.ToString(); });
    BOOST_TEST(inner == "running");
  };
  p.Start({"calls"});
  BOOST_TEST(p.Go() == R"(
executor2 <- run_step | OK
executor <- run_step | OK)");
  BOOST_TEST(inner == "OK");
}

BOOST_AUTO_TEST_CASE(edges_4_and_7_a_lent_step_is_over_when_run_async_comes_back) {
  Laned p({.lend_thread_us = kAlways});
  p.First("twice");
  for (int i = 0; i < 3; ++i) {
    p.Start({"twice"});
    BOOST_TEST(p.State() == "OK");
    BOOST_TEST(p.stage.Queue() == "");
  }
}

BOOST_AUTO_TEST_CASE(edge_8_a_lent_step_that_must_wait_goes_on_under_the_scheduler) {
  Laned p({.lend_thread_us = kAlways});
  p.First("gate");
  p.feeds = {{"x", Tensor::Scalar(-1.0f)}};
  p.Start({"gate"});
  BOOST_TEST(p.State() == "running");  // RunAsync came back
  BOOST_TEST(p.stage.Queue() == "");
  BOOST_REQUIRE_EQUAL(gates.size(), 1u);
  std::exchange(gates, {}).front()(absl::OkStatus());
  BOOST_TEST(p.Go() == R"(
executor <- doorbell | OK)");
}

// Counts its turns.
struct Turns : public caf::resumable {
  resume_result resume(caf::execution_unit*, size_t) override {
    ++turns;
    return again ? resume_later : awaiting_message;
  }
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override {}
  bool again = false;
  int turns = 0;
};

BOOST_AUTO_TEST_CASE(who_is_woken_by_another_thread_does_not_wait_for_a_long_loop) {
  Stage stage;
  Turns loop, woken;
  loop.again = true;
  Lane lane(&stage.system());
  lane.Own({&loop, &woken});
  lane.Attach();
  lane.exec_later(&loop);
  BOOST_TEST(lane.DrainSome());
  for (int i = 1; i <= 3; ++i) {
    std::thread([&] { lane.remote()->exec_later(&woken); }).join();
    BOOST_TEST(lane.Stirred());
    BOOST_TEST(lane.DrainSome());
    BOOST_TEST(woken.turns == i);
    BOOST_TEST(loop.turns == i + 1);
  }
  loop.again = false;
  BOOST_TEST(!lane.DrainSome());
  std::thread([&] { lane.remote()->exec_later(&woken); }).join();
  lane.Wait();
  BOOST_TEST(!lane.DrainSome());
  BOOST_TEST(woken.turns == 4);
  BOOST_TEST(loop.turns == 5);
  lane.Detach();
}

BOOST_AUTO_TEST_CASE(edges_9_and_10_a_lent_step_that_does_not_end_is_answered_by_the_clock_and_once) {
  Laned p({.lend_thread_us = kAlways});
  p.First("gate");
  p.feeds = {{"x", Tensor::Scalar(-1.0f)}};
  p.Start({"gate"}, {.timeout_ms = 20});
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(20ms);
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(50ms);
  BOOST_TEST(p.State() == "DEADLINE_EXCEEDED");
  BOOST_TEST(p.Message().find("this has not returned") != std::string::npos, p.Message());
  for (const DoneFn& done : std::exchange(gates, {})) done(absl::OkStatus());
  p.stage.Play();
  p.stage.Advance(1s);
  BOOST_TEST(p.State() == "DEADLINE_EXCEEDED");
  BOOST_TEST(!p.stage.clock()->IsSet());
}

}  // namespace lane_test
}  // namespace troupe
