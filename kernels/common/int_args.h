// Integer tensors as arguments: shapes, axes, permutations, sizes, paddings. Values are read as
// int64 whatever the tensor's integer type.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_COMMON_INT_ARGS_H_
#define TROUPE_KERNELS_COMMON_INT_ARGS_H_

#include <cstdint>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "troupe/shape_inference.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::array {

using Ints = absl::InlinedVector<int64_t, 8>;

// Element i of an integer tensor. REQUIRES: an integer (or bool) dtype and i < num_elements().
int64_t IntAt(const Tensor& t, int64_t i = 0);
// All elements, row-major.
Ints ReadInts(const Tensor& t);
// Writes `values` into an int32 or int64 tensor. INVALID_ARGUMENT when one does not fit.
absl::Status WriteInts(absl::Span<const int64_t> values, Tensor* t);

// The vector as a TensorShape. INVALID_ARGUMENT "shape must be a vector of {int32,int64}, got shape
// [..]", or for negative sizes and overflow.
absl::StatusOr<TensorShape> ReadShape(const Tensor& t);

// The single element of a scalar (or one-element) tensor; INVALID_ARGUMENT "`what` must be a
// scalar, got shape [2]".
absl::StatusOr<int64_t> ReadScalar(const Tensor& t, std::string_view what);
// `axis` counted from the front; INVALID_ARGUMENT "`what` must be in the range [-2, 2), got 2".
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what = "axis");

// For shape functions: the scalar value of constant input i; `known` is false when it is not known.
// Errors as ReadScalar.
struct KnownInt {
  bool known = false;
  int64_t value = 0;
};
absl::StatusOr<KnownInt> ConstantScalar(const InferenceContext& c, int i, std::string_view what);

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_COMMON_INT_ARGS_H_
