#include "troupe/shape.h"

#include <algorithm>

#include "troupe/strings.h"

namespace troupe {
namespace {

// Checks rank and product; negative dimensions other than an allowed -1 are refused.
absl::Status Validate(absl::Span<const int64_t> dims, bool unknown_allowed) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(StrCat("a shape may have at most ", kMaxRank, " dimensions, not ", dims.size()));
  }
  int64_t product = 1;
  for (int64_t d : dims) {
    if (d < 0 && !(unknown_allowed && d == -1)) {
      return absl::InvalidArgumentError(StrCat("dimension ", d, " is negative"));
    }
    if (d > 0 && product >= 0) product = MultiplyWithoutOverflow(product, d);
  }
  // Also where a dimension is 0: num_elements() multiplies from the left and must never overflow.
  if (product < 0) {
    return absl::InvalidArgumentError("the number of elements does not fit into 64 bits");
  }
  return absl::OkStatus();
}

std::string Render(absl::Span<const int64_t> dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) s += ",";
    if (dims[i] < 0) {
      s += "?";
    } else {
      StrAppend(&s, dims[i]);
    }
  }
  return s + "]";
}

}  // namespace

int64_t MultiplyWithoutOverflow(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return -1;
  return r;
}

absl::StatusOr<TensorShape> TensorShape::Make(absl::Span<const int64_t> dims) {
  if (absl::Status s = Validate(dims, false); !s.ok()) return s;
  return TensorShape(dims);
}

std::string TensorShape::DebugString() const { return Render(dims_); }

PartialTensorShape PartialTensorShape::OfRank(int rank) {
  PartialTensorShape s;
  s.known_rank_ = true;
  s.dims_.assign(rank, -1);
  return s;
}

absl::StatusOr<PartialTensorShape> PartialTensorShape::Make(absl::Span<const int64_t> dims) {
  if (absl::Status s = Validate(dims, true); !s.ok()) return s;
  return PartialTensorShape(dims);
}

bool PartialTensorShape::IsFullyDefined() const {
  return known_rank_ && std::all_of(dims_.begin(), dims_.end(), [](int64_t d) { return d >= 0; });
}

int64_t PartialTensorShape::num_elements() const {
  if (!IsFullyDefined()) return -1;
  int64_t n = 1;
  for (int64_t d : dims_) n *= d;
  return n;
}

bool PartialTensorShape::IsCompatibleWith(const PartialTensorShape& o) const {
  if (!known_rank_ || !o.known_rank_) return true;
  if (dims_.size() != o.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (dims_[i] >= 0 && o.dims_[i] >= 0 && dims_[i] != o.dims_[i]) return false;
  }
  return true;
}

bool PartialTensorShape::IsCompatibleWith(const TensorShape& s) const {
  if (!known_rank_) return true;
  if (rank() != s.rank()) return false;
  for (int i = 0; i < s.rank(); ++i) {
    if (dims_[i] >= 0 && dims_[i] != s.dim(i)) return false;
  }
  return true;
}

absl::StatusOr<PartialTensorShape> PartialTensorShape::MergeWith(const PartialTensorShape& o) const {
  if (!IsCompatibleWith(o)) {
    return absl::InvalidArgumentError(
        StrCat("shapes ", DebugString(), " and ", o.DebugString(), " are not compatible"));
  }
  if (!known_rank_) return o;
  PartialTensorShape r = *this;
  if (!o.known_rank_) return r;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (r.dims_[i] < 0) r.dims_[i] = o.dims_[i];
  }
  return r;
}

std::string PartialTensorShape::DebugString() const { return known_rank_ ? Render(dims_) : "<unknown>"; }

absl::StatusOr<TensorShape> BroadcastShapes(const TensorShape& a, const TensorShape& b) {
  const int rank = std::max(a.rank(), b.rank());
  absl::InlinedVector<int64_t, 8> dims(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    if (da != db && da != 1 && db != 1) {
      return absl::InvalidArgumentError(StrCat("Incompatible shapes: ", a.DebugString(), " vs. ", b.DebugString()));
    }
    dims[i] = da == 1 ? db : da;
  }
  return TensorShape::Make(dims);
}

}  // namespace troupe
