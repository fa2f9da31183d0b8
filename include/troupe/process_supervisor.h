// The supervisor of the processes of one host: it starts them, restarts those that fail by their
// policy, keeps what they write in log files that do not grow without bound, and stops them in
// order.
//
// A process runs until it ends by itself; one that is a `service` until the others have ended. All
// is over when every process has ended and none is to be started again. A process is asked to end
// by SIGTERM, and made to by SIGKILL when its time is over; first those that are no services.
//
// Processes die with their supervisor's process, however that ends, and with each of them its
// process group, unless the supervisor's process is killed (then what they started themselves lives
// on). They inherit no descriptor but the standard ones: nothing comes from their input, and what
// they write goes to their log.
//
// Thread rule: all methods are thread safe. Start, Wait, Stop and the destructor block: not in an
// actor's handler (FAILED_PRECONDITION).
#ifndef TROUPE_PROCESS_SUPERVISOR_H_
#define TROUPE_PROCESS_SUPERVISOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

// A process fails that ends with another status than 0, is ended by a signal, or cannot be started.
struct ProcessPolicy {
  enum class Restart : uint8_t { kAlways, kAfterFailure, kNever };
  Restart restart = Restart::kAfterFailure;
  // The delay before a restart doubles with each within `window`. Times are at most a day.
  std::chrono::milliseconds min_delay{100};
  std::chrono::milliseconds max_delay{5000};
  double jitter = 0.2;  // the delay is off by at most this fraction
  // One more within `window`, and the process is given up.
  int most_restarts = 10;
  std::chrono::milliseconds window{60000};
  // That a process is given up ends the others, too. Else they go on.
  bool escalate = true;
};

struct ProcessSpec {
  std::string name;  // unique; letters, digits, and ._:-
  // The program and its arguments. A program without '/' is looked for in PATH.
  std::vector<std::string> command;
  // Variables beside those of the supervisor's process.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string folder;  // where it runs; "": where the supervisor does
  bool service = false;
  // It is not started before Release is called.
  bool held = false;
  ProcessPolicy policy;
};

enum class ProcessState : uint8_t {
  kHeld,  // to be started by Release
  kStarting,
  kRunning,
  kWaiting,   // to be started again
  kStopping,  // it was asked to end
  kEnded,     // well
  kStopped,   // because it was asked to
  kGivenUp,   // it failed, and is not started again
};
std::string_view ToString(ProcessState state);  // "running"

struct ProcessStatus {
  std::string name;
  ProcessState state = ProcessState::kStarting;
  int64_t pid = 0;           // 0: there is none now
  uint64_t incarnation = 0;  // 1 for the first process
  int restarts = 0;
  int64_t since_ms = 0;   // how long it has been in this state
  std::string last_end;   // of the last process that ended: "was ended by signal 9 (Killed)"
  std::string last_line;  // of it: what it wrote last, its first 500 bytes
  bool killed = false;    // it did not end in its time
};

struct ProcessesStatus {
  std::vector<ProcessStatus> processes;  // in the order of the specifications
  bool stopping = false;
  bool over = false;
  // Of what is over. OK: all that are no services have ended well. CANCELLED: it was stopped
  // before. ABORTED names the process that was given up, and why.
  absl::Status result;
};

struct ProcessSupervisorOptions {
  std::vector<ProcessSpec> processes;
  // Each process has its log there, NAME.log; the older ones are NAME.log.1 and so on. The folder
  // is made. "": what they write is lost.
  std::string logs;
  int64_t log_bytes = 16 << 20;  // of a file, at least 4096
  int log_files = 3;             // of a process, from 1 to 100
  // For an end that nobody asked for, when a process was given up, or only services are left: how
  // long processes have, twice if there are services.
  std::chrono::milliseconds stop_within{10000};
  // Told each line that a process writes, its first 65536 bytes. On a thread of the supervisor's
  // own: it must neither block nor call the supervisor.
  std::function<void(const std::string& name, uint64_t incarnation, std::string_view line)> on_line;
  // Told that `status` may be another one now: a process has started, ended, or is to be stopped or
  // started again, or the supervisor's actor has died. As on_line.
  std::function<void()> on_change;
  uint64_t seed = 0;  // of the jitter; 0: another one each time
};

class ProcessSupervisor {
 public:
  // INVALID_ARGUMENT for impossible options; NOT_FOUND for a program that is not there; the error
  // of the log folder. RESOURCE_EXHAUSTED without threads or descriptors.
  static absl::StatusOr<std::unique_ptr<ProcessSupervisor>> Start(const ProcessSupervisorOptions& options);
  // Kills what still runs.
  ~ProcessSupervisor();

  // INTERNAL when the supervisor's actor has died, which kills the processes, too.
  absl::StatusOr<ProcessesStatus> status() const;
  // Sends a signal to the process of this name, if there is one now. NOT_FOUND: there is none.
  absl::Status Signal(const std::string& name, int signal);
  // Starts a process that was held. NOT_FOUND: there is no process of this name; nothing happens
  // when it has been started, or will not be.
  absl::Status Release(const std::string& name);
  // Whether all is over, within the time.
  absl::StatusOr<bool> Wait(std::chrono::milliseconds at_most) const;
  // Ends all processes; those that are no services have `at_most`, and the services as much after.
  // DEADLINE_EXCEEDED names those that had to be killed. While a stop is under way another one can
  // shorten it.
  absl::Status Stop(std::chrono::milliseconds at_most);
  // As Stop, without waiting. Wait tells when it is over, status how.
  void BeginStop(std::chrono::milliseconds at_most);

  struct TROUPE_HIDDEN Impl;
  explicit ProcessSupervisor(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace troupe

#endif  // TROUPE_PROCESS_SUPERVISOR_H_
