// Whole sessions from many threads: signatures made and found, cancellation, the end while steps
// run. It sends messages, so ThreadSanitizer does not see it.
#include "tests/race/threads.h"

#if !TROUPE_TEST_TSAN
#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"

namespace troupe::race {
namespace session_test {

// A loop that only cancellation ends.
Output Endless(const Scope& root) {
  const auto loop = While(
      root, {ops::Const(root, 0.0f)}, [](const Scope& s, const std::vector<Output>&) { return ops::Const(s, true); },
      [](const Scope& s, const std::vector<Output>& v) { return std::vector<Output>{ops::Identity(s, v[0])}; });
  return loop[0];
}

BOOST_AUTO_TEST_CASE(threads_make_and_find_signatures) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  std::vector<Output> values;
  for (int i = 0; i < 40; ++i) values.push_back(ops::Add(root, x, ops::Const(root, static_cast<float>(i))));
  auto session = NewSession(root);
  Wrong wrong;
  RunThreads(4, [&](int t) {
    for (int i = 0; i < 200; ++i) {
      const int k = (i / 5 + t) % 40;
      std::vector<Tensor> out;
      const absl::Status s = session->Run({{x.name(), Tensor::Scalar(1.0f)}}, {values[k].name()}, {}, &out);
      wrong.Unless(s.ok() && out[0].scalar<float>() == 1.0f + static_cast<float>(k));
    }
  });
  BOOST_TEST(wrong.count() == 0);
}

BOOST_AUTO_TEST_CASE(no_cancellation_is_lost) {
  Scope root = Scope::NewRootScope();
  const Output endless = Endless(root);
  auto session = NewSession(root);
  auto step = session->Prepare({}, {endless.name()}, {});
  BOOST_REQUIRE_MESSAGE(step.ok(), step.status());
  int cancelled = 0;
  for (int i = 0; i < 150; ++i) {
    CancellationToken token;
    RunOptions options;
    options.cancellation = &token;
    options.timeout_ms = 20000;
    std::atomic<bool> go{false};
    std::thread canceller([&] {
      while (!go.load(std::memory_order_relaxed)) {
      }
      for (int spin = 0; spin < i * 50; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
      token.Cancel();
    });
    go = true;
    std::vector<Tensor> out;
    cancelled += step->Run(options, {}, &out).code() == absl::StatusCode::kCancelled;
    canceller.join();
  }
  BOOST_TEST(cancelled == 150);
}

// Threads lend themselves to their steps, some of which go on elsewhere because a kernel waits,
// while the sets change hands: each step is answered once, with its own value.
BOOST_AUTO_TEST_CASE(lent_steps_of_many_threads_are_answered_once) {
  constexpr int kThreads = 4, kSteps = 400;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output there = ops::Add(root.WithDevice("/device:CPU:1"), x, x), sum = ops::Add(root, there, x);
  for (const int64_t lend_us : {int64_t{0}, int64_t{20}, int64_t{1'000'000'000}}) {
    SessionOptions options;
    options.runtime_options = {.threads = 2, .cpu_devices = 2};
    options.lend_thread_us = lend_us;
    auto session = NewSession(root, options);
    auto step = session->Prepare({x.name()}, {sum.name()}, {});
    BOOST_REQUIRE_MESSAGE(step.ok(), step.status());
    Wrong wrong;
    std::atomic<int> answered{0};
    RunThreads(kThreads, [&](int t) {
      for (int i = 0; i < kSteps; ++i) {
        const auto value = static_cast<float>(t * kSteps + i);
        // Every other step starts one more when it ends.
        step->RunAsync({Tensor::Scalar(value)}, [&, value, more = i % 2 == 0](absl::Status s, std::vector<Tensor> out) {
          wrong.Unless(s.ok() && out[0].scalar<float>() == 3 * value);
          answered.fetch_add(1);
          if (!more) return;
          step->RunAsync({out[0]}, [&, value](absl::Status s, std::vector<Tensor> out) {
            wrong.Unless(s.ok() && out[0].scalar<float>() == 9 * value);
            answered.fetch_add(1);
          });
        });
        if (i % 8 == 0) {  // a blocking one in between
          std::vector<Tensor> out;
          wrong.Unless(step->Run({Tensor::Scalar(value)}, &out).ok() && out[0].scalar<float>() == 3 * value);
        }
      }
    });
    for (int i = 0; i < 12000 && answered < kThreads * kSteps * 3 / 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    BOOST_TEST(answered == kThreads * kSteps * 3 / 2);
    BOOST_TEST(wrong.count() == 0);
  }
}

BOOST_AUTO_TEST_CASE(sessions_end_while_their_steps_run) {
  for (int round = 0; round < 6; ++round) {
    Scope root = Scope::NewRootScope();
    const Output endless = Endless(root), quick = ops::Neg(root, ops::Const(root, 1.0f));
    auto session = NewSession(root);
    Wrong wrong;
    std::atomic<int> answered{0};
    RunThreads(4, [&](int t) {
      if (t == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(round));
        wrong.Unless(session->Close().ok());
        return;
      }
      for (int i = 0; i < 12; ++i) {
        std::vector<Tensor> out;
        if (t == 1) {
          session->RunAsync({}, {endless.name()}, {}, [&](absl::Status s, std::vector<Tensor>) {
            wrong.Unless(s.code() == absl::StatusCode::kCancelled);
            answered.fetch_add(1);
          });
        } else {
          const absl::Status s = session->Run({}, {(t == 2 ? quick : endless).name()}, {}, &out);
          wrong.Unless(s.ok() || s.code() == absl::StatusCode::kCancelled);
        }
      }
    });
    for (int i = 0; i < 2000 && answered < 12; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    BOOST_TEST(answered == 12);
    BOOST_TEST(wrong.count() == 0);
  }
}

}  // namespace session_test
}  // namespace troupe::race
#endif  // !TROUPE_TEST_TSAN
