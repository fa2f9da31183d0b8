#include "troupe/train/in_graph_replicas.h"

#include <algorithm>
#include <utility>

#include "graph/core/guarded.h"
#include "graph/core/hash_map.h"
#include "graph/train/build.h"
#include "graph/train/set.h"
#include "graph/train/tower_variables.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {
InGraphReplicas::InGraphReplicas(const ScopeAt& at, const Tower& tower, const MakeOptimizer& optimizer,
                                 const Variable& global_step, const InGraphOptions& options)
    : options_(options) {
  if (!at.ok()) return;
  options_.all_reduce.mean = true;
  if (options_.devices.empty() || tower == nullptr || optimizer == nullptr) {
    at.Fail(InvalidArgument("InGraphReplicas needs devices, a function that builds a tower, and one that makes an ",
                            "optimizer"));
    return;
  }
  Build(at, tower, optimizer, global_step);
}

void InGraphReplicas::Build(const ScopeAt& at, const Tower& tower, const MakeOptimizer& optimizer,
                            const Variable& global_step) {
  const Scope s = at.Sub(options_.name);
  if (!BuildTowers(s, at, tower)) return;
  MeanLoss(s);
  std::vector<Operation> updates;
  const size_t slots_from = variables_[0].size();
  if (options_.variables == InGraphOptions::kShared) {
    updates.push_back(Apply(at.scope(), 0, optimizer, SharedMeans(s)));
  } else {
    const std::vector<std::vector<GradAndVar>> means = MirroredMeans(s);
    for (size_t r = 0; r < means.size() && at.ok(); ++r) updates.push_back(Apply(on_[r], r, optimizer, means[r]));
  }
  if (!at.ok()) return;
  for (const std::vector<Variable>& of_replica : variables_) {
    if (of_replica.size() == variables_[0].size()) continue;
    return at.Fail(
        InvalidArgument("the optimizers of replicas make different variables: ", variables_[0].size() - slots_from,
                        " for replica 0, but ", of_replica.size() - slots_from, " for another"));
  }
  update_ = Group(s.WithOpName("update"), updates);
  if (global_step.handle().valid()) {
    const Scope after = s.WithControlDependencies(update_).ColocateWith(global_step.handle());
    update_ = Operation(global_step.AssignAdd(after.WithOpName("step"), Const(after, 1, global_step.variable_dtype())));
  }
  std::vector<Variable> all = VariablesIn(at, kGlobalVariables);
  for (size_t r = 1; r < variables_.size(); ++r) all.insert(all.end(), variables_[r].begin(), variables_[r].end());
  initializer_ = VariablesInitializer(s.WithOpName("init"), all);
}

bool InGraphReplicas::BuildTowers(const Scope& s, const ScopeAt& at, const Tower& tower) {
  TowerVariables variables(at.scope(), options_.variables == InGraphOptions::kMirrored);
  for (size_t r = 0; r < options_.devices.size() && at.ok(); ++r) {
    const Scope inner = s.NewSubScope(StrCat("tower_", r));
    const Scope on = options_.devices[r].empty() ? inner : inner.WithDevice(options_.devices[r]);
    on_.push_back(on);
    Output loss;
    variables.During(on.prefix(), [&] {
      const absl::Status called = Guarded(StrCat("the function of tower ", r), [&] {
        loss = tower(on, static_cast<int>(r));
        return absl::OkStatus();
      });
      if (!called.ok()) at.Fail(called);
    });
    if (!at.ok()) return false;
    if (!loss.valid() || !IsFloating(loss.dtype()) || !s.ShapeOf(loss).IsCompatibleWith(TensorShape())) {
      at.Fail(InvalidArgument("the loss of tower ", r, " is no scalar of floating type: '", loss.name(), "' is ",
                              loss.valid() ? Name(loss.dtype()) : "nothing",
                              loss.valid() ? s.ShapeOf(loss).DebugString() : ""));
      return false;
    }
    losses_.push_back(loss);
    const size_t own = variables.made().back().size(), first = variables.made().front().size();
    if (own != first) {
      at.Fail(InvalidArgument("towers make different variables: tower ", r, " makes ", own, ", tower 0 makes ", first));
      return false;
    }
  }
  variables_ = variables.made();
  if (options_.variables == InGraphOptions::kShared) variables_.resize(1);
  trainable_ = variables.trainable();
  return at.ok();
}

