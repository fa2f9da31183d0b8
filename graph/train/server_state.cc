#include "troupe/train/server_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/api/scope_state.h"
#include "graph/core/device_name.h"
#include "graph/train/build.h"
#include "graph/train/set.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {

namespace {

std::string PlaceOf(size_t server) { return StrCat("servers/", server, "/replica"); }

// The task that the device names; none, when it does not.
std::optional<DeviceName> TaskOf(const std::string& device) {
  absl::StatusOr<DeviceName> name = DeviceName::Parse(device);
  if (!name.ok() || !name->job || !name->task) return std::nullopt;
  if (!name->replica) name->replica = 0;
  return *std::move(name);
}

}  // namespace

ServerState::ServerState(const ScopeAt& at, const Variable& global_step, const ServerStateOptions& options)
    : live_replicas_(options.live_replicas), global_step_(global_step) {
  if (!at.ok()) return;
  if (!global_step.handle().valid()) {
    at.Fail(InvalidArgument("the state of servers needs a global step"));
  } else if (const DType t = global_step.variable_dtype(); t != DType::kInt32 && t != DType::kInt64) {
    at.Fail(InvalidArgument("the global step '", global_step.variable_name(), "' is ", Name(t),
                            ", which is neither int32 nor int64"));
  } else if (options.live_replicas && !options.undo) {
    at.Fail(InvalidArgument("live replicas need undo, without which they could not be brought to one step"));
  } else {
    Build(at, options);
  }
}

void ServerState::Build(const ScopeAt& at, const ServerStateOptions& wanted) {
  const Scope top = Scope(internal::TopLevel(*at->state())).WithLocation(at.location());
  const auto server_of = [&](const Variable& v) -> Server& {
    const std::string& device = v.handle().node()->requested_device();
    // What dies together has one replica, and so replicas of one step.
    const std::optional<DeviceName> task = wanted.live_replicas ? TaskOf(device) : std::nullopt;
    const auto same = [&](const Server& s) {
      const std::optional<DeviceName> its = task ? TaskOf(s.device) : std::nullopt;
      return its ? its->SameTask(*task) : s.device == device;
    };
    auto it = std::find_if(servers_.begin(), servers_.end(), same);
    if (it == servers_.end()) it = servers_.insert(it, Server{.device = device});
    return *it;
  };
  server_of(global_step_);
  for (const Variable& v : VariablesIn(at, kGlobalVariables)) server_of(v).variables.push_back(v);
  for (const Variable& v : wanted.more) server_of(v).variables.push_back(v);
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
    if (!wanted.more.empty()) server.reached = number(StrCat("servers/", i, "/reached"), first);
    server.has_mark = server.mark.IsInitialized(here);
    unmarked.push_back(SetTo(here, server.mark, Const(here, int64_t{-1})));
    Copies& copies = copies_.emplace_back();
    for (const Variable& v : server.variables) {
      if (!wanted.undo || v.handle().node() == global_step_.handle().node()) continue;
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
  if (live_replicas_ && ChooseHolders(at)) BuildReplicas(at, s);
}

// The next server of another task, which does not die with it.
bool ServerState::ChooseHolders(const ScopeAt& at) {
  std::vector<DeviceName> names;
  for (const Server& server : servers_) {
    const std::optional<DeviceName> name = TaskOf(server.device);
    if (!name) {
      at.Fail(InvalidArgument("live replicas need servers that are tasks, and the variables of '", server.device,
                              "', the first of which is '", server.variables[0].variable_name(), "', name none"));
      return false;
    }
    names.push_back(*name);
  }
  const size_t n = servers_.size();
  for (size_t i = 0; i < n; ++i) {
    size_t k = 1;
    while (k < n && names[i].SameTask(names[(i + k) % n])) ++k;
    if (k == n) {
      // As it is spelled.
      const std::string task = DeviceName::Parse(servers_[i].device)->TaskName();
      at.Fail(InvalidArgument("live replicas need variables on two tasks, and all are on '", task, "'"));
      return false;
    }
    servers_[i].holder = (i + k) % n;
  }
  return true;
}

void ServerState::BuildReplicas(const ScopeAt& at, const Scope& s) {
  const Scope beside = s.ColocateWith(global_step_.handle());
  fed_step_ = train::Build(beside.WithOpName("step"), "Placeholder", {},
                           {{"dtype", DType::kInt64}, {"shape", PartialTensorShape(TensorShape())}});
  set_step_ =
      SetTo(beside.WithOpName("set_step"), global_step_, CastTo(beside, fed_step_, global_step_.variable_dtype()));
  for (size_t i = 0; i < servers_.size() && at.ok(); ++i) {
    Server& server = servers_[i];
    const Scope there = s.ColocateWith(servers_[server.holder].mark.handle());
    server.replicate = Replicate(s, i);
    server.replica = train::Build(there.WithOpName("replica"), "_NumberThere", {}, {{"shared_name", PlaceOf(i)}});
    std::vector<DType> types;
    std::vector<PartialTensorShape> shapes;
    for (const Variable& v : server.variables) {
      types.push_back(v.variable_dtype());
      shapes.push_back(v.variable_shape());
    }
    const Operation read = EmitOp(there.WithOpName("read_replica"), "_ReadNumbered", {fed_step_},
                                  {{"T", types}, {"shapes", shapes}, {"shared_name", PlaceOf(i)}});
    if (!read.valid()) return;
    std::vector<Operation> filled;
    for (size_t v = 0; v < server.variables.size(); ++v) {
      const Variable& variable = server.variables[v];
      filled.push_back(SetTo(s.ColocateWith(variable.handle()), variable, read.output(static_cast<int>(v))));
    }
    server.fill = Group(s.ColocateWith(server.mark.handle()).WithOpName("fill"), filled);
  }
}

Output ServerState::StepNow(const Scope& s) const {
  const Scope beside = s.ColocateWith(global_step_.handle());
  return CastTo(beside, global_step_.Read(beside), DType::kInt64);
}

// All values in one move: whoever dies when, what is there is of one step.
Operation ServerState::Replicate(const Scope& s, size_t server) const {
  const Server& of = servers_[server];
  std::vector<Input> values;
  for (const Variable& v : of.variables) values.emplace_back(v.Read(s.ColocateWith(v.handle())));
  return EmitLists(s.ColocateWith(servers_[of.holder].mark.handle()).WithOpName("replicate"), "_PutNumbered",
                   {InputList({Input(StepNow(s))}), InputList(values)}, {{"shared_name", PlaceOf(server)}});
}

// The mark last: with it, the copies are whole.
Operation ServerState::Keep(const Scope& s, size_t server) const {
  const Copies& copies = copies_[server];
  const Output step = StepNow(s);
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
  std::vector<Operation> replicated, kept;
  Scope s = at.Sub("keep").WithControlDependencies(done);
  for (size_t i = 0; live_replicas_ && i < servers_.size() && at.ok(); ++i) replicated.push_back(Replicate(s, i));
  if (!replicated.empty()) s = s.WithControlDependencies(replicated);
  for (size_t i = 0; i < servers_.size() && at.ok(); ++i) kept.push_back(Keep(s, i));
  return Group(s.ColocateWith(global_step_.handle()).WithOpName("kept"), kept);
}

}  // namespace troupe::train
