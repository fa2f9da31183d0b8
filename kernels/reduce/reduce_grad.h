// Gradients of reductions: bringing values of the output's shape back to the input's.
//
// Thread rule: as for GradientContext: one thread builds a graph.
#ifndef TROUPE_KERNELS_REDUCE_REDUCE_GRAD_H_
#define TROUPE_KERNELS_REDUCE_REDUCE_GRAD_H_

#include <vector>

#include "kernels/common/grad_math.h"

namespace troupe::math {

// The axes of a reduction as dimensions >= 0 when they are a constant, or a Range or Pack of
// constants (and of the input's Rank), and the rank of the input is known. A scalar has none,
// whatever the axes are.
bool StaticAxes(GradientContext& g, std::vector<int64_t>* axes);
// `v` (of the output's shape, with or without keep_dims) reshaped so that it broadcasts against
// input 0: reduced dimensions are 1.
Value KeepDims(GradientContext& g, const Value& v);
// `v` repeated to the shape of input 0.
Value SpreadOverInput(GradientContext& g, const Value& v);
// How many elements of input 0 make one element of the output, as a scalar of v's type; at least 1.
Value ReducedCount(GradientContext& g, const Value& v);
// The gradient of Max and Min: shared in equal parts by the elements that equal the output.
absl::Status SharedByExtremes(GradientContext& g);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_REDUCE_REDUCE_GRAD_H_
