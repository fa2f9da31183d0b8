#include "troupe/train/adadelta.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation Adadelta::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Variable accum = ZerosSlot(scope, var, "Adadelta"), updates = ZerosSlot(scope, var, "Adadelta_1");
  return EmitOp(scope, ApplyOp(var, "ApplyAdadelta"),
                {var.handle(), accum.handle(), updates.handle(), As(scope, learning_rate_, var.variable_dtype()), rho_,
                 epsilon_, grad});
}

Operation Adadelta::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Variable accum = ZerosSlot(scope, var, "Adadelta"), updates = ZerosSlot(scope, var, "Adadelta_1");
  const IndexedSlices g = SumDuplicates(scope, grad);
  return EmitOp(scope, ApplyOp(var, "SparseApplyAdadelta"),
                {var.handle(), accum.handle(), updates.handle(), As(scope, learning_rate_, var.variable_dtype()), rho_,
                 epsilon_, g.values, g.indices});
}

}  // namespace troupe::train
