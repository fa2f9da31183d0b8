// Adagrad (Duchi, Hazan and Singer, 2011): accum += grad^2;  var -= learning_rate * grad /
// sqrt(accum)
// Slot: "Adagrad", which begins with `initial_accumulator`.
//
// Source of the semantics: tf.train.AdagradOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_ADAGRAD_H_
#define TROUPE_TRAIN_ADAGRAD_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class Adagrad : public Optimizer {
 public:
  explicit Adagrad(Input learning_rate, double initial_accumulator = 0.1)
      : Optimizer("Adagrad"), learning_rate_(std::move(learning_rate)), initial_(initial_accumulator) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_;
  double initial_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ADAGRAD_H_
