#include "kernels/array/index_tuples.h"

namespace troupe::array {

absl::Status IndexTuples::BadTuple(const Tensor& indices, const TensorShape& shape) const {
  const int64_t n = indices.dim(indices.rank() - 1);
  Ints tuple, place;
  for (int64_t k = 0; k < n; ++k) tuple.push_back(IntAt(indices, bad * n + k));
  int64_t rest = bad;
  for (int k = outer.rank(); k-- > 0;) {
    place.insert(place.begin(), rest % outer.dim(k));
    rest /= outer.dim(k);
  }
  return InvalidArgument("indices[", StrJoin(place, ","), "] = [", StrJoin(tuple, ", "), "] does not index into shape ",
                         shape.DebugString());
}

absl::StatusOr<IndexTuples> ReadIndexTuples(const Tensor& indices, const TensorShape& shape) {
  if (indices.rank() < 1) return InvalidArgument("indices must be at least a vector, got a scalar");
  IndexTuples r;
  const int64_t n = indices.dim(indices.rank() - 1);
  if (n > shape.rank())
    return InvalidArgument("index innermost dimension length must be <= params rank; saw: ", n, " vs. ", shape.rank());
  int64_t count = 1;
  for (int k = 0; k + 1 < indices.rank(); ++k) {
    r.outer.AddDim(indices.dim(k));
    count *= indices.dim(k);
  }
  for (int k = static_cast<int>(n); k < shape.rank(); ++k) {
    r.slice_shape.AddDim(shape.dim(k));
    r.slice *= shape.dim(k);
  }
  r.offsets.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t index = IntAt(indices, i * n + k);
      if (index < 0 || index >= shape.dim(static_cast<int>(k))) {
        if (r.bad < 0) r.bad = i;
        offset = -1;
        break;
      }
      offset = offset * shape.dim(static_cast<int>(k)) + index;
    }
    r.offsets[static_cast<size_t>(i)] = offset < 0 ? -1 : offset * r.slice;
  }
  return r;
}

}  // namespace troupe::array
