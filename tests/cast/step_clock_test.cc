// The clock of deadlines, when what it calls takes it away.
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "actors/watch/step_clock.h"
#include "actors/watch/step_watch.h"

namespace troupe {
namespace step_clock_test {

using namespace std::chrono_literals;

// The answer of a call is where a program may let go of its session and runtime.
class LetsGo : public WatchedCall {
 public:
  void TimeIsUp() override {
    clock.reset();
    watch.reset();
    called.set_value();
  }
  std::shared_ptr<StepClock> clock;
  std::shared_ptr<StepWatch> watch;
  std::promise<void> called;
};

BOOST_AUTO_TEST_CASE(the_last_share_of_a_clock_may_be_dropped_on_its_own_thread) {
  for (int i = 0; i < 50; ++i) {
    auto call = std::make_shared<LetsGo>();
    call->clock = std::make_shared<ThreadClock>();
    call->watch = std::make_shared<StepWatch>(call->clock, nullptr);
    const std::weak_ptr<StepClock> clock = call->clock;
    const std::weak_ptr<StepWatch> watch = call->watch;
    std::future<void> called = call->called.get_future();
    {
      const std::shared_ptr<StepWatch> here = call->watch;
      here->Add(call, here->Now() + 1ms);
    }
    call.reset();
    BOOST_REQUIRE(called.wait_for(20s) == std::future_status::ready);
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!(clock.expired() && watch.expired()) && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(100us);
    BOOST_TEST(clock.expired());
    BOOST_TEST(watch.expired());
  }
}

// A hundred thousand on the list cost each other nothing. By looking each other over they took half
// a minute.
BOOST_AUTO_TEST_CASE(who_stands_on_the_list_is_found_at_once) {
  class Counts : public WatchedCall {
   public:
    void TimeIsUp() override { ++*called; }
    std::atomic<int>* called = nullptr;
  };
  constexpr int kMany = 100000;
  std::atomic<int> called{0};
  const auto begun = std::chrono::steady_clock::now();
  auto watch = std::make_shared<StepWatch>(std::make_shared<ThreadClock>(), nullptr);
  const SteadyTime later = watch->Now() + 1h;
  std::vector<std::shared_ptr<Counts>> calls;
  for (int i = 0; i < kMany; ++i) {
    calls.push_back(std::make_shared<Counts>());
    calls.back()->called = &called;
    watch->Add(calls.back(), later + i * 1ms);
  }
  // Only their addresses count until their time has come.
  const auto step = [](int i) { return reinterpret_cast<ExecutorSet*>(static_cast<uintptr_t>(i + 1) * 64); };
  for (int i = 0; i < kMany; ++i) watch->Add(step(i), i, {1, later}, 0);
  BOOST_TEST(watch->size() == 2u * kMany);
  for (int i = 0; i < kMany; ++i) watch->Remove(step(i));
  // Half of them go, the time of the others has come now.
  for (int i = 0; i < kMany; ++i) {
    if (i % 2 == 0) watch->Remove(calls[i].get());
  }
  for (int i = 1; i < kMany; i += 2) watch->Add(calls[i], watch->Now());
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (called < kMany / 2 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  BOOST_TEST(called == kMany / 2);
  BOOST_TEST(watch->size() == 0u);
  const auto took = std::chrono::steady_clock::now() - begun;
  BOOST_TEST((took < 5s), std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
}

BOOST_AUTO_TEST_CASE(the_earliest_alarm_counts_whoever_comes_and_goes) {
  auto clock = std::make_shared<ThreadClock>();
  auto watch = std::make_shared<StepWatch>(clock, nullptr);
  // Alarms of what has gone are let go of, and none of what is left with them.
  auto last = std::make_shared<LetsGo>();
  auto called = last->called.get_future();
  watch->Add(last, watch->Now() + 30ms);
  const auto step = reinterpret_cast<ExecutorSet*>(uintptr_t{64});
  for (int i = 0; i < 1000; ++i) {
    watch->Add(step, i, {1, watch->Now() + 1h}, 0);
    watch->Remove(step);
  }
  BOOST_TEST((called.wait_for(20s) == std::future_status::ready));
}

BOOST_AUTO_TEST_CASE(an_alarm_is_kept_when_its_watch_is_looked_at_again) {
  auto clock = std::make_shared<ThreadClock>();
  auto watch = std::make_shared<StepWatch>(clock, nullptr);
  // Three calls of one watch, whose times come one after the other.
  std::vector<std::future<void>> called;
  for (int i = 0; i < 3; ++i) {
    auto call = std::make_shared<LetsGo>();
    called.push_back(call->called.get_future());
    watch->Add(call, watch->Now() + i * 2ms);
  }
  for (auto& f : called) BOOST_REQUIRE(f.wait_for(20s) == std::future_status::ready);
}

}  // namespace step_clock_test
}  // namespace troupe
