#include "troupe/group.h"

#include "troupe/emit.h"

namespace troupe {

namespace {

ScopeAt Named(const ScopeAt& at, const std::vector<Operation>& after, const char* name) {
  // With the caller's line: that is where an operation of another graph was handed in.
  Scope s = at->WithLocation(at.location()).WithControlDependencies(after);
  if (s.op_name().empty()) s = s.WithOpName(name);
  return ScopeAt(s, at.location());
}

}  // namespace

Operation Group(const ScopeAt& at, const std::vector<Operation>& ops) {
  return Emit(Named(at, ops, "group_deps"), "NoOp", {});
}

Output After(const ScopeAt& at, const std::vector<Operation>& ops, const Output& value) {
  return EmitOp(Named(at, ops, "control_dependency"), "Identity", {value}).output(0);
}

}  // namespace troupe
