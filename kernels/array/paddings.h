// The paddings matrix [rank, 2] of Pad, PadV2, MirrorPad and MirrorPadGrad: how many elements are
// put before and behind each dimension.
#ifndef TROUPE_KERNELS_ARRAY_PADDINGS_H_
#define TROUPE_KERNELS_ARRAY_PADDINGS_H_

#include "kernels/common/int_args.h"

namespace troupe::array {

struct Paddings {
  Ints before, after;
  TensorShape shape;  // of the padded value
  bool none = true;   // all are 0
};

// INVALID_ARGUMENT for a matrix that does not fit `in`, negative paddings, or a padded shape that
// is too big.
absl::StatusOr<Paddings> ReadPaddings(const Tensor& in, const Tensor& paddings);
// Shape function: input 0 padded by input 1.
absl::Status PaddedShape(InferenceContext& c);

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_ARRAY_PADDINGS_H_
