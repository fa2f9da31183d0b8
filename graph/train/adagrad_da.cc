#include "troupe/train/adagrad_da.h"

#include "graph/train/build.h"

namespace troupe::train {

void AdagradDA::Prepare(const Scope& scope, const std::vector<GradAndVar>&) {
  const Output step = CastTo(scope, global_step_, DType::kInt64);
  this_step_ = Build(scope, "AddV2", {step, 1});
}

Operation AdagradDA::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  const Variable sum = ZerosSlot(scope, var, "AdagradDA"), squares = FilledSlot(scope, var, "AdagradDA_1", initial_);
  return EmitOp(scope, ApplyOp(var, "ApplyAdagradDA"),
                {var.handle(), sum.handle(), squares.handle(), grad, As(scope, learning_rate_, var.variable_dtype()),
                 l1_, l2_, this_step_});
}

Operation AdagradDA::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Variable sum = ZerosSlot(scope, var, "AdagradDA"), squares = FilledSlot(scope, var, "AdagradDA_1", initial_);
  const IndexedSlices g = SumDuplicates(scope, grad);
  return EmitOp(scope, ApplyOp(var, "SparseApplyAdagradDA"),
                {var.handle(), sum.handle(), squares.handle(), g.values, g.indices,
                 As(scope, learning_rate_, var.variable_dtype()), l1_, l2_, this_step_});
}

}  // namespace troupe::train
