// Which processes of a topology are ready, and which may start because of that; without processes,
// threads or a clock.
//
//   state (of a process)  event                                   action                      next
//   held      those of all parts that it comes after are ready  1 release it                started
//   started   its ready line, of the incarnation that runs      2 note it                   ready
//   started   a program without such a line: it runs, as a service, or has ended well
//                                                               3 note it                   ready
//   ready     another incarnation                               4 it has to be ready again  started
//   held      one that it comes after is over, and is not ready 5 stop all, and say why     held
//
// A program that has ended well stays ready. Who has been released is not held again.
//
// Thread rule: its owner's lock.
//
// Tests of the edges, tests/play/conductor_test.cc:
//   1, 2     edges_1_and_2_who_comes_after_another_waits_until_that_is_ready
//   3        edge_3_programs_are_ready_when_they_run_or_have_ended
//   4        edge_4_a_new_incarnation_has_to_be_ready_again
//   5        edge_5_who_waits_for_one_that_is_over_would_wait_forever
#ifndef TROUPE_NET_PLAY_CONDUCTOR_H_
#define TROUPE_NET_PLAY_CONDUCTOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/play/plan.h"

namespace troupe::play {

class Conductor {
 public:
  explicit Conductor(const std::vector<PlannedProcess>& processes);

  // What a process wrote. True when it has become ready by it.
  bool OnLine(std::string_view process, uint64_t incarnation, std::string_view line);
  // How the processes are now, in the order of the plan.
  void OnStatus(const std::vector<ProcessStatus>& status);
  // The names of those to release, once.
  std::vector<std::string> Release();
  // Not OK: somebody waits for what will not come.
  const absl::Status& hopeless() const { return hopeless_; }

  bool ready(size_t process) const { return processes_[process].ready; }
  // Whether its last incarnation has said that it is, though it may be over now.
  bool was_ready(size_t process) const { return processes_[process].was_ready; }
  bool AnyHeld() const;
  // Those that are not ready, but programs that are no services.
  std::vector<std::string> NotReady() const;

 private:
  struct Process {
    std::string name, part, ready_line;
    std::vector<std::string> after;
    bool program = false, service = false, anywhere = false, held = false;
    uint64_t ready_incarnation = 0;  // by its line
    bool ready = false, was_ready = false;
    bool over = false;  // and will not run again
  };
  void Note(Process* p, const ProcessStatus& status);

  std::vector<Process> processes_;
  absl::Status hopeless_;
};

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_CONDUCTOR_H_
