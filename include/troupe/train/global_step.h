// The global step: the number of updates that a model has had. An int64 variable "global_step", not
// trainable, in the collections "variables" and "global_step".
//
// Source: tf.train.get_or_create_global_step.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_GLOBAL_STEP_H_
#define TROUPE_TRAIN_GLOBAL_STEP_H_

#include "troupe/export.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

inline constexpr char kGlobalStep[] = "global_step";

// The graph's global step, made on the first call.
Variable GetOrCreateGlobalStep(const ScopeAt& at);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_GLOBAL_STEP_H_
