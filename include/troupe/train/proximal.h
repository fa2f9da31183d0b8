// Gradient descent and Adagrad, each step followed by the proximal step of the norms l1 and l2
// (Duchi and Singer, 2009): with the step's rate r,
//
//   x = var - r * grad;  var = sign(x) * max(|x| - r * l1, 0) / (1 + r * l2)
//
// Slot of ProximalAdagrad: "ProximalAdagrad", the sum of the squares, as in Adagrad.
//
// Source of the semantics: tf.train.ProximalGradientDescentOptimizer and ProximalAdagradOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_PROXIMAL_H_
#define TROUPE_TRAIN_PROXIMAL_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class ProximalGradientDescent : public Optimizer {
 public:
  explicit ProximalGradientDescent(Input learning_rate, double l1 = 0.0, double l2 = 0.0)
      : Optimizer("ProximalGradientDescent"), learning_rate_(std::move(learning_rate)), l1_(l1), l2_(l2) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_;
  double l1_, l2_;
};

class ProximalAdagrad : public Optimizer {
 public:
  explicit ProximalAdagrad(Input learning_rate, double initial_accumulator = 0.1, double l1 = 0.0, double l2 = 0.0)
      : Optimizer("ProximalAdagrad"),
        learning_rate_(std::move(learning_rate)),
        initial_(initial_accumulator),
        l1_(l1),
        l2_(l2) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_;
  double initial_, l1_, l2_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_PROXIMAL_H_
