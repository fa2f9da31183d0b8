// Groups of nodes that must share a device, and the devices that each group may have.
//
// Nodes belong to one group (found by union-find) if they have an equal "loc:@name" in attr
// "_class" (the node `name` itself belongs to it, too), if one takes the other's output as a
// reference (also control flow ops that pass references on), or if one takes the other's resource
// handle. The requests of a group's members are merged; a group may have the device types that have
// kernels for all its members.
//
// Source of the semantics: white paper, section 4.3. Thread rule: the graph must not change while
// the groups are used; const methods shorten paths in a table, so one thread at a time.
#ifndef TROUPE_GRAPH_PASSES_COLOCATION_H_
#define TROUPE_GRAPH_PASSES_COLOCATION_H_

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "graph/core/hash_map.h"
#include "graph/passes/session_groups.h"
#include "graph/passes/still_wanted.h"

namespace troupe {

inline constexpr std::string_view kClassAttr = "_class";
inline constexpr std::string_view kClassPrefix = "loc:@";

struct ColocationOptions {
  bool allow_soft_placement = false;
  // Groups of the session, whose advice is followed for stateful nodes that have no device yet, as
  // far as the requests of the graph itself allow. Null: none.
  const SessionGroups* session = nullptr;
  StillWanted wanted = nullptr;
  // Nodes (by name) that have a device for good. Overrides what they ask for.
  const HashMap<std::string, std::string>* fixed = nullptr;
};

class ColocationGroups {
 public:
  // INVALID_ARGUMENT with the node's address, its request, the devices there are and, where it is
  // in a group, the members that conflict.
  static absl::StatusOr<ColocationGroups> Build(const Graph& graph, const DeviceSet& devices,
                                                const KernelLookup& kernels, const ColocationOptions& options);

  // The group's number: the id of one of its nodes.
  int GroupOf(const Node& node) const { return Root(node.id()); }
  absl::Span<const Node* const> members(int group) const { return groups_[group].members; }
  // Device indices that every member can have, best first; never empty.
  absl::Span<const int> Feasible(int group) const { return feasible_sets_[groups_[group].feasible]; }

 private:
  enum class Tie { kClass, kReference, kResource };
  struct Group {
    absl::InlinedVector<const Node*, 1> members;
    DeviceName request;
    uint64_t types = 0;  // with a kernel for every member
    int fixed = -1;      // device index
    const Node* fixed_by = nullptr;
    int feasible = -1;  // index into feasible_sets_
  };

  ColocationGroups(const DeviceSet& devices, const KernelLookup& kernels, const ColocationOptions& options)
      : devices_(&devices), kernels_(&kernels), options_(options) {}
  int Root(int id) const;
  absl::Status AddNodes(const Graph& graph);
  absl::Status TieNodes(const Graph& graph);
  void FollowSession(const Graph& graph);
  absl::Status Join(const Node& a, const Node& b, Tie tie);
  bool AnyMatches(const DeviceName& request, uint64_t types) const;
  absl::Status FindFeasible(int group);
  absl::Status NoDevice(const Group& group) const;
  std::string Describe(const Group& group) const;
  std::string TypeNames(uint64_t types) const;

  const DeviceSet* devices_;
  const KernelLookup* kernels_;
  ColocationOptions options_;
  mutable std::vector<int> parent_;  // by node id; a root's own id
  std::vector<Group> groups_;        // by root id
  // Most groups have the same few sets.
  std::vector<std::vector<int>> feasible_sets_;
  HashMap<std::string, int> feasible_by_key_;
  // The set of the groups that ask for nothing, on one type of device: nearly all groups of most
  // graphs.
  int feasible_of_plain_ = -1;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_COLOCATION_H_
