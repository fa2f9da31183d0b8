// Adagrad with dual averaging, for sparse models (Duchi, Hazan and Singer, 2011): sums of the
// gradients and of their squares decide each value anew.
//
//   g += grad;  s += grad^2
//   var = -learning_rate * sign(g) * max(|g| - l1 * t, 0) / (l2 * t * learning_rate + sqrt(s))
//
// where t is 1 + `global_step`. Slots: "AdagradDA" (g) and "AdagradDA_1" (s).
//
// Source of the semantics: tf.train.AdagradDAOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_ADAGRAD_DA_H_
#define TROUPE_TRAIN_ADAGRAD_DA_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class AdagradDA : public Optimizer {
 public:
  // `global_step`: any integer scalar that counts the steps before this one.
  AdagradDA(Input learning_rate, Output global_step, double initial_squared_accumulator = 0.1, double l1 = 0.0,
            double l2 = 0.0)
      : Optimizer("AdagradDA"),
        learning_rate_(std::move(learning_rate)),
        global_step_(std::move(global_step)),
        initial_(initial_squared_accumulator),
        l1_(l1),
        l2_(l2) {}

 protected:
  void Prepare(const Scope& scope, const std::vector<GradAndVar>& grads) override;
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_;
  Output global_step_, this_step_;
  double initial_, l1_, l2_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ADAGRAD_DA_H_
