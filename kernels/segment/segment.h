// Sums, means, products and extremes of rows by segment: SegmentSum and its sorted relatives,
// UnsortedSegmentSum and its unsorted ones.
#ifndef TROUPE_KERNELS_SEGMENT_SEGMENT_H_
#define TROUPE_KERNELS_SEGMENT_SEGMENT_H_

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::math {

enum class SegmentOp : uint8_t { kSum, kMean, kProd, kMax, kMin };

// Sorted: ids do not fall, segments are 0 to the last id, those without rows are 0 (1 for Prod).
absl::StatusOr<PreparedKernel> MakeSegment(KernelInit& init, SegmentOp op);
// Unsorted: input 2 says how many segments, rows with negative ids are left out, segments without
// rows are the identity of the op.
absl::StatusOr<PreparedKernel> MakeUnsortedSegment(KernelInit& init, SegmentOp op);
template <SegmentOp kOp>
absl::StatusOr<PreparedKernel> SegmentFactory(KernelInit& init) {
  return MakeSegment(init, kOp);
}
template <SegmentOp kOp>
absl::StatusOr<PreparedKernel> UnsortedSegmentFactory(KernelInit& init) {
  return MakeUnsortedSegment(init, kOp);
}

absl::Status SegmentShape(InferenceContext& c);
absl::Status UnsortedSegmentShape(InferenceContext& c);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_SEGMENT_SEGMENT_H_
