// Penalties for large weights, which are added to a loss.
//
// Source of the semantics: tf.contrib.layers.l1_regularizer, l2_regularizer and sum_regularizer.
// Weights are of floating type, and so is the scalar, of the same one.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_REGULARIZERS_H_
#define TROUPE_TRAIN_REGULARIZERS_H_

#include <functional>
#include <vector>

#include "troupe/export.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// From weights to a scalar.
using Regularizer = std::function<Output(const ScopeAt& at, const Output& weights)>;

// scale * sum |w|
Regularizer L1Regularizer(double scale);
// scale * sum w^2 / 2
Regularizer L2Regularizer(double scale);
// The sum of several.
Regularizer SumRegularizer(std::vector<Regularizer> regularizers);
// The sum of what the regularizer gives for each of these; of all trainable variables when there
// are none given. The scope's error when there is none at all.
Output RegularizationLoss(const ScopeAt& at, const Regularizer& regularizer, const std::vector<Variable>& weights = {});

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_REGULARIZERS_H_