void InGraphReplicas::MeanLoss(const Scope& s) {
  std::vector<Output> losses;
  for (size_t r = 0; r < losses_.size(); ++r) losses.push_back(CastTo(on_[r], losses_[r], DType::kFloat));
  const Output sum = SumOf(s, losses);
  loss_ = train::Build(s.WithOpName("loss"), "Div", {sum, Const(s, replicas(), DType::kFloat)});
}

// A variable that a tower uses and did not make has no mirror beside it: it would get no gradient
// of this tower, or none at all.
bool InGraphReplicas::CheckAllMirrored(const Scope& s, size_t replica, const std::vector<GradAndVar>& others) {
  for (const GradAndVar& g : others) {
    if (!g.grad.valid()) continue;
    s.UpdateStatus(InvalidArgument("tower ", replica, " trains '", g.var.variable_name(),
                                   "', which it did not make: make it in the function that builds a tower, or share ",
                                   "variables"));
    return false;
  }
  return s.ok();
}

std::vector<GradAndVar> InGraphReplicas::GradientsOf(size_t replica, const std::vector<Variable>& vars) const {
  const Scope& on = on_[replica];
  GradientOptions options;
  options.unconnected = Unconnected::kNone;
  options.recompute = options_.recompute;
  const std::string& prefix = on.prefix();
  for (std::string& scope : options.recompute.scopes) {
    scope = scope.empty() ? prefix.substr(0, prefix.size() - 1) : StrCat(prefix, scope);
  }
  std::vector<GradAndVar> result;
  if (vars.empty() || !on.ok()) return result;
  const std::vector<Output> grads =
      Gradients(on, {losses_[replica]}, std::vector<Output>(vars.begin(), vars.end()), {}, options);
  for (size_t i = 0; i < vars.size() && i < grads.size(); ++i) result.push_back({grads[i], vars[i]});
  return result;
}

std::vector<std::vector<GradAndVar>> InGraphReplicas::MirroredMeans(const Scope& s) const {
  std::vector<std::vector<GradAndVar>> grads;
  std::vector<std::vector<Output>> values;
  const std::vector<Variable> listed = VariablesIn(s, kTrainableVariables);
  for (size_t r = 0; r < on_.size() && s.ok(); ++r) {
    std::vector<Variable> vars;
    for (size_t i = 0; i < trainable_.size(); ++i) {
      if (trainable_[i]) vars.push_back(variables_[r][i]);
    }
    const auto own = static_cast<std::ptrdiff_t>(vars.size());
    HashSet<const Node*> known;
    for (const Variable& v : vars) known.insert(v.handle().node());
    const auto add = [&](const Variable& v) {
      if (known.insert(v.handle().node()).second) vars.push_back(v);
    };
    for (const Variable& v : listed) add(v);
    // Those of the towers before it, which are in no list.
    for (size_t other = 0; other < r; ++other) {
      for (size_t i = 0; i < trainable_.size(); ++i) {
        if (trainable_[i]) add(variables_[other][i]);
      }
    }
    // One pass gives the gradients of both: what others would get is not built where there is none.
    const std::vector<GradAndVar> all = GradientsOf(r, vars);
    if (!s.ok() || !CheckAllMirrored(s, r, {all.begin() + own, all.end()})) return {};
    grads.emplace_back(all.begin(), all.begin() + own);
    std::vector<Output>& list = values.emplace_back();
    for (const GradAndVar& g : grads[r]) list.push_back(CastTo(on_[r], g.grad, g.var.variable_dtype()));
  }
  if (!s.ok()) return {};
  const auto means = AllReduceLists(s, values, options_.devices, options_.all_reduce);
  if (!s.ok()) return {};
  for (size_t r = 0; r < grads.size(); ++r) {
    for (size_t i = 0; i < grads[r].size(); ++i) grads[r][i].grad = means[r][i];
  }
  return grads;
}

