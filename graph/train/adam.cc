#include "troupe/train/adam.h"

#include <algorithm>

#include "graph/train/build.h"

namespace troupe::train {

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
  const Variable m = ZerosSlot(scope, var, "Adam"), v = ZerosSlot(scope, var, "Adam_1");
  const DType dtype = var.variable_dtype();
  return EmitOp(scope, ApplyOp(var, "ApplyAdam"),
                {var.handle(), m.handle(), v.handle(), CastTo(scope, beta1_power_, dtype),
                 CastTo(scope, beta2_power_, dtype), As(scope, learning_rate_, dtype), beta1_, beta2_, epsilon_, grad});
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
