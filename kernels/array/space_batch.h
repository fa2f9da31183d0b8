// Moving blocks of space into the batch dimension and back: what SpaceToBatchND, BatchToSpaceND and
// their two-dimensional versions share.
//
// For input [batch, space..., rest...] with M blocked dimensions: SpaceToBatch pads the space, cuts
// it into blocks of block_shape and moves the position inside the block to the front of batch:
// [prod(block) * batch, padded / block..., rest...]. BatchToSpace is the inverse and crops what was
// padded.
#ifndef TROUPE_KERNELS_ARRAY_SPACE_BATCH_H_
#define TROUPE_KERNELS_ARRAY_SPACE_BATCH_H_

#include "kernels/common/int_args.h"
#include "troupe/kernel.h"

namespace troupe::array {

// `borders` is the matrix [M, 2] of paddings (to_batch) or crops.
absl::Status MoveSpace(KernelContext& ctx, const Tensor& in, absl::Span<const int64_t> block, const Tensor& borders,
                       bool to_batch);
// The same for shapes; `block` and `borders` may be null when not known, then M must be given.
absl::Status MovedShape(InferenceContext& c, const PartialTensorShape& in, const Ints* block, const Tensor* borders,
                        int num_blocked, bool to_batch);

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_ARRAY_SPACE_BATCH_H_
