// Deadlines and stall reports.
//
// A blocking Run looks at its deadline itself. Every other step that has one, and every step whose session asks for stall reports, is on this list, which the session actor
// looks through when its timer says so. It ends the step with its parts' answers (deadline), or hands them to the session's `on_stall` (no node has run for
// `stall_report_ms`; how many have run is read without a question, so that a step that gets on hears nothing).
//
//   state     event                        action                                                        next
//   watched   time is up                   1 ask every part what it waits for                             expiring
//   expiring  all parts answered           2 end the step, DEADLINE_EXCEEDED with their answers            ended
//   expiring  100 ms later                 3 end the step with the answers that came (a part is busy)      ended
//   watched   half a stall time has passed, nodes have run
//                                          4 remember how many                                            watched
//   watched   none has for a stall time    5 ask every part                                               asking
//   asking    all parts answered           6 report, if still none has                                    watched
//   asking    100 ms later, or half a stall time
//                                          7 report with the answers that came                            watched
//   any       the step ends                8 forget it; answers that are under way are dropped             gone
//
// Thread rule: all methods are thread safe; Look belongs to the session actor. A step is removed before its executors are released.
#ifndef TROUPE_ACTORS_STEP_WATCH_H_
#define TROUPE_ACTORS_STEP_WATCH_H_

#include <algorithm>
#include <caf/actor_clock.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/call_wait.h"

namespace troupe {

class ExecutorSet;
class StepQuestion;

class StepWatch : public std::enable_shared_from_this<StepWatch> {
 public:
  using Time = caf::actor_clock::time_point;
  // `report` gets the text of a stall report.
  StepWatch(caf::actor_clock* clock, std::function<void(const std::string&)> report)
      : clock_(clock), report_(std::move(report)) {}

  // `wake` makes the session actor call Look; null when the actor is gone.
  void SetWake(std::function<void()> wake);
  // `stall_ms` zero or less: no reports.
  void Add(ExecutorSet* set, int64_t step_id, std::string what, const Deadline& deadline, int64_t stall_ms);
  void Remove(ExecutorSet* set);
  size_t size() const;

  // Does what is due. `ticked`: the time for which the timer that calls was set. When a new timer is needed it returns true and the time.
  bool Look(Time ticked, Time* next);

 private:
  enum class State : uint8_t { kWatched, kAsking, kExpiring };
  struct Entry {
    ExecutorSet* set;
    int64_t step_id;
    std::string what;
    int64_t timeout_ms, stall_ms;
    Time deadline, check = Time::max(), progress_at;
    int64_t progress = -1;
    State state = State::kWatched;
    std::shared_ptr<StepQuestion> question;  // the latest
    Time due() const { return std::min(deadline, check); }
  };
  void Ask(Entry* e);
  void CheckProgress(Entry* e, Time now, std::vector<std::string>* reports);
  void Answered(const std::shared_ptr<StepQuestion>& question);
  static std::string Report(Entry* e);
  static void Expire(Entry* e);

  caf::actor_clock* const clock_;
  const std::function<void(const std::string&)> report_;
  mutable std::mutex mu_;
  std::function<void()> wake_;
  std::vector<Entry> steps_;
  Time armed_ = Time::max();  // of the timer that is under way
  bool waking_ = false;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_WATCH_H_
