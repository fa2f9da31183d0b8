#include "troupe/tensor.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "troupe/resource.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

BufferKind KindOf(DType t) {
  if (t == DType::kString) return BufferKind::kStrings;
  return IsPlainBytes(t) ? BufferKind::kPlain : BufferKind::kHandles;
}

template <class T>
void AppendValue(std::string* out, const T& v) {
  if constexpr (std::is_same_v<T, std::string>) {
    StrAppend(out, "\"", CEscape(v), "\"");
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    StrAppend(out, "(", v.real(), ",", v.imag(), ")");
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    StrAppend(out, static_cast<float>(v));
  } else if constexpr (sizeof(T) == 1 && !std::is_same_v<T, bool>) {
    StrAppend(out, static_cast<int>(v));
  } else if constexpr (std::is_same_v<T, bool>) {
    out->append(v ? "true" : "false");
  } else {
    StrAppend(out, v);
  }
}

}  // namespace

Tensor::Tensor(Allocator* allocator, DType dtype, const TensorShape& shape) {
  const size_t size = SizeOf(dtype);
  // A shape that was not checked when it was made may have more elements than a number can tell.
  int64_t n = 1;
  for (int64_t d : shape.dims()) {
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) return;
  }
  if (size == 0 || shape.rank() > kMaxRank || n > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(size))
    return;
  buffer_ = allocator->Allocate(static_cast<size_t>(n) * size, KindOf(dtype));
  if (buffer_ == nullptr) return;
  dtype_ = dtype;
  try {
    SetShape(shape);
  } catch (...) {
    buffer_->Unref();
    throw;
  }
}

// Takes over a reference, also when it throws.
Tensor::Tensor(DType dtype, const TensorShape& shape, Buffer* buffer) : buffer_(buffer), dtype_(dtype) {
  try {
    SetShape(shape);
  } catch (...) {
    buffer_->Unref();
    throw;
  }
}

void Tensor::SetShape(const TensorShape& shape) {
  rank_ = static_cast<uint8_t>(shape.rank());
  bool heap = shape.rank() > kInPlace;
  for (int64_t d : shape.dims()) heap |= d > std::numeric_limits<uint32_t>::max();
  if (heap) {
    dims_.heap = new int64_t[rank_];
    std::copy(shape.dims().begin(), shape.dims().end(), dims_.heap);
    on_heap_ = true;
  } else {
    for (int i = 0; i < rank_; ++i) dims_.in_place[i] = static_cast<uint32_t>(shape.dim(i));
  }
}

void Tensor::CloneHeapDims() {
  auto* copy = new int64_t[rank_];
  std::copy(dims_.heap, dims_.heap + rank_, copy);
  dims_.heap = copy;
}

void Tensor::FreeHeapDims() { delete[] dims_.heap; }

TensorShape Tensor::shape() const {
  if (on_heap_) return TensorShape(absl::MakeConstSpan(dims_.heap, rank_));
  int64_t dims[kInPlace];
  for (int i = 0; i < rank_; ++i) dims[i] = dims_.in_place[i];
  return TensorShape(absl::MakeConstSpan(dims, rank_));
}

bool Tensor::HasShape(const TensorShape& s) const {
  if (s.rank() != rank_) return false;
  for (int i = 0; i < rank_; ++i) {
    if (dim(i) != s.dim(i)) return false;
  }
  return true;
}

Tensor Tensor::WithType(DType dtype, const TensorShape& shape) const {
  if (buffer_ == nullptr) return Tensor();
  CheckFits(dtype, shape);
  buffer_->Ref();
  return Tensor(dtype, shape, buffer_);
}

Tensor Tensor::ReshapedMove(const TensorShape& shape) && {
  if (buffer_ == nullptr) return Tensor();
  CheckFits(dtype_, shape);
  Tensor t;
  t.SetShape(shape);
  t.dtype_ = dtype_;
  t.buffer_ = std::exchange(buffer_, nullptr);
  return t;
}

