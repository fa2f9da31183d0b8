// Tensor: a dtype, a shape and a reference-counted buffer; 32 bytes, copying is a pointer copy.
//
// Values are row-major and dense. Two tensors may share a buffer (copy, reshape, slice along
// dimension 0); write only to a tensor that owns its buffer alone (`BufferUnique`). Those that a
// Session returns do. A default Tensor has no dtype and no buffer: "no value".
//
// Source of the semantics: TensorFlow's Tensor and TensorProto for dtypes, shapes and order of
// elements.
//
// Thread rule: as for a std::shared_ptr: distinct Tensor objects may be used from different threads
// even when they share a buffer, as long as no thread writes to it.
#ifndef TROUPE_TENSOR_H_
#define TROUPE_TENSOR_H_

#include <cassert>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "troupe/buffer.h"
#include "troupe/dtype.h"
#include "troupe/export.h"
#include "troupe/shape.h"

namespace TROUPE_EXPORT troupe {

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& o) : Tensor(o, nullptr) {
    if (buffer_ != nullptr) buffer_->Ref();
  }
  Tensor(Tensor&& o) noexcept { Steal(o); }
  Tensor& operator=(const Tensor& o) {
    Tensor copy(o);
    Swap(copy);
    return *this;
  }
  Tensor& operator=(Tensor&& o) noexcept {
    if (this != &o) {
      Destroy();
      Steal(o);
    }
    return *this;
  }
  ~Tensor() { Destroy(); }

  // A tensor with uninitialised elements (strings empty, handles unbound) from the CPU heap. Check
  // `valid()`: it is false when memory is exhausted, the shape has a negative dimension or the
  // dtype is none. (A reference type's elements are handles: the runtime's.)
  Tensor(DType dtype, const TensorShape& shape) : Tensor(Allocator::Cpu(), dtype, shape) {}
  Tensor(Allocator* allocator, DType dtype, const TensorShape& shape);
  // Takes over one reference of `buffer`, which must hold at least the shape's bytes.
  Tensor(DType dtype, const TensorShape& shape, Buffer* buffer);

  template <class T>
  static Tensor Scalar(T value) {
    Tensor t(kDTypeOf<T>, TensorShape());
    *t.data<T>() = std::move(value);
    return t;
  }
  static Tensor Scalar(const char* value) { return Scalar<std::string>(value); }
  // A vector; with `shape`, a tensor of that shape. REQUIRES: as many values as the shape has
  // elements.
  template <class T>
  static Tensor Of(absl::Span<const T> values, const TensorShape& shape) {
    Tensor t(kDTypeOf<T>, shape);
    if (static_cast<int64_t>(values.size()) != t.num_elements() || !t.valid()) [[unlikely]]
      t.BadValues(values.size());
    std::copy(values.begin(), values.end(), t.data<T>());
    return t;
  }
  template <class T>
  static Tensor Of(std::initializer_list<T> values, const TensorShape& shape) {
    return Of<T>(absl::Span<const T>(values.begin(), values.size()), shape);
  }
  template <class T>
  static Tensor Vector(std::initializer_list<T> values) {
    return Of<T>(values, TensorShape({static_cast<int64_t>(values.size())}));
  }
  template <class T>
  static Tensor Vector(absl::Span<const T> values) {
    return Of<T>(values, TensorShape({static_cast<int64_t>(values.size())}));
  }

  bool valid() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int i) const { return on_heap_ ? dims_.heap[i] : dims_.in_place[i]; }
  int64_t num_elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dim(i);
    return n;
  }
  TensorShape shape() const;
  bool SameShape(const Tensor& o) const {
    if (rank_ != o.rank_) return false;
    for (int i = 0; i < rank_; ++i) {
      if (dim(i) != o.dim(i)) return false;
    }
    return true;
  }
  bool HasShape(const TensorShape& s) const;
  // Bytes of the elements (of the objects, for strings).
  size_t bytes() const { return static_cast<size_t>(num_elements()) * SizeOf(dtype_); }

  // The elements. REQUIRES: the tensor has a value and T is dtype()'s C++ type (raw() for any).
  // What breaks that throws std::logic_error, whose text names type and shape: in a kernel it
  // becomes the step's error.
  template <class T>
  T* data() {
    Check(kDTypeOf<T>);
    return static_cast<T*>(buffer_->data());
  }
  template <class T>
  const T* data() const {
    Check(kDTypeOf<T>);
    return static_cast<const T*>(buffer_->data());
  }
  template <class T>
  absl::Span<T> flat() {
    return absl::Span<T>(data<T>(), static_cast<size_t>(num_elements()));
  }
  template <class T>
  absl::Span<const T> flat() const {
    return absl::Span<const T>(data<T>(), static_cast<size_t>(num_elements()));
  }
  // The only element, or the first of several. std::logic_error when there is none.
  template <class T>
  const T& scalar() const {
    if (rank_ != 0) [[unlikely]]
      CheckNotEmpty();
    return *data<T>();
  }
  void* raw() { return bytes_of()->data(); }
  const void* raw() const { return bytes_of()->data(); }
  Buffer* buffer() const { return buffer_; }
  // Who can read the bytes. Of a tensor of a device's own memory nobody else may use data() and its
  // kin; Device::Copy makes one of host memory.
  MemoryKind memory() const { return buffer_ == nullptr ? MemoryKind::kHost : buffer_->memory(); }
  // True when no other tensor shares the bytes, so that they may be overwritten.
  bool BufferUnique() const {
    return buffer_ != nullptr && buffer_->kind() != BufferKind::kSlice && buffer_->kind() != BufferKind::kForeign &&
           buffer_->Unique();
  }

  // The same bytes under another shape (and, for `Bitcast`-like uses, dtype). REQUIRES: the buffer
  // has bytes enough, and the elements stay what they are: bytes, strings or handles. What breaks
  // that throws std::logic_error. Of a tensor without a value: one without a value.
  Tensor Reshaped(const TensorShape& shape) const { return WithType(dtype_, shape); }
  Tensor WithType(DType dtype, const TensorShape& shape) const;
  // As Reshaped, without touching the reference count.
  Tensor ReshapedMove(const TensorShape& shape) &&;
  // Rows [start, limit) of dimension 0, sharing the buffer; without a value when memory is
  // exhausted. REQUIRES: a value, rank() >= 1, 0 <= start <= limit <= dim(0); else
  // std::logic_error.
  Tensor Slice(int64_t start, int64_t limit) const;
  // A copy with a buffer of its own, without a value when memory is exhausted or is not the host's.
  // It is charged as this one is (buffer.h), or to `allocator`.
  Tensor Clone() const { return CopyTo(nullptr); }
  Tensor Clone(Allocator* allocator) const { return CopyTo(allocator); }

  // "float32 [2,3]".
  std::string TypeAndShape() const;
  // "float32 [2,3] [1 2 3 4 5 6]", at most `max_entries` values.
  std::string DebugString(int max_entries = 16) const;

  void Swap(Tensor& o) noexcept {
    Tensor t(std::move(o));
    o = std::move(*this);
    *this = std::move(t);
  }

 private:
  static constexpr int kInPlace = 5;

  Tensor(const Tensor& o, std::nullptr_t) : buffer_(o.buffer_) { CopyMeta(o); }
  void CopyMeta(const Tensor& o) {
    std::memcpy(&dtype_, &o.dtype_, 24);
    if (on_heap_) CloneHeapDims();
  }
  void Steal(Tensor& o) noexcept {
    buffer_ = o.buffer_;
    std::memcpy(&dtype_, &o.dtype_, 24);
    o.buffer_ = nullptr;
    o.on_heap_ = false;
    o.dtype_ = DType::kInvalid;
    o.rank_ = 0;
  }
  void Destroy() {
    if (buffer_ != nullptr) buffer_->Unref();
    if (on_heap_) FreeHeapDims();
  }
  void SetShape(const TensorShape& shape);
  Tensor CopyTo(Allocator* allocator) const;
  void Check(DType want) const {
    if (dtype_ != want || buffer_ == nullptr) [[unlikely]]
      CheckAccess(want);
  }
  // These throw, or return when it is allowed after all (a reference's value).
  void CheckAccess(DType want) const;
  void CheckNotEmpty() const;
  void CheckFits(DType dtype, const TensorShape& shape) const;
  [[noreturn]] static void NoValue();
  Buffer* bytes_of() const {
    if (buffer_ == nullptr) [[unlikely]]
      NoValue();
    return buffer_;
  }
  [[noreturn]] void BadValues(size_t values) const;
  void CloneHeapDims();
  void FreeHeapDims();

  Buffer* buffer_ = nullptr;
  // The 24 bytes from here on are copied as one. Dimensions are 32 bits wide in place; more than
  // five, or larger ones, go to the heap.
  DType dtype_ = DType::kInvalid;
  uint8_t rank_ = 0;
  bool on_heap_ = false;
  uint8_t unused_ = 0;
  union Dims {
    uint32_t in_place[kInPlace];
    struct __attribute__((packed, aligned(4))) {
      int64_t* heap;
    };
  } dims_ = {};
};
static_assert(sizeof(Tensor) == 32);

}  // namespace troupe

#endif  // TROUPE_TENSOR_H_
