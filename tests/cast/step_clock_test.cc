// The clock of deadlines, when what it calls takes it away.
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "actors/step_clock.h"
#include "actors/step_watch.h"

namespace troupe {
namespace {

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

BOOST_AUTO_TEST_CASE(TheLastShareOfAClockMayBeDroppedOnItsOwnThread) {
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

BOOST_AUTO_TEST_CASE(AnAlarmIsKeptWhenItsWatchIsLookedAtAgain) {
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

}  // namespace
}  // namespace troupe
