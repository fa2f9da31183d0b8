// An output that is some rows of an input, without a copy.
//
// Thread rule: the function belongs to the thread of its context.
#ifndef TROUPE_KERNELS_ARRAY_SHARE_ROWS_H_
#define TROUPE_KERNELS_ARRAY_SHARE_ROWS_H_

#include <utility>

#include "troupe/kernel.h"

namespace troupe::array {

// Output `o` is rows [start, limit) of `in`, sharing its buffer. RESOURCE_EXHAUSTED when there is
// no memory for the view itself. REQUIRES: RowsAreAligned.
inline absl::Status ShareRows(KernelContext& ctx, int o, const Tensor& in, int64_t start, int64_t limit) {
  Tensor rows = in.Slice(start, limit);
  if (!rows.valid()) return ResourceExhausted("no memory for a view of rows [", start, ", ", limit, ") of the input");
  ctx.set_output(o, std::move(rows));
  return absl::OkStatus();
}

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_ARRAY_SHARE_ROWS_H_
