#include "troupe/train/momentum.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation Momentum::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Variable accum = ZerosSlot(scope, var, "Momentum");
  const DType dtype = var.variable_dtype();
  return EmitOp(scope, ApplyOp(var, "ApplyMomentum"),
                {var.handle(), accum.handle(), As(scope, learning_rate_, dtype), grad, As(scope, momentum_, dtype)},
                {{"use_nesterov", nesterov_}});
}

Operation Momentum::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Variable accum = ZerosSlot(scope, var, "Momentum");
  const DType dtype = var.variable_dtype();
  const IndexedSlices g = SumDuplicates(scope, grad);
  return EmitOp(scope, ApplyOp(var, "SparseApplyMomentum"),
                {var.handle(), accum.handle(), As(scope, learning_rate_, dtype), g.values, g.indices,
                 As(scope, momentum_, dtype)},
                {{"use_nesterov", nesterov_}});
}

}  // namespace troupe::train
