// A call is answered in time, whatever it waits for: a signature that is still being compiled, a
// kernel that does not return or forgets to call back.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <limits>
#include <thread>

#include "actors/watch/call_wait.h"
#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/troupe.h"

namespace troupe {
namespace deadlines_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What the kernels of this test wait for. They give up after a minute, so that a test that fails
// ends.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened = promise.get_future().share();
};
std::mutex gate_mu;
std::shared_ptr<Gate> gate = std::make_shared<Gate>();
void WaitAtGate() {
  std::shared_future<void> opened;
  {
    std::lock_guard<std::mutex> lock(gate_mu);
    opened = gate->opened;
  }
  opened.wait_for(60s);
}
void OpenGate() {
  std::lock_guard<std::mutex> lock(gate_mu);
  gate->promise.set_value();
  gate = std::make_shared<Gate>();
}

// An op whose kernels are not made before `may_make`; several may be wanted.
std::atomic<bool> may_make{false};
TROUPE_OP("DeadlineSlowMade").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
class SlowMade {
 public:
  explicit SlowMade(KernelInit&) {
    for (const auto until = Clock::now() + 60s; !may_make && Clock::now() < until;) std::this_thread::sleep_for(1ms);
  }
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("DeadlineSlowMade").Device("CPU").Class<SlowMade>();

// Keeps its thread until the gate is opened; then hands its input on.
TROUPE_OP("DeadlineBusy").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
std::atomic<int> busy{0};
absl::Status Busy(KernelContext& ctx) {
  ++busy;
  WaitAtGate();
  --busy;
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("DeadlineBusy").Device("CPU").Function<Busy>();

// Calls back when CallBack says so, whatever becomes of its step.
TROUPE_OP("DeadlineMute").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
std::mutex mute_mu;
std::vector<std::function<void()>> mute;
class Mute {
 public:
  explicit Mute(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    std::lock_guard<std::mutex> lock(mute_mu);
    mute.emplace_back([&ctx, done] {
      ctx.set_output(0, ctx.input(0));
      done(absl::OkStatus());
    });
  }
};
TROUPE_KERNEL("DeadlineMute").Device("CPU").Class<Mute>();
void CallBack() {
  std::vector<std::function<void()>> all;
  {
    std::lock_guard<std::mutex> lock(mute_mu);
    all.swap(mute);
  }
  for (const auto& f : all) f();
}

template <class F>
bool Soon(F f) {
  for (const auto until = Clock::now() + 30s; Clock::now() < until; std::this_thread::sleep_for(1ms)) {
    if (f()) return true;
  }
  return false;
}

Output TestOp(const Scope& root, const char* op, const Output& x) {
  auto n = NodeBuilder(root.graph(), op, op).Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

struct Fixture {
  Fixture()
      : x(ops::Placeholder(root.WithOpName("x"), DType::kFloat)), twice(ops::Add(root.WithOpName("twice"), x, x)) {}
  Scope root = Scope::NewRootScope();
  Output x, twice;
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
};

BOOST_AUTO_TEST_CASE(milliseconds_become_a_time_in_one_place_and_end_at_for_ever) {
  const SteadyTime now = Clock::now();
  BOOST_TEST((TimeAfter(now, 1500) - now == 1500ms));
  BOOST_TEST((TimeAfter(now, std::numeric_limits<int64_t>::max()) == SteadyTime::max()));
  BOOST_TEST((TimeAfter(now, int64_t{9'300'000'000'000}) == SteadyTime::max()));
  BOOST_TEST((TimeAfter(now, int64_t{1'000'000'000'000}) > now + 24h * 10000));
  BOOST_TEST((Deadline::In(0, now).at == SteadyTime::max()));
  BOOST_TEST((Deadline::In(-1, now).at == SteadyTime::max()));
}

BOOST_FIXTURE_TEST_CASE(a_deadline_for_ever_is_none, Fixture) {
  auto session = NewSession(root);
  for (const int64_t ms : {int64_t{9'300'000'000'000}, std::numeric_limits<int64_t>::max()}) {
    RunOptions options;
    options.timeout_ms = ms;
    for (int i = 0; i < 20; ++i) {
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(session->Run(options, feeds, {"twice"}, {}, &out, nullptr));
      std::promise<absl::Status> done;
      session->RunAsync(options, feeds, {"twice"}, {}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(s); });
      TROUPE_REQUIRE_OK(done.get_future().get());
    }
    const auto handle = session->PartialRunSetup(options, {"x"}, {"twice"}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->PartialRun(options, *handle, feeds, {"twice"}, &out));
  }
}

BOOST_FIXTURE_TEST_CASE(a_deadline_and_a_token_hold_while_the_signature_is_being_compiled, Fixture) {
  TestOp(root, "DeadlineSlowMade", x);
  may_make = false;
  auto session = NewSession(root);
  const auto begun = Clock::now();
  RunOptions options;
  options.timeout_ms = 30;
  std::vector<Tensor> out;
  absl::Status s = session->Run(options, feeds, {"DeadlineSlowMade"}, {}, &out, nullptr);
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  BOOST_TEST(s.message() == "the step's signature was not compiled within 30 ms");
  s = session->PartialRunSetup(options, {"x"}, {"DeadlineSlowMade"}, {}).status();
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  CancellationToken token;
  RunOptions cancelled;
  cancelled.cancellation = &token;
  std::thread canceller([&] {
    std::this_thread::sleep_for(30ms);
    token.Cancel();
  });
  s = session->Run(cancelled, feeds, {"DeadlineSlowMade"}, {}, &out, nullptr);
  canceller.join();
  BOOST_TEST(s.code() == absl::StatusCode::kCancelled, s);
  BOOST_TEST(session->Run(cancelled, feeds, {"DeadlineSlowMade"}, {}, &out, nullptr).code() ==
             absl::StatusCode::kCancelled);
  BOOST_TEST((Clock::now() - begun < 20s));
  may_make = true;
  TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(3.0f)}}, {"DeadlineSlowMade"}, {}, &out));
  BOOST_TEST(out.at(0).scalar<float>() == 3.0f);
}

