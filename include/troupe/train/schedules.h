// Learning rates that change with the step: scalars of the graph that are computed in each run.
//
// `rate` is a number or a scalar; the result has its type (float32 for a number). `step` is any
// scalar number, usually a Variable that Minimize increments.
//
// Source of the semantics: tf.train.exponential_decay, natural_exp_decay, inverse_time_decay,
// piecewise_constant, polynomial_decay and cosine_decay; WarmUp is Troupe's own.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_SCHEDULES_H_
#define TROUPE_TRAIN_SCHEDULES_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// rate * decay_rate ^ (step / decay_steps); with `staircase` the exponent is rounded down.
Output ExponentialDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double decay_rate,
                        bool staircase = false);
// rate * exp(-decay_rate * step / decay_steps)
Output NaturalExponentialDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps,
                               double decay_rate, bool staircase = false);
// rate / (1 + decay_rate * step / decay_steps)
Output InverseTimeDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double decay_rate,
                        bool staircase = false);
// values[0] up to and with step boundaries[0], values[1] up to and with boundaries[1], ..., then
// the last value. The scope's error unless there is one value more than boundaries and these grow.
Output PiecewiseConstant(const ScopeAt& at, const Output& step, const std::vector<double>& boundaries,
                         const std::vector<double>& values, DType dtype = DType::kFloat);
// (rate - end) * (1 - step / decay_steps) ^ power + end, and `end` after decay_steps; with `cycle`
// the decay starts again with a multiple of decay_steps.
Output PolynomialDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps,
                       double end = 0.0001, double power = 1.0, bool cycle = false);
// rate * ((1 - alpha) * (1 + cos(pi * step / decay_steps)) / 2 + alpha), and rate * alpha after
// decay_steps.
Output CosineDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double alpha = 0.0);

// The first `warm_steps` steps grow from `start` to `rate` in a line; then it is `rate`, which may
// be another schedule.
Output WarmUp(const ScopeAt& at, const Input& rate, const Output& step, double warm_steps, double start = 0.0);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SCHEDULES_H_
