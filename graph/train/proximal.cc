#include "troupe/train/proximal.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation ProximalGradientDescent::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  return EmitOp(scope, ApplyOp(var, "ApplyProximalGradientDescent"),
                {var.handle(), As(scope, learning_rate_, var.variable_dtype()), l1_, l2_, grad});
}

Operation ProximalGradientDescent::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const IndexedSlices g = SumDuplicates(scope, grad);
  return EmitOp(scope, ApplyOp(var, "SparseApplyProximalGradientDescent"),
                {var.handle(), As(scope, learning_rate_, var.variable_dtype()), l1_, l2_, g.values, g.indices});
}

Operation ProximalAdagrad::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Variable accum = FilledSlot(scope, var, "ProximalAdagrad", initial_);
  return EmitOp(scope, ApplyOp(var, "ApplyProximalAdagrad"),
                {var.handle(), accum.handle(), As(scope, learning_rate_, var.variable_dtype()), l1_, l2_, grad});
}

Operation ProximalAdagrad::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Variable accum = FilledSlot(scope, var, "ProximalAdagrad", initial_);
  const IndexedSlices g = SumDuplicates(scope, grad);
  return EmitOp(
      scope, ApplyOp(var, "SparseApplyProximalAdagrad"),
      {var.handle(), accum.handle(), As(scope, learning_rate_, var.variable_dtype()), l1_, l2_, g.values, g.indices});
}

}  // namespace troupe::train
