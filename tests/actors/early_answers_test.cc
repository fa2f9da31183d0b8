// Calls that are answered before their steps have ended: what these still do is nobody else's
// loss, neither a deadline's, which the clock's thread keeps, nor a thread's.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "actors/watch/step_clock.h"
#include "actors/watch/step_watch.h"
#include "tests/actors/graphs.h"
#include "troupe/kernel.h"

namespace troupe {
namespace early_answers_test {

BOOST_AUTO_TEST_SUITE(early_answers)

using namespace std::chrono_literals;

// Keeps its thread until the gate is opened, a minute at most.
std::promise<void>* gate = nullptr;
std::shared_future<void> opened;
TROUPE_OP("ClockThreadWaits").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
absl::Status Waits(KernelContext& ctx) {
  opened.wait_for(60s);
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("ClockThreadWaits").Device("CPU").Function<Waits>();

// The same in each range of a loop, one for each thread and more.
TROUPE_OP("ClockThreadLoops").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
absl::Status Loops(KernelContext& ctx) {
  ctx.threads()->ParallelRanges(8, 8, [](int64_t, int64_t) { opened.wait_for(60s); });
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("ClockThreadLoops").Device("CPU").Function<Loops>();

// Answers from a thread of its own after so many milliseconds.
TROUPE_OP("ClockThreadAsync").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
std::atomic<int> async_ms{0}, async_begun{0};  // how many take their time
class Async {
 public:
  explicit Async(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.set_output(0, ctx.TakeInput(0));
    if (async_ms == 0) return done(absl::OkStatus());
    ++async_begun;
    std::thread([done = std::move(done), ms = async_ms.load()]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      done(absl::OkStatus());
    }).detach();
  }
};
TROUPE_KERNEL("ClockThreadAsync").Device("CPU").Class<Async>();

// Opens the gate at its end, before the session that it was made after ends.
struct Gate {
  Gate() {
    gate = &promise;
    opened = promise.get_future().share();
  }
  ~Gate() { promise.set_value(); }
  std::promise<void> promise;
};

BOOST_AUTO_TEST_CASE(a_step_that_an_early_answer_starts_is_not_run_on_the_clocks_thread) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output waits = EmitOp(root, "ClockThreadWaits", {x}).output(0), cheap = x + 1.0f;
  SessionOptions options;
  options.runtime_options.threads = 3;
  options.lend_thread_us = 1000000;  // whoever starts a step may lend itself
  const auto session = NewSession(root, options);
  const Gate here;
  const Tensor one = Tensor::Scalar(1.0f);
  std::vector<Tensor> out;
  for (int i = 0; i < 100; ++i) {
    std::promise<void> done;
    session->RunAsync({{x, one}}, {cheap}, {}, [&](absl::Status, std::vector<Tensor>) { done.set_value(); });
    done.get_future().wait();
  }
  std::promise<std::pair<std::thread::id, std::thread::id>> threads;
  session->RunAsync({.timeout_ms = 50}, {{x, one}}, {waits}, {}, [&](absl::Status s, std::vector<Tensor>) {
    BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded);
    const std::thread::id clock = std::this_thread::get_id();
    session->RunAsync({{x, one}}, {cheap}, {}, [&threads, clock](absl::Status, std::vector<Tensor>) {
      threads.set_value({clock, std::this_thread::get_id()});
    });
  });
  const auto [clock, second] = threads.get_future().get();
  BOOST_TEST((clock != second));
}

BOOST_AUTO_TEST_CASE(a_call_whose_token_was_cancelled_before_is_answered_though_no_thread_is_free) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output waits = EmitOp(root, "ClockThreadWaits", {x}).output(0);
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.lend_thread_us = 0;
  const auto session = NewSession(root, options);
  const Callable step = *session->Prepare({x}, {waits}, {});
  const Tensor one = Tensor::Scalar(1.0f);
  std::vector<std::promise<void>> ended(4);
  auto answer = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> answered = answer->get_future();
  {
    const Gate here;
    for (std::promise<void>& e : ended)
      step.RunAsync({one}, [&e](absl::Status, std::vector<Tensor>) { e.set_value(); });
    CancellationToken token;
    token.Cancel();
    step.RunAsync({.cancellation = &token}, {one},
                  [answer](absl::Status s, std::vector<Tensor>) { answer->set_value(std::move(s)); });
    BOOST_TEST((answered.wait_for(20s) == std::future_status::ready));
  }
  BOOST_TEST(answered.get().code() == absl::StatusCode::kCancelled);
  for (std::promise<void>& e : ended) e.get_future().wait();
}

// The threads that take the place of those that are lost must not follow them into their loops.
BOOST_AUTO_TEST_CASE(loops_of_answered_steps_take_no_more_threads) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output loops[] = {EmitOp(root, "ClockThreadLoops", {x}).output(0),
                          EmitOp(root, "ClockThreadLoops", {x}).output(0)};
  const Output next = x + 1.0f;
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.lend_thread_us = 0;
  const auto session = NewSession(root, options);
  const Tensor one = Tensor::Scalar(1.0f);
  auto answer = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> answered = answer->get_future();
  {
    const Gate here;
    std::vector<std::promise<absl::Status>> late(2);
    for (int i = 0; i < 2; ++i) {
      session->RunAsync({.timeout_ms = 100}, {{x, one}}, {loops[i]}, {},
                        [&late, i](absl::Status s, std::vector<Tensor>) { late[i].set_value(std::move(s)); });
    }
    for (auto& l : late) BOOST_TEST(l.get_future().get().code() == absl::StatusCode::kDeadlineExceeded);
    session->RunAsync({{x, one}}, {next}, {},
                      [answer](absl::Status s, std::vector<Tensor>) { answer->set_value(std::move(s)); });
    BOOST_TEST((answered.wait_for(20s) == std::future_status::ready));
  }
  BOOST_TEST(answered.get().ok());
}

