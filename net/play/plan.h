// What is to be started for a topology on this machine: an address for each part that needs one,
// and for each process its command, environment and policy.
//
// A process finds the topology with all its addresses in TROUPE_PLAY, its own name in TROUPE_PART,
// and, where there are such, the cluster in TROUPE_CLUSTER and its place in it in TF_CONFIG, and in
// TROUPE_TARGET where a session can be had.
//
// On another host a process is started by the launcher of the host, a command which is given one
// word more: a line for a shell there.
//
// Thread rule: pure, but for the ports that it looks for.
#ifndef TROUPE_NET_PLAY_PLAN_H_
#define TROUPE_NET_PLAY_PLAN_H_

#include <string>
#include <vector>

#include "troupe/play.h"

namespace troupe::play {

struct PlannedProcess {
  ProcessSpec spec;  // its name is that of the process
  std::string part;
  Kind kind = Kind::kProgram;
  std::string address;             // "": none
  std::vector<std::string> after;  // names of parts
  // How it tells that it is ready: a line that begins with this; "": a program tells by running, if
  // it is a service, or else by its end.
  std::string ready_line;
  bool anywhere_in_line = false;  // the line need only have it in it
};

struct Plan {
  Topology topology;  // with addresses
  std::vector<PlannedProcess> processes;
  std::chrono::milliseconds stop_within{10000};
};

// INVALID_ARGUMENT with the place for what cannot be had here; UNAVAILABLE for a port.
absl::StatusOr<Plan> MakePlan(const Topology& topology, const PlayOptions& options);

// What a process that is a part prints when it is ready: it begins with this.
std::string ReadyLine(const std::string& process);

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_PLAN_H_
