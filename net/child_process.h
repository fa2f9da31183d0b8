// Forks and executes one program as a child that leaves nothing behind: it dies with the thread
// that has forked it, is the leader of a process group, and has no descriptor but the standard
// ones. Its input is empty; what it writes to its output and its errors comes through one pipe, so
// that both keep their order.
//
// Blocks, until the program has begun or could not. Thread rule: the caller's thread has to outlive
// the child.
#ifndef TROUPE_NET_CHILD_PROCESS_H_
#define TROUPE_NET_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "troupe/status.h"

namespace troupe {

struct ChildCommand {
  std::string program;                                           // as FindProgram gives it
  std::vector<std::string> arguments;                            // the first is the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // beside this process's own
  std::string folder;                                            // "": this process's own
};

struct ChildProcess {
  pid_t pid = -1;
  int watch = -1;   // readable when it has ended; -1 where the system has no such thing
  int output = -1;  // does not block
};

// NOT_FOUND when the program cannot be executed or the folder is not there; RESOURCE_EXHAUSTED when
// the system gives no process, memory or descriptor.
absl::StatusOr<ChildProcess> StartChild(const ChildCommand& command);

// The path of a program, which stays right in another folder. One without '/' is looked for in
// PATH. NOT_FOUND.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace troupe

#endif  // TROUPE_NET_CHILD_PROCESS_H_
