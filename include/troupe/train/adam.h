// Adam (Kingma and Ba, 2014), with the bias correction in the learning rate:
//
//   lr_t = learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t)
//   m = beta1 * m + (1 - beta1) * grad;   v = beta2 * v + (1 - beta2) * grad^2
//   var -= lr_t * m / (sqrt(v) + epsilon)
//
// A sparse gradient gives what the dense one with zeros in the other rows gives, as in TensorFlow:
// all moments decay, and all rows of the variable move, so that such a step takes as long as a
// dense one. With `lazy`, rows without a gradient stay as they are, moments and all; then a step
// costs what its rows cost.
//
// AdamW (Loshchilov and Hutter, 2017) subtracts weight_decay * var first: of the whole variable, or
// of the rows of a sparse gradient.
//
// Slots: "Adam" (m) and "Adam_1" (v). The powers of the betas are two variables, beta1_power and
// beta2_power, shared by all variables of one Adam and multiplied after all updates.
//
// Source of the semantics: tf.train.AdamOptimizer, tf.contrib.opt.LazyAdamOptimizer and
// AdamWOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_ADAM_H_
#define TROUPE_TRAIN_ADAM_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class Adam : public Optimizer {
 public:
  explicit Adam(Input learning_rate = 0.001, double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8,
                bool lazy = false)
      : Adam("Adam", std::move(learning_rate), beta1, beta2, epsilon, lazy) {}
  const Variable& beta1_power() const { return beta1_power_; }
  const Variable& beta2_power() const { return beta2_power_; }

 protected:
  void Prepare(const Scope& scope, const std::vector<GradAndVar>& grads) override;
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;
  std::vector<Operation> Finish(const Scope& scope, const std::vector<Operation>& updates) override;
  // For those that derive from it: `name` names the slots, too.
  Adam(const std::string& name, Input learning_rate, double beta1, double beta2, double epsilon, bool lazy)
      : Optimizer(name),
        learning_rate_(std::move(learning_rate)),
        beta1_(beta1),
        beta2_(beta2),
        epsilon_(epsilon),
        lazy_(lazy) {}

 private:
  // learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t)
  Output Rate(const Scope& scope, DType dtype) const;
  Input learning_rate_;
  double beta1_, beta2_, epsilon_;
  bool lazy_;
  Variable beta1_power_, beta2_power_;
};

// Slots: "AdamW" and "AdamW_1".
class AdamW : public Adam {
 public:
  explicit AdamW(double weight_decay, Input learning_rate = 0.001, double beta1 = 0.9, double beta2 = 0.999,
                 double epsilon = 1e-8, bool lazy = false)
      : Adam("AdamW", std::move(learning_rate), beta1, beta2, epsilon, lazy), weight_decay_(weight_decay) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  double weight_decay_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ADAM_H_
