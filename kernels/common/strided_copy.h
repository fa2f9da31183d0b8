// The copy behind slice, transpose, tile, broadcast, concat, split, pad, pack, reverse,
// space-to-batch and their inverses.
//
// Each of them is a box of elements that is walked with one set of strides in the source and
// another in the destination:
//
//   dst[dst_offset + sum(i_k * dst_stride_k)] = src[src_offset + sum(i_k * src_stride_k)]  for all i in the box
//
// Strides count elements; a source stride of 0 repeats, a negative one reverses. Run finds the runs
// that are contiguous on both sides (memcpy), tiles the walks whose unit strides lie on different
// axes (transposes), and shares big copies among the compute threads. A box without elements copies
// nothing.
//
// Thread rule: Run may be called from several threads on disjoint destinations.
#ifndef TROUPE_KERNELS_COMMON_STRIDED_COPY_H_
#define TROUPE_KERNELS_COMMON_STRIDED_COPY_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "troupe/compute_threads.h"
#include "troupe/dtype.h"

namespace troupe::array {

struct CopyAxis {
  int64_t size, dst_stride, src_stride;
};
using CopyAxes = absl::InlinedVector<CopyAxis, 8>;

struct StridedCopy {
  CopyAxes axes;  // outermost first
  int64_t dst_offset = 0, src_offset = 0;

  void Add(int64_t size, int64_t dst_stride, int64_t src_stride) { axes.push_back({size, dst_stride, src_stride}); }
  void Run(ComputeThreads* threads, DType t, void* dst, const void* src) const;
};

// The strides of a dense row-major array.
using Strides = absl::InlinedVector<int64_t, 8>;
Strides DenseStrides(absl::Span<const int64_t> dims);

// The same walk with axes of size 1 dropped and neighbours merged where both sides allow it.
// Exposed for tests.
CopyAxes SimplifyAxes(const CopyAxes& axes);

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_COMMON_STRIDED_COPY_H_
