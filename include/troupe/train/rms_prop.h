// RMSProp (Tieleman and Hinton, 2012): gradients divided by the root of their mean square.
//
//   ms = decay * ms + (1 - decay) * grad^2
//   mom = momentum * mom + learning_rate * grad / sqrt(ms + epsilon);  var -= mom
//
// With `centered` the variance stands in place of the mean square: ms - mg^2, where mg is the mean
// of the gradients. Slots: "RMSProp" (ms, which begins with ones), then (centered) mg, then mom, in
// the names "RMSProp_1" and "RMSProp_2".
//
// Source of the semantics: tf.train.RMSPropOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_RMS_PROP_H_
#define TROUPE_TRAIN_RMS_PROP_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class RMSProp : public Optimizer {
 public:
  explicit RMSProp(Input learning_rate, double decay = 0.9, Input momentum = 0.0, double epsilon = 1e-10,
                   bool centered = false)
      : Optimizer("RMSProp"),
        learning_rate_(std::move(learning_rate)),
        momentum_(std::move(momentum)),
        decay_(decay),
        epsilon_(epsilon),
        centered_(centered) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  std::vector<Input> Inputs(const Scope& scope, const Variable& var);
  Input learning_rate_, momentum_;
  double decay_, epsilon_;
  bool centered_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_RMS_PROP_H_
