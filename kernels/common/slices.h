// The gradient of picked rows with respect to all of them, as slices (troupe/slices_mark.h).
//
// Thread rule: as for GradientContext: one thread builds a graph.
#ifndef TROUPE_KERNELS_COMMON_SLICES_H_
#define TROUPE_KERNELS_COMMON_SLICES_H_

#include "troupe/gradient_function.h"

namespace troupe {

// `grad` belongs to rows[indices], of shape `indices` + rows[1:]. `shape` is the shape of `rows` as
// a vector of int32 or int64, `known` as much of it as is known statically.
NodeOut RowsGradient(GradientContext& g, NodeOut grad, NodeOut indices, NodeOut shape, const PartialTensorShape& known);

}  // namespace troupe

#endif  // TROUPE_KERNELS_COMMON_SLICES_H_
