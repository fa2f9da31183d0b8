#include "troupe/train/adam.h"

#include <algorithm>

#include "graph/train/build.h"
#include "troupe/group.h"

namespace troupe::train {
namespace {

Output RowsOf(const Scope& s, const Variable& var, const Output& indices) {
  return var.is_resource() ? Build(s, "ResourceGather", {var.handle(), indices}, {{"dtype", var.variable_dtype()}})
                           : Build(s, "Gather", {var.handle(), indices});
}

}  // namespace

void Adam::Prepare(const Scope& scope, const std::vector<GradAndVar>& grads) {
  if (beta1_power_.handle().valid()) return;
  // Beside the first variable by name, so that it does not depend on the order of the gradients.
  const auto first = std::min_element(grads.begin(), grads.end(), [](const GradAndVar& a, const GradAndVar& b) {
    return a.var.variable_name() < b.var.variable_name();
  });
  beta1_power_ = SharedVariable(scope, first->var, "beta1_power", beta1_);
  beta2_power_ = SharedVariable(scope, first->var, "beta2_power", beta2_);
}

Operation Adam::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Variable m = ZerosSlot(scope, var, name()), v = ZerosSlot(scope, var, name() + "_1");
  const DType dtype = var.variable_dtype();
  return EmitOp(scope, ApplyOp(var, "ApplyAdam"),
                {var.handle(), m.handle(), v.handle(), CastTo(scope, beta1_power_, dtype),
                 CastTo(scope, beta2_power_, dtype), As(scope, learning_rate_, dtype), beta1_, beta2_, epsilon_, grad});
}

Output Adam::Rate(const Scope& scope, DType dtype) const {
  const Output lr = AsOutput(scope, As(scope, learning_rate_, dtype), dtype);
  const Output power1 = CastTo(scope, beta1_power_, dtype), power2 = CastTo(scope, beta2_power_, dtype);
  const Output root = Build(scope, "Sqrt", {Build(scope, "Sub", {1.0, power2})});
  return Build(scope, "RealDiv", {Build(scope, "Mul", {lr, root}), Build(scope, "Sub", {1.0, power1})});
}

Operation Adam::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Variable m = ZerosSlot(scope, var, name()), v = ZerosSlot(scope, var, name() + "_1");
  const IndexedSlices g = SumDuplicates(scope, grad);
  const Output squares = Build(scope, "Mul", {g.values, g.values});
  const Output rate = Rate(scope, var.variable_dtype());
  const auto step = [&](const Scope& s, const Output& m_now, const Output& v_now) {
    const Output below = Build(s, "AddV2", {Build(s, "Sqrt", {v_now}), epsilon_});
    return Build(s, "RealDiv", {Build(s, "Mul", {m_now, rate}), below});
  };
  if (lazy_) {
    const auto rows = [&](const Variable& slot, double beta, const Output& part) {
      const Output old = RowsOf(scope, slot, g.indices);
      return Build(scope, "AddV2", {Build(scope, "Mul", {old, beta}), Build(scope, "Mul", {part, 1 - beta})});
    };
    const Output m_rows = rows(m, beta1_, g.values), v_rows = rows(v, beta2_, squares);
    const auto scatter = [&](const char* op, const Variable& to, const Output& what) {
      return EmitOp(scope, ApplyOp(to, op), {to.handle(), g.indices, what});
    };
    return Group(scope, {scatter("ScatterUpdate", m, m_rows), scatter("ScatterUpdate", v, v_rows),
                         scatter("ScatterSub", var, step(scope, m_rows, v_rows))});
  }
  // What slot becomes: all of it decays, and then the rows grow.
  const auto moment = [&](const Variable& slot, double beta, const Output& part) {
    const Output decayed = slot.Assign(scope, Build(scope, "Mul", {slot.Read(scope), beta}));
    const Scope after = scope.WithControlDependencies(decayed);
    const Output grown = Build(scope, "Mul", {part, 1 - beta});
    const Operation added = EmitOp(after, ApplyOp(slot, "ScatterAdd"), {slot.handle(), g.indices, grown});
    return slot.Read(scope.WithControlDependencies(added));
  };
  const Output m_now = moment(m, beta1_, g.values), v_now = moment(v, beta2_, squares);
  return Operation(var.AssignSub(scope, step(scope, m_now, v_now)));
}

// The decay waits for the gradient, which is that of the variable before it.
Operation AdamW::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Scope after = scope.WithControlDependencies(grad);
  const Output decayed = var.AssignSub(after, Build(after, "Mul", {var.Read(after), weight_decay_}));
  return Adam::Apply(scope.WithControlDependencies(decayed), grad, var);
}

Operation AdamW::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const IndexedSlices g = SumDuplicates(scope, grad);
  const Scope after = scope.WithControlDependencies(g.values);
  const Output rows = RowsOf(after, var, g.indices);
  const Operation decayed =
      EmitOp(after, ApplyOp(var, "ScatterSub"), {var.handle(), g.indices, Build(after, "Mul", {rows, weight_decay_})});
  return Adam::ApplySlices(scope.WithControlDependencies(decayed), g, var);
}

std::vector<Operation> Adam::Finish(const Scope& scope, const std::vector<Operation>& updates) {
  const Scope after = scope.WithControlDependencies(updates).ColocateWith(beta1_power_.handle());
  std::vector<Operation> ops;
  for (const auto& [power, beta] : {std::pair(&beta1_power_, beta1_), std::pair(&beta2_power_, beta2_)}) {
    ops.push_back(power->Assign(after, Build(after, "Mul", {*power, beta})));
  }
  return ops;
}

}  // namespace troupe::train
