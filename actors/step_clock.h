// The clock of deadlines and stall reports.
//
// A deadline must be met whatever else goes on: while a session compiles, while every compute
// thread computes, and while the threads of the actor system are kept by the program's own actors.
// So each runtime has a thread that does nothing but look at the steps whose time has come
// (step_watch.h). It has it from its start: a step that is under way must not depend on whether the
// system has a thread to give.
//
// What it calls of the program (the callback of a step that is answered before its end, `on_stall`)
// must not block: others' deadlines wait for it. Thread rule: all methods are thread safe.
#ifndef TROUPE_ACTORS_STEP_CLOCK_H_
#define TROUPE_ACTORS_STEP_CLOCK_H_

#include <memory>
#include <thread>

#include "actors/call_wait.h"

namespace troupe {

class StepWatch;

class StepClock {
 public:
  virtual ~StepClock() = default;
  virtual SteadyTime Now() const = 0;
  // Sees to it that watch->Look() is called at `when` or soon after, and again when that says so.
  // Of several times for one watch the first counts. Never calls Look itself.
  virtual void Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) = 0;
};

// The clock on the wall.
class ThreadClock : public StepClock {
 public:
  // Starts its thread; throws std::system_error when the system has none to give.
  ThreadClock();
  // Waits for its thread. On that thread itself, whose callee dropped the last share of the clock,
  // it only tells the thread to end.
  ~ThreadClock() override;
  SteadyTime Now() const override { return std::chrono::steady_clock::now(); }
  void Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) override;

 private:
  struct State;  // shared with the thread
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_CLOCK_H_
