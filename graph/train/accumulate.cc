#include "troupe/train/accumulate.h"

#include "graph/api/scope_state.h"
#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {

Operation GradientAccumulator::Add(const ScopeAt& at, const std::vector<GradAndVar>& grads) {
  const Scope s = at.Sub(name_);
  if (!s.ok()) return Operation();
  if (count_.handle().valid()) {
    at.Fail(FailedPrecondition("a GradientAccumulator adds the gradients of one list only"));
    return Operation();
  }
  const Scope top(internal::TopLevel(*s.state()));
  VariableOptions options;
  options.trainable = false;
  options.name = StrCat(name_, "/count");
  count_ = Variable(top, int64_t{0}, options);
  std::vector<Operation> added;
  for (const GradAndVar& g : grads) {
    if (!g.grad.valid() || !s.ok()) continue;
    const PartialTensorShape& shape = g.var.variable_shape();
    if (!shape.IsFullyDefined()) {
      at.Fail(InvalidArgument("the gradients of '", g.var.variable_name(), "' cannot be added up: its shape is ",
                              shape.DebugString()));
      return Operation();
    }
    const DType dtype = g.var.variable_dtype();
    const Scope beside = top.ColocateWith(g.var.handle());
    options.name = StrCat(g.var.variable_name(), "/", name_);
    options.use_resource = g.var.is_resource();
    const Scope below = beside.NewSubScope(StrCat(options.name, "/Initializer"));
    const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    const Output zeros =
        Build(below.WithOpName("zeros"), "Fill",
              {Const(below, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims)))), Const(below, 0, dtype)},
              {{"index_type", DType::kInt64}});
    const Variable sum(beside, zeros, options);
    const Scope here = s.ColocateWith(sum.handle());
    if (const std::optional<IndexedSlices> slices = SlicesOf(here, g.grad)) {
      added.push_back(EmitOp(here, sum.is_resource() ? "ResourceScatterAdd" : "ScatterAdd",
                             {sum.handle(), slices->indices, CastTo(here, slices->values, dtype)}));
    } else {
      added.emplace_back(sum.AssignAdd(here, CastTo(here, g.grad, dtype)));
    }
    sums_.push_back({sum, g.var});
    variables_.push_back(sum);
  }
  if (sums_.empty()) {
    at.Fail(InvalidArgument("there are no gradients to add up"));
    return Operation();
  }
  added.emplace_back(count_.AssignAdd(s.WithControlDependencies(added), 1));
  return Group(s.WithOpName("add"), added);
}

Operation GradientAccumulator::Apply(const ScopeAt& at, Optimizer& optimizer, const Variable& global_step) {
  const Scope s = at.Sub(StrCat(name_, "_apply"));
  if (!s.ok()) return Operation();
  if (!count_.handle().valid()) {
    at.Fail(FailedPrecondition("a GradientAccumulator must add gradients (Add) before it applies them"));
    return Operation();
  }
  const Output count = count_.Read(s);
  const Operation some = EmitLists(
      s, "Assert", {InputList({Build(s, "Greater", {count, 0})}), InputList({Input("no gradients were added")})});
  const Scope checked = s.WithControlDependencies(some);
  std::vector<GradAndVar> means;
  std::vector<Output> values;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Scope here = checked.ColocateWith(variables_[i].handle());
    const Output divisor = CastTo(here, count, variables_[i].variable_dtype());
    values.push_back(Build(here, "RealDiv", {variables_[i].Read(here), divisor}));
    means.push_back({values.back(), sums_[i].var});
  }
  const Operation applied = optimizer.ApplyGradients(checked, means, global_step);
  if (!s.ok()) return Operation();
  const Scope after = s.WithControlDependencies(applied);
  std::vector<Operation> ops = {applied};
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Scope here = after.ColocateWith(variables_[i].handle());
    ops.emplace_back(variables_[i].Assign(here, Build(here, "ZerosLike", {values[i]})));
  }
  ops.emplace_back(count_.Assign(after, int64_t{0}));
  return Group(s.WithOpName("update"), ops);
}

}  // namespace troupe::train
