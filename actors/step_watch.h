// Deadlines and stall reports of steps that no thread waits for.
//
// A blocking Run looks at the clock itself. An asynchronous step is put on this list, which the session actor looks through when its timer says so: it asks the step's
// executors what they wait for, and either ends the step with their answers (deadline) or hands them to the session's `on_stall` (no node has run for `stall_report_ms`).
//
//   state     event                        action                                                        next
//   watched   time is up                   1 ask every part what it waits for                             expiring
//   expiring  all parts answered           2 end the step, DEADLINE_EXCEEDED with their answers            ended
//   expiring  100 ms later                 3 end the step with the answers that came (a part is busy)      ended
//   watched   half a stall time has passed 4 ask every part                                                watched
//   watched   all parts answered           5 nodes have run since: remember; none for a stall time: report  watched
//   any       the step ends                6 forget it; answers that are under way are dropped             gone
//
// Thread rule: all methods are thread safe; Look belongs to the session actor. A step is removed before its executors are released.
#ifndef TROUPE_ACTORS_STEP_WATCH_H_
#define TROUPE_ACTORS_STEP_WATCH_H_

#include <caf/actor_clock.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/executor/step_state.h"

namespace troupe {

class ExecutorSet;

class StepWatch : public std::enable_shared_from_this<StepWatch> {
 public:
  using Time = caf::actor_clock::time_point;
  // `report` gets the text of a stall report.
  StepWatch(caf::actor_clock* clock, std::function<void(const std::string&)> report)
      : clock_(clock), report_(std::move(report)) {}

  // `wake` makes the session actor call Look; null when the actor is gone.
  void SetWake(std::function<void()> wake);
  // Zero or less: no deadline, no reports.
  void Add(ExecutorSet* set, int64_t step_id, std::string what, int64_t timeout_ms, int64_t stall_ms);
  void Remove(ExecutorSet* set);
  size_t size() const;

  // Does what is due. `ticked`: the time for which the timer that calls was set. When a new timer is needed it returns true and the time.
  bool Look(Time ticked, Time* next);

 private:
  struct Entry {
    ExecutorSet* set;
    int64_t step_id;
    std::string what;
    int64_t timeout_ms, stall_ms;
    Time deadline, check = Time::max(), begun, progress_at;
    int64_t progress = -1;
    std::shared_ptr<struct StepAnswers> expiring;
    Time due() const { return std::min(deadline, check); }
  };
  void Ask(const Entry& e, std::shared_ptr<StepAnswers> answers);
  void Answered(const std::shared_ptr<StepAnswers>& answers, StepReport report);
  static void Expire(Entry* e, const StepAnswers& answers);

  caf::actor_clock* const clock_;
  const std::function<void(const std::string&)> report_;
  mutable std::mutex mu_;
  std::function<void()> wake_;
  std::vector<Entry> steps_;
  Time armed_ = Time::max();  // of the timer that is under way
  bool waking_ = false;
};

// "step 7 (y:0) has made no progress for 100 ms; it waits for:\n  ..."
std::string StallText(int64_t step_id, const std::string& what, int64_t ms, const std::vector<std::string>& lines);
// "the step did not end within 50 ms; it waits for:\n  ..."
absl::Status DeadlineStatus(int64_t timeout_ms, const std::vector<std::string>& lines);

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_WATCH_H_
