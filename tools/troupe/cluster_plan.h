// What `troupe cluster up` is to start: from its flags to a cluster with addresses and the command
// of each of its tasks.
//
// Thread rule: one thread.
#ifndef TROUPE_TOOLS_TROUPE_CLUSTER_PLAN_H_
#define TROUPE_TOOLS_TROUPE_CLUSTER_PLAN_H_

#include <string>
#include <string_view>
#include <vector>

#include "tools/troupe/commands.h"
#include "troupe/cluster.h"
#include "troupe/process_supervisor.h"

namespace troupe::tool {

// What is to be done to a process of the cluster when a program has reported a step.
struct Blow {
  // SIGKILL; SIGSTOP, and SIGCONT later; started only now; SIGTERM, at which it may leave in order.
  enum Kind : uint8_t { kKill, kFreeze, kJoin, kLeave };
  Kind kind = kKill;
  std::string name;  // of the process
  int64_t step = 0;
  int64_t freeze_ms = 0;  // of kFreeze
  std::string text;       // as it was given
};
std::string_view FlagOf(Blow::Kind kind);  // "--kill"

struct ClusterPlan {
  ClusterSpec cluster;
  std::vector<ProcessSpec> processes;  // in the order of the cluster, named "worker:0"
  std::vector<std::string> addresses;  // of the processes
  std::string chief;                   // whose reports are shown; "": there is none
  std::vector<Blow> blows;
};

// INVALID_ARGUMENT says which flag makes no sense; NOT_FOUND names a file or program that is not
// there; FAILED_PRECONDITION an address that is not of this machine; UNAVAILABLE a port that is
// taken.
absl::StatusOr<ClusterPlan> PlanCluster(const ClusterUpFlags& flags);

// The words of a command line, as a shell takes it apart: quotes and backslashes, nothing else.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view text);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_CLUSTER_PLAN_H_
