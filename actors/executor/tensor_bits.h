// Moves, shares and loans tensors within an executor, without touching reference counts each time.
// For the executor's own files, and for the set of executors, which loans a step's feeds (Loan).
//
// A value with one consumer is moved; a value with several takes all its references at once.
// Constants and arguments outlive the step, so they are loaned: the consumer's slot holds their
// bits without a reference, and the compiled part tells the code that empties the slot that there
// is no reference to give back. A kernel sees an ordinary tensor. Its buffer never looks unique,
// since the owner holds extra references (kBias). When a kernel keeps a loaned input, the executor
// adds the missing reference afterwards.
//
// This is the only place that knows how a Tensor and a Buffer lie in memory;
// tests/actors/loaned_values_test.cc fails when that changes.
#ifndef TROUPE_ACTORS_EXECUTOR_TENSOR_BITS_H_
#define TROUPE_ACTORS_EXECUTOR_TENSOR_BITS_H_

#include <atomic>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "troupe/tensor.h"

namespace troupe::bits {

// More than the loaned inputs of a node: references that its kernel drops, before the executor adds
// them again, never bring a count near one.
inline constexpr uint32_t kBias = 64;
static_assert(std::is_standard_layout_v<Buffer> && std::is_standard_layout_v<Tensor>);

// The first member of a Buffer.
inline std::atomic<uint32_t>& Count(Buffer* b) { return *reinterpret_cast<std::atomic<uint32_t>*>(b); }
// True when the dimensions are on the heap: the fourth member of a Tensor.
inline bool HasHeapDims(const Tensor& t) {
  return reinterpret_cast<const unsigned char*>(&t)[sizeof(Buffer*) + 2] != 0;
}

// n references at once. REQUIRES: the caller holds one in a tensor that no other thread looks at; a
// sole owner then needs no atomic operation.
inline void Share(Tensor& t, uint32_t n) {
  Buffer* b = t.buffer();
  if (b == nullptr) return;
  std::atomic<uint32_t>& count = Count(b);
  if (count.load(std::memory_order_acquire) == 1) {
    count.store(1 + n, std::memory_order_relaxed);
  } else {
    count.fetch_add(n, std::memory_order_relaxed);
  }
}
inline void AddBias(const Tensor& t) {
  if (t.valid()) Count(t.buffer()).fetch_add(kBias, std::memory_order_relaxed);
}
// REQUIRES: t itself still holds a reference.
inline void RemoveBias(const Tensor& t) {
  if (t.valid()) Count(t.buffer()).fetch_sub(kBias, std::memory_order_release);
}

// In the functions below `to` holds nothing, and what is in it is not looked at.
//
// Makes `t` hold nothing, giving no reference back.
inline void Forget(Tensor* t) {
  const uint64_t zero = 0;
  std::memcpy(static_cast<void*>(t), &zero, 8);
  std::memcpy(reinterpret_cast<char*>(t) + 8, &zero, 4);
}
inline void Move(Tensor* from, Tensor* to) {
  std::memcpy(static_cast<void*>(to), from, sizeof(Tensor));
  Forget(from);
}
__attribute__((noinline)) inline void CopyHeapDims(const Tensor& from, Tensor* to) {
  std::construct_at(to, from.dtype(), from.shape(), from.buffer());
}
// A copy whose reference is loaned, or was taken by Share.
inline void CopyBits(const Tensor& from, Tensor* to) {
  std::memcpy(static_cast<void*>(to), &from, sizeof(Tensor));
  if (HasHeapDims(from)) [[unlikely]]
    CopyHeapDims(from, to);
}

// Empties `t` after its last use.
inline void Consume(Tensor* t) {
  if (!t->valid()) return;
  std::destroy_at(t);
  Forget(t);
}
// Empties `t`, whose value was loaned.
inline void GiveBack(Tensor* t) {
  if (t->valid() && HasHeapDims(*t)) [[unlikely]] {
    t->buffer()->Ref();
    std::destroy_at(t);
  }
  Forget(t);
}

// Loans a tensor of the caller's for the time of a step without writing to its reference count:
// threads that feed the same tensor would pass the count's cache line from core to core in every
// step. The loan has a header of its own over the tensor's bytes. Only if something keeps the bytes
// beyond the step (a variable, a tensor array, a result) does the loan take a reference, and gives
// its header away.
//
// Loaned bytes are never overwritten, like those of a slice (Tensor::BufferUnique). Thread rule:
// Begin and End are called by one thread at a time.
class Loan {
 public:
  Loan() = default;
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    if (header_ != nullptr) header_->Unref();
  }
  // `to` holds nothing, and becomes `from` until End. `from` must stay as it is until then. False
  // when memory is exhausted.
  bool Begin(const Tensor& from, Tensor* to) {
    if (!from.valid()) return true;
    if (header_ == nullptr && !MakeHeader()) return false;
    Set({from.buffer()->data(), from.buffer()->size(), from.buffer()->root()}, BufferKind::kSlice);
    CopyBits(from, to);
    std::memcpy(static_cast<void*>(to), &header_, sizeof(Buffer*));
    return true;
  }
  // Empties `to`.
  void End(Tensor* to) {
    if (!to->valid()) return;
    GiveBack(to);
    if (!header_->Unique()) [[unlikely]]
      return LeaveHeader();
    Set(own_, BufferKind::kPlain);
  }

 private:
  // The fields of a Buffer from its ninth byte on; the fifth byte is its kind.
  struct Bytes {
    void* data;
    size_t size;
    void* owner;
  };
  void Set(const Bytes& bytes, BufferKind kind) {
    std::memcpy(reinterpret_cast<char*>(header_) + 4, &kind, sizeof(kind));
    std::memcpy(reinterpret_cast<char*>(header_) + 8, &bytes, sizeof(bytes));
  }
  __attribute__((noinline)) bool MakeHeader() {
    header_ = Allocator::Cpu()->Allocate(0);
    if (header_ == nullptr) return false;
    std::memcpy(&own_, reinterpret_cast<char*>(header_) + 8, sizeof(own_));
    return true;
  }
  __attribute__((noinline)) void LeaveHeader() {
    header_->root()->Ref();
    std::exchange(header_, nullptr)->Unref();
  }

  Buffer* header_ = nullptr;
  Bytes own_{};  // of the header while it loans nothing
};
static_assert(sizeof(Buffer) == 32);

}  // namespace troupe::bits

#endif  // TROUPE_ACTORS_EXECUTOR_TENSOR_BITS_H_
