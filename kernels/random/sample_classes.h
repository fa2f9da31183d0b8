// Drawing classes by their unnormalised log-probabilities: what Multinomial and
// StatelessMultinomial share.
#ifndef TROUPE_KERNELS_RANDOM_SAMPLE_CLASSES_H_
#define TROUPE_KERNELS_RANDOM_SAMPLE_CLASSES_H_

#include <functional>

#include "kernels/random/random_state.h"
#include "troupe/shape_inference.h"

namespace troupe::random {

// Output 0 [batch, num_samples] for logits at input 0 [batch, classes] and the scalar num_samples
// at input 1. `reserve(batch, num_samples)` gives the stream. INVALID_ARGUMENT for other shapes, no
// classes, or a negative number of samples.
absl::Status SampleClasses(KernelContext& ctx, const std::function<absl::StatusOr<Philox>(int64_t, int64_t)>& reserve);

absl::Status SampleClassesShape(InferenceContext& c);

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_SAMPLE_CLASSES_H_
