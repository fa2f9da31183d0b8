// The data behind scopes; for graph/api, and for what builds beside a scope: gradients and
// optimizers, which leave its prefix and loops (TopLevel).
//
// All scopes of a graph share one ScopeShared. A ScopeState is what WithX changes: immutable once
// made, shared by copies of the Scope and by the Outputs built with it.
//
// Thread rule: all scopes of one graph belong to one thread at a time.
#ifndef TROUPE_GRAPH_API_SCOPE_STATE_H_
#define TROUPE_GRAPH_API_SCOPE_STATE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/hash_map.h"
#include "troupe/scope.h"
#include "troupe/shape_inference.h"

namespace troupe {

class ControlFlowContext;
class Variable;
struct VariableOptions;

namespace internal {

// Asked by Variable's constructor while it is set: whoever calls a function that makes variables
// can give it others, or those that there are.
class VariableMaker {
 public:
  virtual ~VariableMaker() = default;
  virtual void Make(const ScopeAt& at, const Input& initial_value, const VariableOptions& options, Variable* made) = 0;
};

struct ScopeShared {
  explicit ScopeShared(std::shared_ptr<Graph> g) : graph(std::move(g)), refiner(graph.get()) {}
  std::shared_ptr<Graph> graph;
  ShapeRefiner refiner;
  int refined = 2;  // nodes with smaller ids are known to the refiner
  absl::Status status;
  HashMap<std::string, int> counters;  // base name -> next suffix to try
  HashSet<std::string> scope_names;    // prefixes in use, without '/'
  // The loop or branch of nodes that were built through scopes; see control_context.h.
  HashMap<const Node*, ControlFlowContext*> contexts;
  std::vector<std::shared_ptr<ControlFlowContext>> all_contexts;
  // The scopes of the functions of While and Cond that are running now; operators build in the last
  // one.
  std::vector<std::shared_ptr<const ScopeState>> active;
  VariableMaker* variable_maker = nullptr;

  // `base`, or base_1, ...: a name that neither a node nor a scope has.
  std::string UniqueName(const std::string& base);
  // Brings the refiner up to `node`, which was just built.
  absl::Status Refine(const Node* node);
};

// The index of the invalid Output that an operator returns when there is no scope to build in.
// A builder that takes such an Output says so in its error.
inline constexpr int kBuiltNowhere = -1;

// One WithDevice or WithDeviceFunction, or (neither set) WithNoDevice.
struct DeviceEntry {
  std::string name;
  DeviceFunction fn;
  std::shared_ptr<const DeviceEntry> outer;
  // A chain of any length goes without recursion.
  ~DeviceEntry() {
    while (outer != nullptr && outer.use_count() == 1) outer = std::move(const_cast<DeviceEntry&>(*outer).outer);
  }
};

struct ScopeState {
  std::shared_ptr<ScopeShared> shared;
  std::string prefix;
  std::shared_ptr<const DeviceEntry> device;
  std::string container;
  Node* colocate = nullptr;
  std::vector<Node*> control;
  ControlFlowContext* context = nullptr;
  SourceLocation pinned;  // known: the line of every node, whoever builds it
};

// A copy for the outermost scope: no prefix, no control dependencies, outside of loops and
// branches.
std::shared_ptr<ScopeState> TopLevel(const ScopeState& state);
// The root scope over `graph`; null when no scope over it lives.
std::shared_ptr<const ScopeState> RootOver(const Graph& graph);
// The device that `entry` and what encloses it ask for, for `node`.
absl::StatusOr<std::string> RequestedDevice(const DeviceEntry* entry, Node* node);
// "loc:@x" lists that make a node colocated with `node`.
std::vector<std::string> ColocationGroups(const Node& node);

}  // namespace internal
}  // namespace troupe

#endif  // TROUPE_GRAPH_API_SCOPE_STATE_H_
