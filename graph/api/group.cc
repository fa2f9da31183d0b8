#include "troupe/group.h"

#include "graph/api/scope_state.h"
#include "troupe/emit.h"
#include "troupe/graph.h"

namespace troupe {

namespace {

ScopeAt Named(const ScopeAt& at, const std::vector<Operation>& after, const char* name) {
  // With the caller's line: that is where an operation of another graph was handed in.
  Scope s = at->WithLocation(at.location()).WithControlDependencies(after);
  if (s.op_name().empty()) s = s.WithOpName(name);
  return ScopeAt(s, at.location());
}

// The device that all valid ones ask for; "" when they ask for several, or for none.
std::string CommonRequest(const std::vector<Operation>& ops) {
  const std::string* common = nullptr;
  for (const Operation& op : ops) {
    if (!op.valid()) continue;
    if (common != nullptr && *common != op.node()->requested_device()) return "";
    common = &op.node()->requested_device();
  }
  return common == nullptr ? "" : *common;
}

}  // namespace

Operation Group(const ScopeAt& at, const std::vector<Operation>& ops) {
  const Operation group = Emit(Named(at, ops, "group_deps"), "NoOp", {});
  // In a loop or a branch it would bring in a device that has no part in it.
  const ScopeState& state = *at->state();
  if (!group.valid() || state.colocate != nullptr || state.context != nullptr) return group;
  // Where all of them are: elsewhere each would have to tell another device, and what waits for
  // the group would hear it from there.
  if (std::string device = CommonRequest(ops); !device.empty()) group.node()->set_requested_device(std::move(device));
  return group;
}

Output After(const ScopeAt& at, const std::vector<Operation>& ops, const Output& value) {
  return EmitOp(Named(at, ops, "control_dependency"), "Identity", {value}).output(0);
}

}  // namespace troupe
