// Adam (Kingma and Ba, 2014), with the bias correction in the learning rate:
//
//   lr_t = learning_rate * sqrt(1 - beta2^t) / (1 - beta1^t)
//   m = beta1 * m + (1 - beta1) * grad;   v = beta2 * v + (1 - beta2) * grad^2
//   var -= lr_t * m / (sqrt(v) + epsilon)
//
// Slots: "Adam" (m) and "Adam_1" (v). The powers of the betas are two variables, beta1_power and
// beta2_power, shared by all variables of one Adam and multiplied after all updates.
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
  explicit Adam(Input learning_rate = 0.001, double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8)
      : Optimizer("Adam"), learning_rate_(std::move(learning_rate)), beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {}
  const Variable& beta1_power() const { return beta1_power_; }
  const Variable& beta2_power() const { return beta2_power_; }

 protected:
  void Prepare(const Scope& scope, const std::vector<GradAndVar>& grads) override;
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  std::vector<Operation> Finish(const Scope& scope, const std::vector<Operation>& updates) override;

 private:
  Input learning_rate_;
  double beta1_, beta2_, epsilon_;
  Variable beta1_power_, beta2_power_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ADAM_H_
