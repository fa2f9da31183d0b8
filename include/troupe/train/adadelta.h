// Adadelta (Zeiler, 2012): steps in the ratio of the root mean squares of earlier steps and of the
// gradients.
//
//   accum = rho * accum + (1 - rho) * grad^2;  u = sqrt(updates + epsilon) / sqrt(accum + epsilon) * grad
//   updates = rho * updates + (1 - rho) * u^2;  var -= learning_rate * u
//
// Slots: "Adadelta" (accum) and "Adadelta_1" (updates).
//
// Source of the semantics: tf.train.AdadeltaOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_ADADELTA_H_
#define TROUPE_TRAIN_ADADELTA_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class Adadelta : public Optimizer {
 public:
  explicit Adadelta(Input learning_rate = 0.001, double rho = 0.95, double epsilon = 1e-8)
      : Optimizer("Adadelta"), learning_rate_(std::move(learning_rate)), rho_(rho), epsilon_(epsilon) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_;
  double rho_, epsilon_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ADADELTA_H_
