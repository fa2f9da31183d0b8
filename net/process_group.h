// The processes of one host, as their supervisor sees them: which of them runs, is to be started
// again, or was given up; without actors, processes or a clock.
//
//   state (of one)    message                            action                                               next
//   (new)             (it begins)                       1 launch incarnation 1                                starting
//   starting          launched (process)                2 note its number                                     running
//   starting          launched (error)                  3 a failure, as 6, 7 or 8                             -
//   running           ended well, and may stay so       4 note it; when only services are left, stop them     ended
//   running           ended well, policy `always`       5 as 6                                                waiting
//   running           ended with a failure              6 wait as the policy says                             waiting
//   running           ended with a failure, too often, or the policy is `never`
//                                                       7 give it up; when only services are left, stop them  given up
//   running           as 7, and the policy escalates    8 give it up; stop all others                         given up
//   waiting           its delay is over                 9 launch the next incarnation                         starting
//   starting, running (stop)                           10 SIGTERM, to services when the others have ended     stopping
//   waiting           (stop)                           11 forget the restart                                  stopped
//   stopping          ended                            12 note it                                             stopped
//   stopping          its time is over                 13 SIGKILL; remember its name                          stopping
//   stopping          (stop within a shorter time)     14 its time is over sooner                             stopping
//   any               news of another incarnation      15 ignored                                             as before
//   (new)             (it begins, and is to be held)   16 nothing                                             held
//   held              (release)                        17 launch incarnation 1                                starting
//   held              (stop)                           18 forget it                                           stopped
//   any other         (release)                        19 ignored                                             as before
//
// A process that is starting gets its signal when it has been launched: the launcher does one thing
// after the other. Thread rule: belongs to its actor.
//
// Tests of the edges, tests/net/process_group_test.cc:
//   1, 2, 4   edges_1_and_2_and_4_a_process_runs_and_ends_well
//   3         edge_3_what_cannot_be_started_has_failed
//   5, 6, 9   edges_5_and_6_and_9_the_delay_of_a_restart_grows_to_its_limit
//   7         edge_7_who_fails_too_often_is_given_up_and_the_others_go_on
//   8         edge_8_who_is_given_up_ends_the_others_when_the_policy_escalates
//   10, 12    edges_10_and_12_services_are_stopped_when_the_others_have_ended
//   11        edge_11_a_stop_forgets_a_restart_that_is_due
//   13        edge_13_who_does_not_end_in_time_is_killed_and_named
//   14        edge_14_a_stop_can_be_hurried
//   15        edge_15_news_of_another_incarnation_is_ignored
//   16, 17, 19  edges_16_17_and_19_who_is_held_starts_when_released
//   18        edge_18_who_is_held_is_stopped_unstarted
#ifndef TROUPE_NET_PROCESS_GROUP_H_
#define TROUPE_NET_PROCESS_GROUP_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervision/supervisor.h"
#include "troupe/process_supervisor.h"

namespace troupe {

// How a process ended.
struct ProcessEnd {
  int wait_status = 0;  // as waitpid tells it
  std::string last_line;
};

class ProcessGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // What the actor has to do next, in order: launch this incarnation (signal is 0), or signal it.
  struct Action {
    int process = 0;
    uint64_t incarnation = 0;
    int signal = 0;
  };
  using Actions = std::vector<Action>;

  // The options are valid.
  explicit ProcessGroup(const ProcessSupervisorOptions& options);

  Actions Begin(Time now);
  Actions Launched(int process, uint64_t incarnation, const absl::StatusOr<int64_t>& pid, Time now);
  Actions Ended(int process, uint64_t incarnation, const ProcessEnd& end, Time now);
  Actions Stop(std::chrono::milliseconds at_most, Time now);
  Actions Release(int process, Time now);
  // The timer. After every method NextLook says when it is due; nullopt: not at all.
  Actions Look(Time now);
  std::optional<Time> NextLook() const;

  // -1: there is none of this name.
  int Find(const std::string& name) const;
  // 0: there is no process now.
  uint64_t Incarnation(int process) const;
  ProcessesStatus Status(Time now) const;
  bool over() const { return over_; }
  // Of a stop that is over: OK, or the names of those that had to be killed.
  absl::Status Stopped() const;

 private:
  struct Process {
    std::string name;
    bool service = false, held = false;
    ProcessPolicy policy;
    RestartDecision decision;
    ProcessState state = ProcessState::kStarting;
    uint64_t incarnation = 0;
    int64_t pid = 0;
    Time since, due;  // `due`: of the restart
    ProcessEnd end = {};
    std::string how = {};  // it ended
    bool killed = false;
  };
  Process& at(int process) { return processes_[static_cast<size_t>(process)]; }
  void Enter(Process* p, ProcessState state, Time now);
  void Launch(int process, Time now, Actions* actions);
  void Failed(int process, Time now, Actions* actions);
  // After a process has ended: whether anything is left to do.
  void GoOn(Time now, Actions* actions);
  void BeginStop(std::chrono::milliseconds at_most, Time now, Actions* actions);
  void StopThose(bool services, Time now, Actions* actions);
  bool AnyLeft(bool services) const;

  std::vector<Process> processes_;
  const std::chrono::milliseconds stop_within_;
  bool stopping_ = false, services_too_ = false, over_ = false, on_request_ = false;
  std::chrono::milliseconds at_most_{0};  // of the stop, for each of its two halves
  Time stop_by_;
  absl::Status failure_;
};

}  // namespace troupe

#endif  // TROUPE_NET_PROCESS_GROUP_H_
