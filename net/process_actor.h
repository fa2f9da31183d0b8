// The actor that supervises the processes of one host. What to do its ProcessGroup decides, whose
// table has the protocol of a process (process_group.h); a launcher does it, on a thread of its own
// (process_launcher.h). So no turn of the actor's blocks.
//
//   state     message            action                                               next
//   watching  begin_processes   1 have all processes launched                         watching
//   watching  process_launched  2 the group notes it                                  watching
//   watching  process_ended     3 the group decides: launch, wait, give up, stop      watching, or over
//   watching  look_at_processes 4 launch what is due; kill what did not end in time   watching
//   watching  stop_processes    5 the group stops its processes                       watching, or over
//   any       signal_process    6 hand it to the launcher; reply whether there is one as before
//   any       get_processes     7 reply processes_state                               as before
//   watching  (all is over)     8 tell `over`, once                                   over
//   watching  release_process   9 the group launches it; reply whether there is one   watching
//
// Nobody restarts the actor: it has no state that could be lost but that of its children, and who
// owns it ends them with it. Thread rule: SpawnProcesses from any thread; `over` is called in the
// actor's turn.
//
// Tests of the edges, tests/net/process_actor_test.cc:
//   1, 2, 3, 8  edges_1_to_3_and_8_processes_are_launched_and_end
//   4           edge_4_the_timer_starts_again_what_failed
//   5           edge_5_a_stop_ends_who_does_not_end_in_time
//   6, 7        edges_6_and_7_signals_are_handed_on_and_the_state_is_told
//   9           edge_9_a_held_process_is_launched_when_it_is_released
#ifndef TROUPE_NET_PROCESS_ACTOR_H_
#define TROUPE_NET_PROCESS_ACTOR_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>

#include "net/process_launcher.h"

namespace troupe {

// Sent once, when the launcher can tell the actor of its events.
struct begin_processes {};
struct process_launched {
  int process = 0;
  uint64_t incarnation = 0;
  absl::StatusOr<int64_t> pid;
};
struct process_ended {
  int process = 0;
  uint64_t incarnation = 0;
  ProcessEnd end;
};
struct look_at_processes {};
struct stop_processes {
  int64_t at_most_ms = 0;
};
// Answered by process_signalled.
struct signal_process {
  std::string name;
  int signal = 0;
};
struct process_signalled {
  absl::Status status;  // NOT_FOUND: there is no such process now
};
// Answered by process_signalled.
struct release_process {
  std::string name;
};
// Answered by processes_state.
struct get_processes {};
struct processes_state {
  ProcessesStatus value;
};

// What `over` is told: how it ended, and who had to be killed.
using ProcessesOver = std::function<void(const ProcessesStatus& status, const absl::Status& stopped)>;

caf::actor SpawnProcesses(caf::actor_system& system, const ProcessSupervisorOptions& options,
                          std::shared_ptr<ProcessLauncher> launcher, ProcessesOver over);

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::begin_processes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::process_launched)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::process_ended)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::look_at_processes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stop_processes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::signal_process)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::process_signalled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::release_process)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::get_processes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::processes_state)

#endif  // TROUPE_NET_PROCESS_ACTOR_H_
