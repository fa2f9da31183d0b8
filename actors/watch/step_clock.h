// The clock of deadlines and stall reports.
//
// A deadline must take effect while a session compiles, while every compute thread computes, and
// while the program's own actors occupy the threads of the actor system. So each runtime has one
// thread that only looks at the steps whose time has come (step_watch.h). The thread starts with
// the runtime, because the system may have no thread left when a deadline needs one.
//
// The thread calls functions of the program: the callback of a step that is answered before its
// end, and `on_stall`. They must not block, since the deadlines of other steps would wait. Thread
// rule: all methods are thread safe.
#ifndef TROUPE_ACTORS_WATCH_STEP_CLOCK_H_
#define TROUPE_ACTORS_WATCH_STEP_CLOCK_H_

#include <memory>
#include <thread>

#include "actors/watch/call_wait.h"

namespace troupe {

class StepWatch;

class StepClock {
 public:
  virtual ~StepClock() = default;
  virtual SteadyTime Now() const = 0;
  // Arranges that watch->Look() is called at `when` or soon after, and again at the time that Look
  // returns. Of several times for one watch the earliest counts. Never calls Look itself.
  virtual void Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) = 0;
  // Drops the times of a watch that ends.
  virtual void Forget(const StepWatch*) {}
};

// The real clock, with a thread of its own.
class ThreadClock : public StepClock {
 public:
  // Starts its thread; throws std::system_error when the system has none to give.
  ThreadClock();
  // Waits for its thread. If a function called on that thread dropped the last share of the clock,
  // only tells the thread to end.
  ~ThreadClock() override;
  SteadyTime Now() const override { return std::chrono::steady_clock::now(); }
  void Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) override;
  void Forget(const StepWatch* watch) override;
  size_t alarms() const;  // of living watches

 private:
  struct State;  // shared with the thread
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_WATCH_STEP_CLOCK_H_
