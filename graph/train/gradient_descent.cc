#include "troupe/train/gradient_descent.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation GradientDescent::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  return EmitOp(scope, ApplyOp(var, "ApplyGradientDescent"),
                {var.handle(), As(scope, learning_rate_, var.variable_dtype()), grad});
}

// Rows that are named twice are subtracted twice: no sum is needed before.
Operation GradientDescent::ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
  const Input rate = As(scope, learning_rate_, var.variable_dtype());
  return EmitOp(scope, ApplyOp(var, "ScatterSub"),
                {var.handle(), grad.indices, Build(scope, "Mul", {grad.values, rate})});
}

}  // namespace troupe::train
