// Index tuples of GatherNd, ScatterNd and TensorScatter*: a tensor [outer..., n] whose last
// dimension holds indices into the first n dimensions of a value.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_ARRAY_INDEX_TUPLES_H_
#define TROUPE_KERNELS_ARRAY_INDEX_TUPLES_H_

#include <vector>

#include "kernels/common/bad_indices.h"
#include "kernels/common/int_args.h"
#include "troupe/kernel.h"

namespace troupe::array {

struct IndexTuples {
  std::vector<int64_t> offsets;  // of each slice in the value, in elements; -1 when the tuple is out of range
  TensorShape outer;             // shape of the tuples without the last dimension
  TensorShape slice_shape;       // the value's remaining dimensions
  int64_t slice = 1;             // elements of a slice
  int64_t bad = -1;              // the first tuple that is out of range
  // "indices[3] = [0, 7] does not index into shape [2,4]"
  absl::Status BadTuple(const Tensor& indices, const TensorShape& shape) const;
};
// INVALID_ARGUMENT when `indices` is a scalar or its tuples are longer than `shape`.
absl::StatusOr<IndexTuples> ReadIndexTuples(const Tensor& indices, const TensorShape& shape);

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_ARRAY_INDEX_TUPLES_H_
