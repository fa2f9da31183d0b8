// accum = momentum * accum + grad;  var -= learning_rate * accum
// With `nesterov`:  var -= learning_rate * (grad + momentum * accum)
// Slot: "Momentum".
#ifndef TROUPE_TRAIN_MOMENTUM_H_
#define TROUPE_TRAIN_MOMENTUM_H_

#include "troupe/train/optimizer.h"

namespace troupe::train {

class Momentum : public Optimizer {
 public:
  Momentum(Input learning_rate, Input momentum, bool nesterov = false)
      : Optimizer("Momentum"),
        learning_rate_(std::move(learning_rate)),
        momentum_(std::move(momentum)),
        nesterov_(nesterov) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;

 private:
  Input learning_rate_, momentum_;
  bool nesterov_;
};

}  // namespace troupe::train

#endif  // TROUPE_TRAIN_MOMENTUM_H_
