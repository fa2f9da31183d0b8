#include "troupe/train/gradient_descent.h"

#include "graph/train/build.h"

namespace troupe::train {

Operation GradientDescent::Apply(const Scope& scope, const Output& grad, const Variable& var) {
  return EmitOp(scope, ApplyOp(var, "ApplyGradientDescent"),
                {var.handle(), As(scope, learning_rate_, var.variable_dtype()), grad});
}

}  // namespace troupe::train
