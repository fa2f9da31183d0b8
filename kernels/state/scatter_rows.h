// Updates of some rows of a variable: what the Scatter and ScatterNd ops share.
//
// Indices become row numbers that are checked first, so that a refused update writes nothing. Rows
// are then shared out among the threads by row number: updates of one row happen on one thread, in
// the order of the indices, and results do not depend on the number of threads.
//
// Thread rule: each function belongs to the thread of its context; a kernel has no state of its
// own.
#ifndef TROUPE_KERNELS_STATE_SCATTER_ROWS_H_
#define TROUPE_KERNELS_STATE_SCATTER_ROWS_H_

#include <algorithm>
#include <vector>

#include "kernels/common/bad_indices.h"
#include "kernels/state/variable_owner.h"
#include "kernels/state/variable_slot.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::state {

enum class ScatterOp : uint8_t { kUpdate, kAdd, kSub, kMul, kDiv, kMin, kMax };

// For each i: rows[indices[i]] of `slot`, seen as [first dimension, rest], op= updates[i].
// `updates` has the shape of indices + rest, or is a scalar that stands for every element.
// INVALID_ARGUMENT for other shapes, an index out of range ("indices[2] = 7 is not in [0, 5)"), or
// an integer division by zero.
absl::Status ScatterRows(KernelContext& ctx, VariableSlot* slot, const Tensor& indices, const Tensor& updates,
                         ScatterOp op);

// As ScatterRows with indices [..., K] of which each names a slice slot[i0, ..., iK-1]. With
// `skip_bad`, an index out of range updates nothing.
absl::Status ScatterSlices(KernelContext& ctx, VariableSlot* slot, const Tensor& indices, const Tensor& updates,
                           ScatterOp op, bool skip_bad);

// The row numbers that `indices` (int32 or int64, any shape) name, each checked against `limit`.
absl::StatusOr<std::vector<int64_t>> CheckedRows(const Tensor& indices, int64_t limit);
// The numbers of the slices of `shape` that `indices` [..., K] name; -1 for one out of range when
// `skip_bad`.
absl::StatusOr<std::vector<int64_t>> CheckedSlices(const Tensor& indices, const TensorShape& shape, bool skip_bad);

// Output 0, of shape `shape`, made of the rows (of `row_elements` elements each) of `value` with
// these numbers.
absl::Status GatherRows(KernelContext& ctx, const Tensor& value, const std::vector<int64_t>& rows, int64_t row_elements,
                        const TensorShape& shape);

// Calls f(i, rows[i]) for each i with rows[i] in [0, num_rows), which takes `ns` nanoseconds. Calls
// of one row are made one after the other, in the order of i.
template <class F>
void ForEachRow(KernelContext& ctx, int64_t num_rows, const std::vector<int64_t>& rows, double ns, const F& f) {
  const auto n = static_cast<int64_t>(rows.size());
  // Each thread looks at all row numbers and calls f for those of its range.
  ctx.threads()->ParallelFor(num_rows,
                             static_cast<double>(n) * ns / static_cast<double>(std::max<int64_t>(num_rows, 1)),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = 0; i < n; ++i) {
                                 if (rows[i] >= begin && rows[i] < end) f(i, rows[i]);
                               }
                             });
}

// Kernels of the ops: input 0 is a reference or a handle, 1 the indices, 2 the updates; output 0,
// if there is one, is the reference.
template <ScatterOp kOp>
absl::Status ComputeScatter(KernelContext& ctx);

template <ScatterOp kOp>
class ScatterNdKernel {
 public:
  explicit ScatterNdKernel(KernelInit& init) : skip_bad_(ReadBadIndexPolicy(init) == BadIndexPolicy::kIgnore) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, ctx.input(2).dtype()));
    TROUPE_RETURN_IF_ERROR(ScatterSlices(ctx, slot, ctx.input(1), ctx.input(2), kOp, skip_bad_));
    if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  const bool skip_bad_;
};

// Shape functions: of the forms by index along dimension 0, and of those by slice.
absl::Status ScatterShape(InferenceContext& c);
absl::Status ScatterNdShape(InferenceContext& c);

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_SCATTER_ROWS_H_
