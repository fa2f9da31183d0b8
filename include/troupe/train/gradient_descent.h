// var -= learning_rate * grad
#ifndef TROUPE_TRAIN_GRADIENT_DESCENT_H_
#define TROUPE_TRAIN_GRADIENT_DESCENT_H_

#include "troupe/train/optimizer.h"

namespace troupe::train {

class GradientDescent : public Optimizer {
 public:
  // A number, or a scalar of the graph (a schedule).
  explicit GradientDescent(Input learning_rate)
      : Optimizer("GradientDescent"), learning_rate_(std::move(learning_rate)) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;

 private:
  Input learning_rate_;
};

}  // namespace troupe::train

#endif  // TROUPE_TRAIN_GRADIENT_DESCENT_H_
