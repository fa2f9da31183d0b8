// How slow the machine is just now, so that a loaded one is no failure.
//
// A thread sleeps and computes by turns, a fixed amount of work, and sees how late it wakes and how
// long the work takes beside what it took on its processor. What is promised "in time" is promised
// with a margin that grows with both, over the time that it took.
#ifndef TROUPE_TESTS_STRESS_LOAD_H_
#define TROUPE_TESTS_STRESS_LOAD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

namespace troupe::stress {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
constexpr TimePoint kNever = TimePoint::max();

inline double MillisSince(TimePoint t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }
inline double MillisBetween(TimePoint a, TimePoint b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}
inline TimePoint Plus(TimePoint t, double ms) {
  return t == kNever ? t
                     : t + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
}

class Load {
 public:
  static Load& Get();
  void Start();
  void Stop();
  // What an answer may be late by, in milliseconds, of something that began at `since`.
  double Margin(TimePoint since);

 private:
  struct Beat {
    TimePoint at;
    double late_ms, slowness;
  };
  void Run();
  std::mutex mu_;
  std::deque<Beat> beats_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_LOAD_H_
