#include "troupe/train/server_state.h"

#include <algorithm>

#include "graph/api/scope_state.h"
#include "graph/train/build.h"
#include "graph/train/set.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {

ServerState::ServerState(const ScopeAt& at, const Variable& global_step, bool undo, const std::vector<Variable>& more)
    : global_step_(global_step) {
  if (!at.ok()) return;
  if (global_step.handle().valid()) {
    Build(at, undo, more);
  } else {
    at.Fail(InvalidArgument("the state of servers needs a global step"));
  }
}

void ServerState::Build(const ScopeAt& at, bool undo, const std::vector<Variable>& more) {
  const Scope top = Scope(internal::TopLevel(*at->state())).WithLocation(at.location());
  const auto server_of = [this](const Variable& v) -> Server& {
    const std::string& device = v.handle().node()->requested_device();
    const auto same = [&](const Server& s) { return s.device == device; };
    auto it = std::find_if(servers_.begin(), servers_.end(), same);
    if (it == servers_.end()) it = servers_.insert(it, Server{.device = device});
    return *it;
  };
  server_of(global_step_);
  for (const Variable& v : VariablesIn(at, kGlobalVariables)) server_of(v).variables.push_back(v);
  for (const Variable& v : more) server_of(v).variables.push_back(v);
  if (!at.ok()) return;

  // They belong to no collection: nobody but the chief sets or saves them.
  VariableOptions options{.trainable = false, .collections = {}};
  const auto number = [&](const std::string& name, const Variable& beside) {
    options.name = name;
    return Variable(top.ColocateWith(beside.handle()), int64_t{0}, options);
  };
  ended_ = number("servers/ended", global_step_);
  const Scope s = top.NewSubScope("servers").ColocateWith(global_step_.handle());
  begin_ = SetTo(s, ended_, Const(s, int64_t{0}));
  end_ = Operation(ended_.AssignAdd(s, int64_t{1}));
  std::vector<Operation> unmarked;
  for (size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    if (server.variables.empty())
      return at.Fail(InvalidArgument("the global step is not in the collection of variables"));
    const Variable& first = server.variables[0];
    server.mark = number(StrCat("servers/", i, "/mark"), first);
    const Scope here = s.ColocateWith(first.handle());
    if (!more.empty()) server.reached = number(StrCat("servers/", i, "/reached"), first);
    server.has_mark = server.mark.IsInitialized(here);
    unmarked.push_back(SetTo(here, server.mark, Const(here, int64_t{-1})));
    Copies& copies = copies_.emplace_back();
    for (const Variable& v : server.variables) {
      if (!undo || v.handle().node() == global_step_.handle().node()) continue;
      options.name = StrCat("servers/kept/", v.variable_name());
      options.use_resource = v.is_resource();
      const Scope beside = top.ColocateWith(v.handle());
      copies.of.push_back(v);
      const Output zeros = train::Build(beside.WithOpName(StrCat(options.name, "/zeros")), "ZerosLike", {v});
      copies.to.emplace_back(beside, zeros, options);
      options.use_resource = true;
    }
    if (!at.ok()) return;
    server.keep = Keep(s, i);
    std::vector<Operation> undone;
    for (size_t c = 0; c < copies.of.size(); ++c) {
      const Scope where = s.ColocateWith(copies.of[c].handle());
      undone.push_back(SetTo(where, copies.of[c], copies.to[c].Read(where)));
    }
    server.undo = Group(here.WithOpName("undo"), undone);
  }
  unmark_ = Group(s.WithOpName("unmark"), unmarked);
}

// The mark last: with it, the copies are whole.
Operation ServerState::Keep(const Scope& s, size_t server) const {
  const Copies& copies = copies_[server];
  const Scope beside = s.ColocateWith(global_step_.handle());
  const Output step = CastTo(beside, global_step_.Read(beside), DType::kInt64);
  const Variable &mark = servers_[server].mark, &reached = servers_[server].reached;
  const Scope there = s.ColocateWith(mark.handle());
  Scope then = s;
  if (reached.handle().valid()) then = s.WithControlDependencies(SetTo(there, reached, step));
  std::vector<Operation> kept;
  for (size_t c = 0; c < copies.of.size(); ++c) {
    const Scope where = then.ColocateWith(copies.of[c].handle());
    kept.push_back(SetTo(where, copies.to[c], copies.of[c].Read(where)));
  }
  return SetTo(there.WithControlDependencies(kept), mark, step);
}

Operation ServerState::KeepAfter(const ScopeAt& at, const Operation& done) const {
  std::vector<Operation> kept;
  const Scope s = at.Sub("keep").WithControlDependencies(done);
  for (size_t i = 0; i < servers_.size() && at.ok(); ++i) kept.push_back(Keep(s, i));
  return Group(s.WithOpName("kept"), kept);
}

}  // namespace troupe::train
