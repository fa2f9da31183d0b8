#include "tests/stress/load.h"

#include <ctime>

#include <algorithm>

#include "tests/sanitizers/sanitized.h"

namespace troupe::stress {
namespace {

using namespace std::chrono_literals;

// Never less than this: what a healthy runtime needs is a hundredth of it.
#if TROUPE_TEST_ASAN || TROUPE_TEST_TSAN
constexpr double kLeastMargin = 8000;
#else
constexpr double kLeastMargin = 2000;
#endif

double ThreadMillis() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

}  // namespace

Load& Load::Get() {
  static Load* load = new Load;
  return *load;
}

void Load::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Load::Stop() {
  stop_ = true;
  thread_.join();
}

void Load::Run() {
  while (!stop_) {
    const TimePoint due = Clock::now() + 20ms;
    std::this_thread::sleep_until(due);
    const TimePoint woke = Clock::now();
    const double before = ThreadMillis();
    while (ThreadMillis() - before < 0.5) {
    }
    const double slowness = MillisSince(woke) / (ThreadMillis() - before);
    std::lock_guard<std::mutex> lock(mu_);
    beats_.push_back({woke, MillisBetween(due, woke), slowness});
    while (beats_.size() > 20000) beats_.pop_front();
  }
}

double Load::Margin(TimePoint since) {
  std::lock_guard<std::mutex> lock(mu_);
  double late = beats_.empty() ? 0 : MillisSince(beats_.back().at), slow = 0;
  int n = 0;
  for (auto b = beats_.rbegin(); b != beats_.rend() && b->at >= since; ++b, ++n) {
    late = std::max(late, b->late_ms);
    slow += b->slowness;
  }
  const double slowness = n == 0 ? 1 : std::clamp(slow / n, 1.0, 20.0);
  return (kLeastMargin + 10 * late) * slowness;
}

}  // namespace troupe::stress
