// FTRL-Proximal (McMahan et al., 2013), with the shrinkage of the gradient that TensorFlow adds.
//
//   a = accum + grad^2;  p = -learning_rate_power
//   linear += grad + 2 * l2_shrinkage * var - (a^p - accum^p) / learning_rate * var
//   var = |linear| > l1 ? (sign(linear) * l1 - linear) / (a^p / learning_rate + 2 * l2) : 0;  accum = a
//
// Slots: "Ftrl" (accum, which begins with `initial_accumulator`) and "Ftrl_1" (linear).
//
// Source of the semantics: tf.train.FtrlOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_FTRL_H_
#define TROUPE_TRAIN_FTRL_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct FtrlOptions {
  double learning_rate_power = -0.5;
  double initial_accumulator = 0.1;
  double l1 = 0.0, l2 = 0.0, l2_shrinkage = 0.0;
};

class Ftrl : public Optimizer {
 public:
  explicit Ftrl(Input learning_rate, const FtrlOptions& options = {})
      : Optimizer("Ftrl"), learning_rate_(std::move(learning_rate)), options_(options) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Operation Update(const Scope& scope, std::string_view op, std::vector<Input> grad, const Variable& var);
  Input learning_rate_;
  FtrlOptions options_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_FTRL_H_
