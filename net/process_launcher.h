// Starts processes, signals them and says how they ended, for an actor: all that may block, forking
// included, is done by one thread, which does one thing after the other.
//
// It must be one thread that lives as long as the processes: the system ends a process with the
// thread that has forked it (PR_SET_PDEATHSIG). A process is named by its place in the
// specifications and its incarnation. Its number is used only while the process has not been waited
// for, so that no signal reaches another one that has got the same number meanwhile.
//
// Thread rule: Launch, Signal and Close from any thread, at once; the destructor blocks.
#ifndef TROUPE_NET_PROCESS_LAUNCHER_H_
#define TROUPE_NET_PROCESS_LAUNCHER_H_

#include <functional>
#include <memory>

#include "net/process_group.h"

namespace troupe {

class ProcessLauncher {
 public:
  virtual ~ProcessLauncher() = default;
  // `launched` is told, and if that is OK, `ended` later.
  virtual void Launch(int process, uint64_t incarnation) = 0;
  // To the process and those that it has started. Nothing happens when it has ended.
  virtual void Signal(int process, uint64_t incarnation, int signal) = 0;
  // From now on nothing is launched, and nobody is told; what runs is killed.
  virtual void Close() = 0;
};

// Told on the launcher's thread.
struct ProcessEvents {
  std::function<void(int process, uint64_t incarnation, absl::StatusOr<int64_t> pid)> launched;
  std::function<void(int process, uint64_t incarnation, ProcessEnd end)> ended;
};

// Starts real processes. Its destructor kills those that run, and waits for them; nobody is told
// then. The errors are those of ProcessSupervisor::Start.
absl::StatusOr<std::unique_ptr<ProcessLauncher>> NewProcessLauncher(const ProcessSupervisorOptions& options,
                                                                    ProcessEvents events);

}  // namespace troupe

#endif  // TROUPE_NET_PROCESS_LAUNCHER_H_