// Beside each variable, in the order of the replicas.
std::vector<GradAndVar> InGraphReplicas::SharedMeans(const Scope& s) const {
  const std::vector<Variable> vars = VariablesIn(s, kTrainableVariables);
  std::vector<std::vector<GradAndVar>> grads;
  for (size_t r = 0; r < on_.size() && s.ok(); ++r) grads.push_back(GradientsOf(r, vars));
  std::vector<GradAndVar> means;
  for (size_t i = 0; i < vars.size() && s.ok(); ++i) {
    const Scope here = s.ColocateWith(vars[i].handle());
    const DType dtype = vars[i].variable_dtype();
    const Output count = Const(here, replicas(), dtype), first = grads[0][i].grad;
    means.push_back({Output(), vars[i]});
    const auto uses = [&](const auto& g) { return g[i].grad.valid(); };
    const auto other =
        std::find_if(grads.begin(), grads.end(), [&](const auto& g) { return uses(g) != first.valid(); });
    if (other != grads.end()) {
      // As of mirrors: with its mean over those that have one, the replicas would not be one batch.
      const auto r = static_cast<size_t>(other - grads.begin());
      s.UpdateStatus(InvalidArgument("the loss of replica ", first.valid() ? 0 : r, " depends on variable '",
                                     vars[i].variable_name(), "', but that of replica ", first.valid() ? r : 0,
                                     " does not"));
      break;
    }
    if (!first.valid()) continue;
    std::vector<Output> dense, indices, values;
    const bool sliced =
        std::all_of(grads.begin(), grads.end(), [i](const auto& g) { return IsSlices(g[i].grad.out()); });
    Output shape;
    for (size_t r = 0; r < grads.size(); ++r) {
      if (!sliced) {
        dense.push_back(CastTo(on_[r], grads[r][i].grad, dtype));
      } else if (const std::optional<IndexedSlices> slices = SlicesOf(on_[r], grads[r][i].grad)) {
        indices.push_back(slices->indices);
        values.push_back(CastTo(on_[r], slices->values, dtype));
        if (r == 0) shape = slices->dense_shape;
      }
    }
    if (!s.ok()) break;
    if (sliced) {
      const Output mean = train::Build(here, "Div", {JoinRows(here, values), count});
      means.back().grad = FromSlices(here, {mean, JoinRows(here, indices), shape});
    } else {
      means.back().grad = train::Build(here, "Div", {SumOf(here, dense), count});
    }
  }
  return means;
}

// The optimizer's slots are those of this replica; of mirrors, they are in no collection either.
Operation InGraphReplicas::Apply(const Scope& s, size_t replica, const MakeOptimizer& make,
                                 const std::vector<GradAndVar>& means) {
  if (!s.ok()) return Operation();
  std::vector<std::string>& listed = s.graph()->collection(kGlobalVariables);
  const size_t before = listed.size();
  Operation applied;
  const absl::Status called = Guarded("the function that makes an optimizer", [&]() -> absl::Status {
    const std::unique_ptr<Optimizer> optimizer = make(s);
    if (optimizer == nullptr) return InvalidArgument("it made none");
    applied = optimizer->ApplyGradients(s, means);
    return absl::OkStatus();
  });
  if (!called.ok()) s.UpdateStatus(called);
  if (!s.ok()) return applied;
  const std::vector<std::string> slots(listed.begin() + static_cast<std::ptrdiff_t>(before), listed.end());
  for (const std::string& name : slots) variables_[replica].push_back(Variable::Find(s, name));
  if (replica > 0) listed.resize(before);
  return applied;
}

Operation InGraphReplicas::Mirror(const ScopeAt& at) const {
  std::vector<Operation> all;
  for (int r = 1; r < static_cast<int>(variables_.size()); ++r) all.push_back(Copy(at, 0, r));
  return Group(at->WithOpName("mirror"), all);
}

Operation InGraphReplicas::Copy(const ScopeAt& at, int from, int to) const {
  if (!at.ok()) return Operation();
  const auto known = [this](int r) { return r >= 0 && r < static_cast<int>(variables_.size()); };
  if (!known(from) || !known(to)) {
    at.Fail(OutOfRange("there are variables of replicas 0 to ", static_cast<int>(variables_.size()) - 1,
                       ", and none can be copied from ", from, " to ", to));
    return Operation();
  }
  const Scope s = at.Sub(StrCat("copy_", from, "_to_", to));
  std::vector<Operation> set;
  for (size_t i = 0; i < variables_[static_cast<size_t>(to)].size(); ++i) {
    const Variable &source = variables_[static_cast<size_t>(from)][i], &target = variables_[static_cast<size_t>(to)][i];
    set.push_back(SetTo(s.ColocateWith(target.handle()), target, source.Read(s.ColocateWith(source.handle()))));
  }
  return Group(s, set);
}

}  // namespace troupe::train
