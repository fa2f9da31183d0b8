#include "troupe/train/adagrad.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation Adagrad::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Variable accum = FilledSlot(scope, var, "Adagrad", initial_);
  return EmitOp(scope, ApplyOp(var, "ApplyAdagrad"),
                {var.handle(), accum.handle(), As(scope, learning_rate_, var.variable_dtype()), grad});
}

Operation Adagrad::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Variable accum = FilledSlot(scope, var, "Adagrad", initial_);
  const IndexedSlices g = SumDuplicates(scope, grad);
  return EmitOp(scope, ApplyOp(var, "SparseApplyAdagrad"),
                {var.handle(), accum.handle(), As(scope, learning_rate_, var.variable_dtype()), g.values, g.indices});
}

}  // namespace troupe::train