void Tensor::CheckFits(DType dtype, const TensorShape& shape) const {
  int64_t n = static_cast<int64_t>(SizeOf(dtype));
  bool fits = n > 0 && shape.rank() <= kMaxRank && KindOf(dtype) == KindOf(dtype_);
  for (int64_t d : shape.dims()) fits = fits && d >= 0 && !__builtin_mul_overflow(n, d, &n);
  if (fits && static_cast<uint64_t>(n) <= buffer_->size()) return;
  throw std::logic_error(
      StrCat("the bytes of a tensor ", TypeAndShape(), " cannot be seen as ", Name(dtype), " ", shape.DebugString()));
}

Tensor Tensor::Slice(int64_t start, int64_t limit) const {
  if (buffer_ == nullptr || rank_ == 0 || start < 0 || limit < start || limit > dim(0)) [[unlikely]]
    throw std::logic_error(StrCat("a tensor ", TypeAndShape(), " has no rows ", start, " to ", limit));
  TensorShape s = shape();
  const int64_t row = s.dim(0) == 0 ? 0 : num_elements() / s.dim(0);
  s.set_dim(0, limit - start);
  const size_t row_bytes = static_cast<size_t>(row) * SizeOf(dtype_);
  Buffer* b = Buffer::Slice(buffer_, row_bytes * start, row_bytes * (limit - start));
  return b == nullptr ? Tensor() : Tensor(dtype_, s, b);
}

Tensor Tensor::CopyTo(Allocator* allocator) const {
  if (!valid() || memory() != MemoryKind::kHost) return Tensor();
  if (allocator != nullptr && allocator->memory() != MemoryKind::kHost && KindOf(dtype_) == BufferKind::kPlain)
    return Tensor();
  const BufferKind kind = KindOf(dtype_);
  const TensorShape its_shape = shape();  // before there is a buffer, since there may be no memory for it
  Buffer* b = allocator != nullptr ? allocator->Allocate(bytes(), kind) : buffer_->Another(bytes(), kind);
  if (b == nullptr) return Tensor();
  Tensor copy(dtype_, its_shape, b);
  switch (kind) {
    case BufferKind::kStrings:
      std::copy_n(static_cast<const std::string*>(raw()), num_elements(), static_cast<std::string*>(b->data()));
      break;
    case BufferKind::kHandles:
      std::copy_n(static_cast<const ResourceHandle*>(raw()), num_elements(), static_cast<ResourceHandle*>(b->data()));
      break;
    default:
      std::memcpy(b->data(), raw(), bytes());
  }
  return copy;
}

void Tensor::CheckAccess(DType want) const {
  if (!valid()) throw std::logic_error(StrCat("a tensor without a value was read as ", Name(want)));
  if (BaseType(dtype_) == want || IsRef(dtype_)) return;
  throw std::logic_error(StrCat("a tensor ", TypeAndShape(), " was read as ", Name(want)));
}

void Tensor::NoValue() { throw std::logic_error("the bytes of a tensor without a value were asked for"); }

void Tensor::CheckNotEmpty() const {
  if (num_elements() > 0) return;
  throw std::logic_error(StrCat("a tensor ", TypeAndShape(), " has no element to be read as a scalar"));
}

void Tensor::BadValues(size_t values) const {
  if (!valid())
    throw std::logic_error(StrCat("no memory for a tensor of ", values, " values, or its shape has too many elements"));
  throw std::logic_error(StrCat("a tensor ", TypeAndShape(), " was to be made of ", values, " values"));
}

std::string Tensor::TypeAndShape() const {
  if (!valid()) return "<no value>";
  return StrCat(Name(dtype_), " ", shape().DebugString());
}

std::string Tensor::DebugString(int max_entries) const {
  std::string s = TypeAndShape();
  if (!valid()) return s;
  if (memory() != MemoryKind::kHost) return s + " in a device's memory";
  s += " [";
  const int64_t n = num_elements();
  const int64_t shown = std::min<int64_t>(n, max_entries);
  for (int64_t i = 0; i < shown; ++i) {
    if (i > 0) s += " ";
    if (dtype_ == DType::kString) {
      AppendValue(&s, data<std::string>()[i]);
    } else if (!VisitNumeric(dtype_, false, [&]<class T>() {
                 AppendValue(&s, data<T>()[i]);
                 return true;
               })) {
      StrAppend(&s, IsPlainBytes(dtype_) ? "?" : static_cast<const ResourceHandle*>(raw())[i].name());
    }
  }
  if (shown < n) s += " ...";
  return s + "]";
}

}  // namespace troupe
