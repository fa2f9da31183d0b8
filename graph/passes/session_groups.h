// Groups of stateful nodes of a session that must share a device, over its whole graph.
//
// Problem: a stateful node stays on the device on which it was first placed. The signature that
// needs it first (mostly the one that initialises variables) does not contain the other nodes that
// use it, nor their device requests. So the node could be placed where a later signature cannot use
// it.
//
// Contract: groups over the whole graph of a session, by the ties of colocation.h: attr "_class",
// references, resource handles. A group knows what its members ask for together, the device types
// that have kernels for all of them, and where the first of them was put. A group is advice: a
// request that contradicts an earlier one of the group is ignored here. It is an error of the
// signature that needs both nodes, which names them. The cost is linear in the growth of the graph
// since the last Update, and is paid only when a stateful node is placed for the first time.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_GRAPH_PASSES_SESSION_GROUPS_H_
#define TROUPE_GRAPH_PASSES_SESSION_GROUPS_H_

#include <string>
#include <string_view>
#include <vector>

#include "graph/core/hash_map.h"
#include "graph/passes/device_set.h"

namespace troupe {

class SessionGroups {
 public:
  struct Group {
    DeviceName request;
    uint64_t types = ~uint64_t{0};
    int device = -1;                  // index of the device that has a member of it
    const Node* placed_by = nullptr;  // that member, in the session's graph
  };

  // `graph` only grows, and outlives this.
  explicit SessionGroups(const Graph* graph) : graph_(graph) {}

  // Looks at the nodes that are new. `placed`: devices of stateful nodes, by name. After an
  // exception (std::bad_alloc) there are no groups, and the next Update looks at all nodes.
  void Update(const DeviceSet& devices, const KernelLookup& kernels, bool allow_soft_placement,
              const HashMap<std::string, std::string>& placed);
  // The group of the node of this name; -1 when nothing is tied to it. Good until the next Update.
  int GroupOf(std::string_view name) const;
  const Group& group(int g) const { return groups_.find(g)->second; }
  // The node was put on this device. The first one of its group decides.
  void Placed(std::string_view name, int device);

 private:
  void LookAtNew(const DeviceSet& devices, const KernelLookup& kernels, bool allow_soft_placement,
                 const HashMap<std::string, std::string>& placed);
  int Root(int id) const;
  void Join(const Node& a, const Node& b);
  Group& GroupFor(const Node& n);

  const Graph* graph_;
  mutable std::vector<int> parent_;    // by node id; a root's own id
  HashMap<int, Group> groups_;         // by root, of the nodes that are tied to others
  HashMap<std::string, int> classes_;  // by "loc:@name": a node of the class
  // While Update runs:
  const DeviceSet* devices_ = nullptr;
  const KernelLookup* kernels_ = nullptr;
  const HashMap<std::string, std::string>* placed_ = nullptr;
  bool soft_ = false;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_SESSION_GROUPS_H_
