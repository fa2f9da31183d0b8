// What x[a:b:c, ..., None, i] means: begin, end, strides and five bit masks, resolved against a
// shape.
//
// Bit k of a mask speaks about entry k of begin, end and strides ("sparse" entries):
//   begin_mask, end_mask   the entry's begin (end) is ignored: everything from (to) the end in the stride's direction
//   ellipsis_mask          the entry stands for as many whole dimensions as are left over; at most one; none = one behind the last entry
//   new_axis_mask          the entry takes no dimension and puts in one of size 1
//   shrink_axis_mask       the entry takes the single index `begin`, and its dimension is left out of the result
// Used by StridedSlice, its gradient and the ops that assign to a slice.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_ARRAY_STRIDED_SLICE_SPEC_H_
#define TROUPE_KERNELS_ARRAY_STRIDED_SLICE_SPEC_H_

#include <cstdint>

#include "kernels/common/int_args.h"
#include "troupe/attr_value.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::array {

struct SliceMasks {
  int64_t begin = 0, end = 0, ellipsis = 0, new_axis = 0, shrink_axis = 0;
};
// The attrs begin_mask ... shrink_axis_mask of a node; of a kernel's node, which fails when it has
// not got them; and as attrs of another node.
absl::StatusOr<SliceMasks> ReadSliceMasks(const AttrMap& attrs);
SliceMasks ReadSliceMasks(KernelInit& init);
AttrMap SliceMaskAttrs(GradientContext& g);

struct SlicePlan {
  // One per dimension of the sliced value: first index, step, and how many (-1 = unknown).
  Ints begin, stride, size;
  // The result with one entry per dimension of the value (where shrunk ones are 1), and as the op
  // gives it (-1 = unknown).
  Ints final_dims;
  // Every element in order: the result is the value under another shape.
  bool whole = false;
  // As `whole` but for dimension 0, of which a range is taken with step 1.
  bool rows = false;
};

// `shape` may have unknown dimensions but must have a rank; `begin` and `end` may be null when they
// are not known. INVALID_ARGUMENT for entries that do not fit each other or the shape, strides of
// 0, single indices out of range.
absl::StatusOr<SlicePlan> PlanStridedSlice(const PartialTensorShape& shape, const Tensor* begin, const Tensor* end,
                                           const Tensor& strides, const SliceMasks& masks);

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_ARRAY_STRIDED_SLICE_SPEC_H_
