#include "troupe/train/rms_prop.h"

#include "graph/train/build.h"

namespace troupe::train {

// The variable, its slots and the scalars: what stands before the gradient.
std::vector<Input> RMSProp::Inputs(const Scope& scope, const Variable& var) {
  std::vector<Input> inputs = {var.handle()};
  const Variable squares = FilledSlot(scope, var, "RMSProp", 1);
  if (centered_) inputs.push_back(ZerosSlot(scope, var, "RMSProp_1").handle());
  inputs.push_back(squares.handle());
  inputs.push_back(ZerosSlot(scope, var, centered_ ? "RMSProp_2" : "RMSProp_1").handle());
  const DType dtype = var.variable_dtype();
  for (const Input& scalar :
       {As(scope, learning_rate_, dtype), Input(decay_), As(scope, momentum_, dtype), Input(epsilon_)}) {
    inputs.push_back(scalar);
  }
  return inputs;
}

Operation RMSProp::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  std::vector<Input> inputs = Inputs(scope, var);
  inputs.push_back(grad);
  return EmitOp(scope, ApplyOp(var, centered_ ? "ApplyCenteredRMSProp" : "ApplyRMSProp"), inputs);
}

Operation RMSProp::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  std::vector<Input> inputs = Inputs(scope, var);
  const IndexedSlices g = SumDuplicates(scope, grad);
  inputs.push_back(g.values);
  inputs.push_back(g.indices);
  return EmitOp(scope, ApplyOp(var, centered_ ? "SparseApplyCenteredRMSProp" : "SparseApplyRMSProp"), inputs);
}

}  // namespace troupe::train
