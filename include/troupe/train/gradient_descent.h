// var -= learning_rate * grad
//
// Source of the semantics: tf.train.GradientDescentOptimizer.
//
// Thread rule: that of Optimizer.
#ifndef TROUPE_TRAIN_GRADIENT_DESCENT_H_
#define TROUPE_TRAIN_GRADIENT_DESCENT_H_

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class GradientDescent : public Optimizer {
 public:
  // A number, or a scalar of the graph (a schedule).
  explicit GradientDescent(Input learning_rate)
      : Optimizer("GradientDescent"), learning_rate_(std::move(learning_rate)) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override;
  Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) override;

 private:
  Input learning_rate_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_GRADIENT_DESCENT_H_
