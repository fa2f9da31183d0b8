// accum = momentum * accum + grad;  var -= learning_rate * accum
// With `nesterov`:  var -= learning_rate * (grad + momentum * accum)
// Slot: "Momentum".
//
// Source of the semantics: tf.train.MomentumOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_MOMENTUM_H_
#define TROUPE_TRAIN_MOMENTUM_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class Momentum : public Optimizer {
 public:
  Momentum(Input learning_rate, Input momentum, bool nesterov = false)
      : Optimizer("Momentum"),
        learning_rate_(std::move(learning_rate)),
        momentum_(std::move(momentum)),
        nesterov_(nesterov) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_, momentum_;
  bool nesterov_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_MOMENTUM_H_
