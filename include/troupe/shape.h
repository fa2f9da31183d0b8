// Shapes: fully known (TensorShape) and partly known (PartialTensorShape), as value types.
//
// A TensorShape holds up to six dimensions in place and never allocates below that. Sizes are
// int64; a product that does not fit is refused where the shape is made, so num_elements() is
// always exact.
//
// Source of the semantics: tf.TensorShape; broadcasting is NumPy's.
//
// Thread rule: plain values; as for a std::vector.
#ifndef TROUPE_SHAPE_H_
#define TROUPE_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

inline constexpr int kMaxRank = 254;

class TensorShape {
 public:
  TensorShape() = default;  // a scalar
  // REQUIRES: every dimension >= 0 and the product fits into int64 (use Make for untrusted input).
  TensorShape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit TensorShape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}
  // INVALID_ARGUMENT for negative dimensions, more than 254 of them, or an overflowing product.
  static absl::StatusOr<TensorShape> Make(absl::Span<const int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  // REQUIRES, here and below: 0 <= i < rank() (at == rank() appends), sizes >= 0, and a product
  // that fits into int64.
  int64_t dim(int i) const { return dims_[i]; }
  void set_dim(int i, int64_t size) { dims_[i] = size; }
  void AddDim(int64_t size) { dims_.push_back(size); }
  void InsertDim(int at, int64_t size) { dims_.insert(dims_.begin() + at, size); }
  void RemoveDim(int i) { dims_.erase(dims_.begin() + i); }
  void Append(const TensorShape& tail) { dims_.insert(dims_.end(), tail.dims_.begin(), tail.dims_.end()); }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t d : dims_) n *= d;
    return n;
  }
  std::string DebugString() const;  // "[2,3]"

  friend bool operator==(const TensorShape& a, const TensorShape& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const TensorShape& a, const TensorShape& b) { return !(a == b); }

 private:
  absl::InlinedVector<int64_t, 6> dims_;
};

// Rank unknown, or rank known with dimensions that may each be unknown (-1).
class PartialTensorShape {
 public:
  PartialTensorShape() = default;  // unknown rank
  PartialTensorShape(std::initializer_list<int64_t> dims) : known_rank_(true), dims_(dims) {}
  explicit PartialTensorShape(absl::Span<const int64_t> dims) : known_rank_(true), dims_(dims.begin(), dims.end()) {}
  PartialTensorShape(const TensorShape& s)  // NOLINT: every full shape is a partial one
      : known_rank_(true), dims_(s.dims().begin(), s.dims().end()) {}
  // A shape of `rank` unknown dimensions.
  static PartialTensorShape OfRank(int rank);
  // INVALID_ARGUMENT for dimensions below -1, more than 254 of them, or an overflowing product of
  // the known ones.
  static absl::StatusOr<PartialTensorShape> Make(absl::Span<const int64_t> dims);

  bool known_rank() const { return known_rank_; }
  int rank() const { return known_rank_ ? static_cast<int>(dims_.size()) : -1; }
  // -1 when unknown. REQUIRES: known_rank() and 0 <= i < rank().
  int64_t dim(int i) const { return dims_[i]; }
  void set_dim(int i, int64_t size) { dims_[i] = size; }
  void AddDim(int64_t size) {
    dims_.push_back(size);
    known_rank_ = true;
  }
  absl::Span<const int64_t> dims() const { return dims_; }
  bool IsFullyDefined() const;
  // -1 unless fully defined.
  int64_t num_elements() const;
  // REQUIRES: IsFullyDefined().
  TensorShape AsTensorShape() const { return TensorShape(absl::MakeConstSpan(dims_)); }
  // Whether one shape could be described by both.
  bool IsCompatibleWith(const PartialTensorShape& other) const;
  bool IsCompatibleWith(const TensorShape& shape) const;
  // The shape that both describe; INVALID_ARGUMENT when they disagree.
  absl::StatusOr<PartialTensorShape> MergeWith(const PartialTensorShape& other) const;
  std::string DebugString() const;  // "<unknown>", "[2,?]"

  friend bool operator==(const PartialTensorShape& a, const PartialTensorShape& b) {
    return a.known_rank_ == b.known_rank_ && a.dims_ == b.dims_;
  }

 private:
  bool known_rank_ = false;
  absl::InlinedVector<int64_t, 6> dims_;
};

// NumPy broadcasting of two shapes; INVALID_ARGUMENT "Incompatible shapes: [..] vs. [..]" when
// impossible.
absl::StatusOr<TensorShape> BroadcastShapes(const TensorShape& a, const TensorShape& b);
// a * b, or -1 when the product of two non-negative numbers overflows.
int64_t MultiplyWithoutOverflow(int64_t a, int64_t b);

}  // namespace troupe

#endif  // TROUPE_SHAPE_H_
