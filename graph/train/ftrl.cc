#include "troupe/train/ftrl.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation Ftrl::Update(const Scope& scope, std::string_view op, std::vector<Input> grad, const Variable& var) {
  const Variable accum = FilledSlot(scope, var, "Ftrl", options_.initial_accumulator);
  const Variable linear = ZerosSlot(scope, var, "Ftrl_1");
  std::vector<Input> inputs = {var.handle(), accum.handle(), linear.handle()};
  inputs.insert(inputs.end(), grad.begin(), grad.end());
  inputs.push_back(As(scope, learning_rate_, var.variable_dtype()));
  inputs.push_back(options_.l1);
  inputs.push_back(options_.l2);
  const bool shrinks = options_.l2_shrinkage > 0;
  if (shrinks) inputs.push_back(options_.l2_shrinkage);
  inputs.push_back(options_.learning_rate_power);
  return EmitOp(scope, ApplyOp(var, StrCat(op, shrinks ? "V2" : "")), inputs);
}

Operation Ftrl::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  return Update(scope, "ApplyFtrl", {grad}, var);
}

Operation Ftrl::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const IndexedSlices g = SumDuplicates(scope, grad);
  return Update(scope, "SparseApplyFtrl", {g.values, g.indices}, var);
}

}  // namespace troupe::train
