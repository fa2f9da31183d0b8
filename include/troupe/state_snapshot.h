// The state of a session, or of some containers, at one time: what Session::SnapshotState returns
// and Session::RestoreState takes. Beside variables it holds what a training run needs to go on
// with equal bits: the random streams of its nodes, counters, and what is in queues, tables,
// readers and accumulators.
//
// Thread rule: a plain value. Its tensors may share memory with variables, so nobody may write to
// them.
#ifndef TROUPE_STATE_SNAPSHOT_H_
#define TROUPE_STATE_SNAPSHOT_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

// Names of containers in a snapshot that stand for the session's own ones, whichever session it is.
// The first holds variables, queues, tables and the like that no other session sees.
inline constexpr char kOwnVariablesContainer[] = "/variables";
inline constexpr char kOwnStateContainer[] = "/state";  // random streams, counters

struct StateSnapshot {
  struct Entry {
    std::string device;           // full name
    std::string container, name;  // of the resource
    // "variable", "random stream", "counter", or another kind of resource
    // (troupe/resource_state.h), the library's or the program's.
    std::string kind;
    std::vector<std::pair<std::string, Tensor>> tensors;  // by key
  };
  std::vector<Entry> entries;  // sorted by device (in the order of the runtime), container and name
  // Restoring drops what stands in these containers of every device, but for the entries.
  std::vector<std::string> containers;

  // As bytes, for a file or another process; a resource, a reference and a tensor of 2 GiB or more
  // are INVALID_ARGUMENT, and so are bytes that are no snapshot.
  absl::StatusOr<std::string> ToBytes() const;
  static absl::StatusOr<StateSnapshot> FromBytes(std::string_view bytes);
};

struct SnapshotOptions {
  // Beside the session's own state: these containers of the devices, whoever uses them. "" is the
  // default one, where variables stand that sessions share (SessionOptions.share_variables).
  std::vector<std::string> containers = {""};
  // Whether it is a cut between steps: steps that update variables are waited for, and those that
  // would begin meanwhile wait until it is taken. Otherwise steps may be in it by half.
  bool between_steps = false;
  // How long to wait for steps and updates that are under way; 0 = the session's
  // operation_timeout_ms, negative = for ever.
  int64_t timeout_ms = 0;
};

}  // namespace troupe

#endif  // TROUPE_STATE_SNAPSHOT_H_
