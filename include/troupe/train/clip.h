// Bounds the size of gradients.
//
// Of slices (troupe/indexed_slices.h) the values are clipped, and the result consists of slices
// again. As in TensorFlow, each value counts by itself: where a row is named twice, its two values
// are clipped, and enter a norm, before they are summed.
//
// Source of the semantics: tf.clip_by_value, tf.clip_by_norm, tf.global_norm and
// tf.clip_by_global_norm. Results have the dtypes and shapes of what is clipped, which is of
// floating type; norms are scalars.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_CLIP_H_
#define TROUPE_TRAIN_CLIP_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// Every element forced into [min, max] (numbers, or tensors that broadcast to x).
Output ClipByValue(const ScopeAt& at, const Output& x, const Input& min, const Input& max);
// x scaled down so that its Euclidean norm is at most `clip_norm`; x itself when it is. With
// `axes`, each norm is taken over these dimensions.
Output ClipByNorm(const ScopeAt& at, const Output& x, const Input& clip_norm, const std::vector<int>& axes = {});
// The Euclidean norm of all elements of all tensors together. Invalid ones count as zeros.
Output GlobalNorm(const ScopeAt& at, const std::vector<Output>& list);
// All tensors scaled by clip_norm / max(norm, clip_norm), where norm is their global norm (or
// `use_norm`). When the norm is infinite or NaN every element becomes NaN, so that it is noticed.
// Invalid ones stay so.
std::vector<Output> ClipByGlobalNorm(const ScopeAt& at, const std::vector<Output>& list, const Input& clip_norm,
                                     const Output& use_norm = {});
// As above, for what an optimizer computed.
std::vector<GradAndVar> ClipByGlobalNorm(const ScopeAt& at, std::vector<GradAndVar> grads, const Input& clip_norm);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_CLIP_H_
