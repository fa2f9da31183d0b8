// What the parts of a checked topology are to each other: who has processes, tasks and addresses,
// and what {...} in a command stands for.
//
// Thread rule: pure functions.
#ifndef TROUPE_NET_PLAY_WIRING_H_
#define TROUPE_NET_PLAY_WIRING_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/cluster.h"
#include "troupe/play.h"

namespace troupe::play {

// A part that is a process, or several; others are in the process of another part.
bool HasProcess(const Part& part);
// A part whose processes are tasks of the cluster.
bool IsJob(const Part& part);
// Whether somebody can call it.
bool HasAddress(const Part& part);
int ProcessesOf(const Part& part);
// "ps:0", or "model" for a part that is no job.
std::string ProcessName(const Part& part, int process);
// The part and its process; {null, 0} when there is none of this name.
std::pair<const Part*, int> FindProcess(const Topology& topology, std::string_view process);

// All tasks, of a topology in which each job has its addresses (`at`).
absl::StatusOr<ClusterSpec> ClusterOf(const Topology& topology);
// Of such a topology; "" when the process has none.
std::string AddressOf(const Part& part, int process);

// Replaces each {name} by what `value` says of it, and {{ by {. The error is `value`'s, or what is
// wrong with the braces, without a place.
using ValueOf = std::function<absl::StatusOr<std::string>(std::string_view name)>;
absl::StatusOr<std::string> FillIn(std::string_view text, const ValueOf& value);
// Why {name} cannot stand in this part's command; OK.
absl::Status MayFillIn(const Topology& topology, const Part& part, std::string_view name);
// What it stands for in this process, when all have their addresses. {dir} is `dir`.
absl::StatusOr<std::string> ValueIn(const Topology& topology, const Part& part, int process, std::string_view name,
                                    std::string_view dir);

// The address at which the first task of the first server takes sessions, "troupe://host:port"; "".
std::string TargetOf(const Topology& topology);

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_WIRING_H_
