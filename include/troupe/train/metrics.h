// Measures of a model that are gathered over many steps, as tf.metrics does.
//
// Each has two or more local variables (collection "local_variables", set to zero by
// LocalVariablesInitializer). `update` takes in what a step computed, and gives the value after it;
// `value` is the value so far, without the step. Counts are float32.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_METRICS_H_
#define TROUPE_TRAIN_METRICS_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct Metric {
  Output value, update;             // float32 scalars
  std::vector<Variable> variables;  // zero them to begin anew
};

// Labels, predictions and weights are paired element by element. Their shapes must be equal but for
// dimensions of one element; weights may be a scalar, too. Else it is INVALID_ARGUMENT: of the
// scope where the shapes are known, or of the step. Weights whose rank is not known until the
// step are only asked for their number of elements.

// sum(values * weights) / sum(weights); 0 before the first update.
Metric MeanMetric(const ScopeAt& at, const Output& values, const Output& weights = {});
// The share of predictions that equal their labels.
Metric AccuracyMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights = {});
// true positives / (true positives + false positives), of labels and predictions that are cast to
// bool; 0 when nothing was predicted positive.
Metric PrecisionMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights = {});
// true positives / (true positives + false negatives)
Metric RecallMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights = {});

enum class AucCurve { kRoc, kPrecisionRecall };
// The area under the curve of predictions in [0, 1], by trapezoids between `thresholds` points.
Metric AucMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights = {},
                 int thresholds = 200, AucCurve curve = AucCurve::kRoc);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_METRICS_H_
