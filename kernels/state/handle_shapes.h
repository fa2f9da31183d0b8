// Shape functions of ops that take a variable by handle or reference.
//
// Thread rule: as for all shape functions (troupe/shape_inference.h).
#ifndef TROUPE_KERNELS_STATE_HANDLE_SHAPES_H_
#define TROUPE_KERNELS_STATE_HANDLE_SHAPES_H_

#include "troupe/shape_inference.h"

namespace troupe::state {

// INVALID_ARGUMENT when the handle at input 0 is known to name a variable of another type than attr
// "dtype".
absl::Status CheckHandleType(InferenceContext& c, std::string_view attr = "dtype");
// Input `value` must fit the shape that the handle at input 0 names; no outputs.
absl::Status ValueFitsHandle(InferenceContext& c, int value);
// The shape of what input `i` (a handle or a reference) names.
PartialTensorShape NamedShape(const InferenceContext& c, int i = 0);

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_HANDLE_SHAPES_H_
