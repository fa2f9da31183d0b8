// The list of steps that have a deadline, want stall reports, or were told to end and have not yet.
//
// Every step with a deadline, every step of a session with stall reports, and every step that was
// told to end (deadline, token, Close) stands on this list; the runtime's clock calls Look() when
// something is due (step_clock.h). A step that was told to end has 50 ms to end: if it does,
// nothing of the step runs any more when its call is answered. After 50 ms the call is answered
// all the same, and the step goes on in the background until its kernels have returned.
//
//   state     event                        action                                                        next
//   watched   time is up                   1 ask every part what it waits for                             expiring
//   expiring  all parts answered           2 stop the step, DEADLINE_EXCEEDED with their answers           ending
//   expiring  100 ms later                 3 stop the step with the answers that came (a part is busy)     ending
//   watched   half a stall time has passed, nodes have run
//                                          4 remember how many                                            watched
//   watched   none has for a stall time    5 ask every part                                               asking
//   asking    all parts answered           6 report, if still none has                                    watched
//   asking    100 ms later, or half a stall time
//                                          7 report with the answers that came                            watched
//   any       the step was stopped by somebody else
//                                          8 ask every part what has not ended                             ending
//   ending    50 ms later                  9 answer the call; the status says what has not returned        gone
//   any       the step ends               10 forget it; answers that are under way are dropped             gone
//
// Asynchronous calls that do not wait for a step but for a compile also have their deadlines here
// (WatchedCall).
//
// Thread rule: all methods are thread safe. A step is removed before its executors are released;
// until then they may be used under the list's lock. Functions of the program are called without
// the lock. Steps are found by hash and due times by a heap, so a long list costs little.
//
// Tests of the edges, tests/cast/asynchronous_test.cc:
//   1, 2, 10  a_deadline_asks_every_part_and_ends_the_step
//   5, 6      a_step_without_progress_is_reported_again_and_again
//   8, 9      a_step_that_is_told_to_end_is_answered_after_its_grace_and_goes_on_in_the_background
//   10        a_step_that_ends_in_time_is_forgotten_by_the_watch
// and tests/cast/step_watch_test.cc:
//   3, 9      edge_3_a_part_that_does_not_answer_does_not_hold_up_the_deadline
//   4         edge_4_a_step_whose_nodes_run_is_not_reported
//   7         edge_7_a_part_that_does_not_answer_is_reported_as_such
#ifndef TROUPE_ACTORS_WATCH_STEP_WATCH_H_
#define TROUPE_ACTORS_WATCH_STEP_WATCH_H_

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/watch/call_wait.h"
#include "actors/watch/step_clock.h"

namespace troupe {

class ExecutorSet;
class PartialStep;
class StepQuestion;

// The answer of a step, when it is given before the step's end.
struct EarlyAnswer {
  RunCallback done;
  std::shared_ptr<PartialStep> partial;  // instead of `done`
  absl::Status status;
};

// A call that is answered at a given time unless it was answered before.
class WatchedCall {
 public:
  virtual ~WatchedCall() = default;
  // Once, by the clock.
  virtual void TimeIsUp() = 0;
};

class StepWatch : public std::enable_shared_from_this<StepWatch> {
 public:
  using Time = SteadyTime;
  // `report` gets the text of a stall report.
  StepWatch(std::shared_ptr<StepClock> clock, std::function<void(const std::string&)> report)
      : clock_(std::move(clock)), report_(std::move(report)) {}

  ~StepWatch() { clock_->Forget(this); }

  Time Now() const { return clock_->Now(); }
  // `stall_ms` zero or less: no reports.
  void Add(ExecutorSet* set, int64_t step_id, const Deadline& deadline, int64_t stall_ms);
  // Says that the step was stopped: its call is answered soon, whether or not the step has ended.
  // Nothing happens if it has been answered. REQUIRES: the set lives.
  // `begun`: false for a step whose parts have not been started, which are not asked.
  void Stopped(ExecutorSet* set, int64_t step_id, bool begun = true) noexcept;
  void Remove(ExecutorSet* set);
  // `call` may be added again with another time.
  void Add(std::shared_ptr<WatchedCall> call, Time when);
  void Remove(const WatchedCall* call);
  size_t size() const;
  // Stops all reports. `wait`: none is under way when this returns.
  void EndReports(bool wait);

  // Handles everything that is due, and returns the time of the next event. For the clock. Where
  // memory is lacking for it, soon after, again.
  Time Look() noexcept;

 private:
  enum class State : uint8_t { kWatched, kAsking, kExpiring, kEnding };
  struct Entry {
    ExecutorSet* set = nullptr;
    int64_t step_id = 0;
    int64_t timeout_ms = 0, stall_ms = 0;
    Time deadline = Time::max(), check = Time::max(), progress_at{};
    int64_t progress = -1;
    State state = State::kWatched;
    std::shared_ptr<StepQuestion> question;  // the latest, or null
    Time due() const { return std::min(deadline, check); }
  };
  // Work that is done when the lock has been released.
  struct Later {
    std::vector<std::string> reports;
    std::vector<EarlyAnswer> answers;
    std::vector<std::shared_ptr<WatchedCall>> calls;
  };
  struct Call {
    std::shared_ptr<WatchedCall> call;
    Time when;
  };
  // When to look at a step, or else a call. It may be out of date: the step or call has gone, or
  // has another time, for which there is another alarm.
  struct Alarm {
    Time when;
    int64_t number;  // of two at one time the first counts
    ExecutorSet* set;
    const WatchedCall* call;
    bool operator<(const Alarm& o) const { return when != o.when ? when > o.when : number > o.number; }
  };
  // Tells the clock when to look here. REQUIRES: mu_ is not held.
  void WakeClock(Time when);
  void Ask(Entry* e);
  void CheckProgress(Entry* e, Time now, Later* later);
  void Answered(ExecutorSet* set, const std::shared_ptr<StepQuestion>& question) noexcept;
  void Expire(Entry* e, Time now);
  void BeginEnding(Entry* e, Time now, bool begun = true) noexcept;
  static std::vector<std::string> LinesOf(const Entry& e);
  static std::string Report(Entry* e);
  void DoLater(Later* later);
  void GiveReport(const std::string& text);
  // Look, as far as it is under the lock.
  Time LookAtDue(Later* later);
  // REQUIRES, of these: mu_ is held.
  void LookAtStep(ExecutorSet* set, Time now, Later* later);
  void RebuildAlarms();
  void LookAtCall(const WatchedCall* call, Time now, Later* later);
  // Sees to it that Look comes here at `when`. True when the clock must be told.
  bool SetAlarm(Time when, ExecutorSet* set, const WatchedCall* call);
  void PushAlarm(Time when, ExecutorSet* set, const WatchedCall* call);

  const std::shared_ptr<StepClock> clock_;
  const std::function<void(const std::string&)> report_;
  mutable std::mutex mu_;
  // The standard's maps: absl's are broken for good by an insertion that finds no memory.
  std::unordered_map<ExecutorSet*, Entry> steps_;
  std::unordered_map<const WatchedCall*, Call> calls_;
  std::vector<Alarm> alarms_;  // a heap, the next one first
  bool alarms_lost_ = false;   // some may be missing: memory ran out
  std::vector<std::string> reports_due_;
  int64_t last_alarm_ = 0;
  Time armed_ = Time::max();  // for which the clock has been told to wake it
  bool reports_ended_ = false;
  int reporting_ = 0;  // reports that are being given
  std::condition_variable reported_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_WATCH_STEP_WATCH_H_