// The caller may hold what `on_stall` takes.
BOOST_AUTO_TEST_CASE(a_stall_is_not_reported_on_the_callers_thread) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = EmitOp(root, "ClockThreadAsync", {x}).output(0);
  std::mutex mu;
  int here = 0, elsewhere = 0;
  const std::thread::id caller = std::this_thread::get_id();
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.stall_report_ms = 50;
  options.on_stall = [&](const std::string&) {
    std::lock_guard<std::mutex> lock(mu);
    ++(std::this_thread::get_id() == caller ? here : elsewhere);
  };
  const auto session = NewSession(root, options);
  std::vector<Tensor> out;
  async_ms = 0;  // it is found to be quick, and is given the caller's thread from then on
  for (int i = 0; i < 3; ++i) TROUPE_REQUIRE_OK(session->Run({{x, Tensor::Scalar(1.0f)}}, {y}, {}, &out));
  async_ms = 500;
  TROUPE_REQUIRE_OK(session->Run({{x, Tensor::Scalar(1.0f)}}, {y}, {}, &out));
  std::lock_guard<std::mutex> lock(mu);
  BOOST_TEST(here == 0);
  BOOST_TEST(elsewhere > 0);
}

// A blocking Run whose kernels were quick begins on its own thread. It does not stay there to wait
// for a kernel that has another thread, or none.
BOOST_AUTO_TEST_CASE(close_is_heard_by_a_run_whose_kernel_is_elsewhere) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = EmitOp(root, "ClockThreadAsync", {x}).output(0);
  SessionOptions options;
  options.runtime_options.threads = 2;
  const auto session = NewSession(root, options);
  const auto run = [&] {
    std::vector<Tensor> out;
    return session->Run({{x, Tensor::Scalar(1.0f)}}, {y}, {}, &out);
  };
  async_ms = 0;
  for (int i = 0; i < 20; ++i) TROUPE_REQUIRE_OK(run());
  async_ms = 20000;
  const int begun = async_begun;
  std::future<absl::Status> late = std::async(std::launch::async, run);
  for (int i = 0; i < 10000 && async_begun == begun; ++i) std::this_thread::sleep_for(1ms);
  BOOST_REQUIRE(async_begun == begun + 1);
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_REQUIRE((late.wait_for(10s) == std::future_status::ready));
  const absl::Status s = late.get();
  BOOST_TEST(s.code() == absl::StatusCode::kCancelled, s);
  BOOST_TEST(std::string(s.message()).find("this has not returned") != std::string::npos, s);
  async_ms = 0;
}

// The cost of a step may lie in a fed value, of which nothing is known before. The deadline is seen
// between two kernels.
BOOST_AUTO_TEST_CASE(a_deadline_is_seen_after_the_kernel_that_runs) {
  const Scope root = Scope::NewRootScope();
  const Output n = ops::Placeholder(root, DType::kInt32);
  const Output shape = ops::Pack(root, {n, n});
  Output y = ops::Fill(root, shape, ops::Const(root, 1e-3f));
  const Output m = y;
  for (int i = 0; i < 30; ++i) y = ops::MatMul(root, y, m);
  SessionOptions options;
  options.runtime_options.threads = 2;
  const auto session = NewSession(root, options);
  const auto run = [&](int32_t size, int64_t timeout_ms) {
    std::vector<Tensor> out;
    return session->Run({.timeout_ms = timeout_ms}, {{n, Tensor::Scalar(size)}}, {y}, {}, &out, nullptr);
  };
  // Long enough that a step which is asked for 100 ms what it waits for does not end meanwhile.
  int32_t size = 500;
  std::chrono::steady_clock::duration whole{};
  while (whole < 800ms) {
    size += size / 3;
    const auto begun = std::chrono::steady_clock::now();
    TROUPE_REQUIRE_OK(run(size, 0));
    whole = std::chrono::steady_clock::now() - begun;
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) TROUPE_REQUIRE_OK(run(2, 60000));  // it is found to be quick
    const auto start = std::chrono::steady_clock::now();
    const absl::Status s = run(size, 1);
    BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
    BOOST_TEST(((std::chrono::steady_clock::now() - start) < whole / 2 + 150ms));
  }
}

BOOST_AUTO_TEST_CASE(a_watch_that_has_gone_leaves_no_alarm) {
  const auto clock = std::make_shared<ThreadClock>();
  for (int i = 0; i < 100; ++i) {
    const auto watch = std::make_shared<StepWatch>(clock, [](const std::string&) {});
    clock->Wake(watch, clock->Now() + 1h);
    BOOST_TEST(clock->alarms() == 1u);
  }
  BOOST_TEST(clock->alarms() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace early_answers_test
}  // namespace troupe