BOOST_FIXTURE_TEST_CASE(an_asynchronous_call_is_answered_while_its_signature_is_being_compiled, Fixture) {
  TestOp(root, "DeadlineSlowMade", x);
  may_make = false;
  auto session = NewSession(root);
  std::atomic<int> answers{0};
  for (const bool by_token : {false, true}) {
    std::promise<absl::Status> done;
    CancellationToken token;
    RunOptions options;
    if (by_token) {
      options.cancellation = &token;
    } else {
      options.timeout_ms = 30;
    }
    session->RunAsync(options, feeds, {"DeadlineSlowMade"}, {}, [&](absl::Status s, std::vector<Tensor>) {
      ++answers;
      done.set_value(std::move(s));
    });
    if (by_token) token.Cancel();
    auto answer = done.get_future();
    BOOST_REQUIRE((answer.wait_for(30s) == std::future_status::ready));
    BOOST_TEST(
        (answer.get().code() == (by_token ? absl::StatusCode::kCancelled : absl::StatusCode::kDeadlineExceeded)));
  }
  may_make = true;
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run(feeds, {"DeadlineSlowMade"}, {}, &out));
  session = nullptr;
  BOOST_TEST(answers == 2);
}

// However a step is ended, and whatever its kernel does: each call is answered once and in time,
// what comes later is dropped, and the session stays usable.
BOOST_FIXTURE_TEST_CASE(a_call_is_answered_although_a_kernel_does_not_return, Fixture) {
  TestOp(root, "DeadlineBusy", x);
  TestOp(root, "DeadlineMute", x);
  for (const std::string op : {"DeadlineBusy", "DeadlineMute"}) {
    for (const int by : {0, 1, 2}) {
      const absl::StatusCode want = by == 0 ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled;
      for (const int how : {0, 1, 2}) {
        BOOST_TEST_CONTEXT(op << " ended by " << by << ", called by " << how) {
          std::atomic<int> reports{0};
          SessionOptions session_options;
          session_options.runtime_options.threads = 2;
          session_options.stall_report_ms = 20;
          session_options.on_stall = [&](const std::string&) { ++reports; };
          auto session = NewSession(root, session_options);
          std::vector<Tensor> out;
          TROUPE_REQUIRE_OK(session->Run(feeds, {"twice"}, {}, &out));
          CancellationToken token;
          RunOptions options;
          if (by == 0) options.timeout_ms = 300;  // compiling included
          if (by == 1) options.cancellation = &token;
          std::atomic<int> answers{0};
          std::promise<absl::Status> done;
          auto answer = done.get_future();
          const auto end = [&] {
            if (op == "DeadlineBusy") {
              BOOST_TEST(Soon([] { return busy > 0; }));
            } else {
              BOOST_TEST(Soon([] {
                std::lock_guard<std::mutex> lock(mute_mu);
                return !mute.empty();
              }));
            }
            if (by == 1) token.Cancel();
            if (by == 2) BOOST_TEST(session->Close().ok());
          };
          const auto begun = Clock::now();
          std::thread caller;
          if (how == 0) {
            caller = std::thread([&] {
              std::vector<Tensor> mine;
              ++answers;
              done.set_value(session->Run(options, feeds, {op}, {}, &mine, nullptr));
            });
          } else if (how == 1) {
            session->RunAsync(options, feeds, {op}, {}, [&](absl::Status s, std::vector<Tensor>) {
              if (++answers == 1) done.set_value(std::move(s));
            });
          } else {
            caller = std::thread([&] {
              std::vector<Tensor> mine;
              absl::Status s;
              const auto handle = session->PartialRunSetup(options, {"x"}, {op}, {});
              s = handle.status();
              if (s.ok()) s = session->PartialRun(*handle, feeds, {op}, &mine);
              ++answers;
              done.set_value(s);
            });
          }
          end();
          BOOST_REQUIRE((answer.wait_for(30s) == std::future_status::ready));
          BOOST_TEST((Clock::now() - begun < 20s));
          const absl::Status s = answer.get();
          BOOST_TEST(s.code() == want, s);
          if (how != 2 || by != 2) BOOST_TEST(std::string(s.message()).find("'" + op + "'") != std::string::npos, s);
          if (caller.joinable()) caller.join();
          // The watch has forgotten the step: its reports have an end.
          const int reported = reports;
          std::this_thread::sleep_for(60ms);
          BOOST_TEST(reports - reported <= 1);
          if (by != 2) {
            // The set of the step is not used meanwhile.
            TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(5.0f)}}, {"twice"}, {}, &out));
            BOOST_TEST(out.at(0).scalar<float>() == 10.0f);
          }
          OpenGate();
          CallBack();
          session = nullptr;
          BOOST_TEST(answers == 1);
          BOOST_TEST(Soon([] { return busy == 0; }));
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(while_every_thread_computes_control_answers, Fixture) {
  TestOp(root, "DeadlineBusy", x);
  ops::Neg(root.WithOpName("neg"), x);
  SessionOptions options;
  options.runtime = Runtime::Start({.threads = 2}).value();
  auto session = NewSession(root, options), other = NewSession(root, options);
  options.runtime = nullptr;
  std::atomic<int> over{0};
  const auto begun = Clock::now();
  for (int i = 0; i < 3; ++i)
    session->RunAsync(feeds, {"DeadlineBusy"}, {}, [&](absl::Status, std::vector<Tensor>) { ++over; });
  BOOST_REQUIRE(Soon([] { return busy == 2; }));
  // A compile, a step of the caller's own, a deadline of another session, and the end of the first
  // one.
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(other->Run(feeds, {"neg"}, {}, &out));
  BOOST_TEST(!session->RunningSteps().empty());
  std::promise<absl::Status> late;
  other->RunAsync({.timeout_ms = 20}, feeds, {"DeadlineBusy"}, {},
                  [&](absl::Status s, std::vector<Tensor>) { late.set_value(std::move(s)); });
  auto answer = late.get_future();
  BOOST_REQUIRE((answer.wait_for(30s) == std::future_status::ready));
  BOOST_TEST((answer.get().code() == absl::StatusCode::kDeadlineExceeded));
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST(Soon([&] { return over == 3; }));
  BOOST_TEST((Clock::now() - begun < 30s));
  OpenGate();
  BOOST_TEST(Soon([] { return busy == 0; }));
}

BOOST_FIXTURE_TEST_CASE(a_step_without_parts_is_answered_at_once, Fixture) {
  SessionOptions options;
  options.lend_thread_us = 0;
  options.stall_report_ms = 1;
  auto session = NewSession(root, options);
  for (int i = 0; i < 3; ++i) {
    std::promise<absl::Status> done;
    auto answer = done.get_future();
    CancellationToken token;
    session->RunAsync({.timeout_ms = 1000, .cancellation = &token}, {}, {}, {},
                      [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
    BOOST_REQUIRE((answer.wait_for(30s) == std::future_status::ready));
    TROUPE_REQUIRE_OK(answer.get());
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({}, {}, {}, &out));
    const auto handle = session->PartialRunSetup({.timeout_ms = 1000}, {}, {}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    TROUPE_REQUIRE_OK(session->PartialRun(*handle, {}, {}, &out));
  }
  TROUPE_REQUIRE_OK(session->Close());
}

// What a callback throws is its own affair: the set of executors that it was released from may be
// another step's by then.
BOOST_FIXTURE_TEST_CASE(a_callback_that_throws_hurts_nobody, Fixture) {
  for (const int64_t lend_us : {0, 20}) {
    SessionOptions options;
    options.lend_thread_us = lend_us;
    auto mine = NewSession(root, options);
    std::atomic<int> called{0};
    for (int i = 0; i < 100; ++i) {
      BOOST_REQUIRE_NO_THROW(mine->RunAsync(feeds, {"twice"}, {}, [&](absl::Status, std::vector<Tensor>) {
        ++called;
        throw std::runtime_error("a callback's");
      }));
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(mine->Run(feeds, {"twice"}, {}, &out));
    }
    BOOST_TEST(Soon([&] { return called == 100; }));
  }
}

}  // namespace deadlines_test
}  // namespace troupe
