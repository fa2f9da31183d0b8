// Memory of tensors: reference-counted buffers from size-classed free lists.
//
// A Buffer's header and its bytes are one block: a scalar costs one cache line and, when a block of its class is in the
// thread's cache, no lock and no call into malloc. Bytes of at most 32 lie inside the header's line; larger ones start at
// the next multiple of 64.
//
// Thread rule: counts are atomic, so a Buffer may be shared and dropped anywhere; a block freed on another thread joins that
// thread's cache and overflows to the central lists. Allocate and Unref never block on anything but a short central mutex.
#ifndef TROUPE_GRAPH_CORE_BUFFER_H_
#define TROUPE_GRAPH_CORE_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "troupe/graph/core/dtype.h"

namespace troupe {

class Allocator;

// What must happen to the bytes when the last reference goes.
enum class BufferKind : uint8_t {
  kPlain,    // nothing
  kStrings,  // std::string objects
  kHandles,  // ResourceHandle objects
  kSlice,    // bytes belong to `root`, which is released
  kForeign,  // bytes belong to somebody else, who is told
};

class Buffer {
 public:
  void* data() const { return data_; }
  // Bytes usable at data().
  size_t size() const { return size_; }

  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    // The sole owner needs no read-modify-write: nobody else can take a reference.
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      Release();
    }
  }
  bool Unique() const { return refs_.load(std::memory_order_acquire) == 1; }
  BufferKind kind() const { return kind_; }
  // The buffer that owns the bytes: itself unless it is a slice.
  Buffer* root() { return kind_ == BufferKind::kSlice ? static_cast<Buffer*>(owner_) : this; }

  // A view of [offset, offset + bytes) of `root`'s buffer, which it keeps alive. The result has one reference.
  static Buffer* Slice(Buffer* root, size_t offset, size_t bytes);
  // Wraps memory of the caller; `release(arg)` is called when the last reference goes.
  static Buffer* Wrap(void* data, size_t bytes, void (*release)(void*), void* arg);

 private:
  friend class Allocator;
  Buffer() = default;
  void Release();

  std::atomic<uint32_t> refs_{1};
  BufferKind kind_ = BufferKind::kPlain;
  uint8_t size_class_ = 0;
  uint16_t unused_ = 0;
  void* data_ = nullptr;
  size_t size_ = 0;
  void* owner_ = nullptr;  // Allocator of a block, root of a slice, ForeignOwner of wrapped memory
};
static_assert(sizeof(Buffer) == 32);

struct AllocatorStats {
  int64_t bytes_in_use = 0;  // large blocks exactly; small ones by the slabs that were cut for them
  int64_t peak_bytes_in_use = 0;
  int64_t num_allocs = 0;  // large blocks and slabs
  int64_t largest_alloc = 0;
  int64_t bytes_limit = 0;   // 0 = none
  int64_t bytes_cached = 0;  // free blocks kept for reuse
};

// Where the buffers of one device come from. The CPU's hands out process memory; a GPU's overrides the block functions.
class Allocator {
 public:
  explicit Allocator(std::string name, int64_t bytes_limit = 0);
  virtual ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A buffer with at least `bytes` bytes and one reference; null when memory or the limit is exhausted. For kStrings and kHandles,
  // `bytes` must be a multiple of the object's size and the objects are constructed.
  Buffer* Allocate(size_t bytes, BufferKind kind = BufferKind::kPlain);

  const std::string& name() const { return name_; }
  AllocatorStats stats() const;
  // Sets the peak to what is in use now.
  void ResetPeak();
  // Gives cached free blocks of the central lists back to the system.
  void Trim();

  // The process-wide CPU allocator; lives for ever.
  static Allocator* Cpu();

 private:
  friend class Buffer;
  struct Central;
  struct ThreadCache;
  static ThreadCache* Cache();
  void* TakeBlock(uint8_t size_class, size_t block_bytes);
  void GiveBlock(void* block, uint8_t size_class);
  void Free(Buffer* buffer);
  void Account(int64_t bytes);

  std::string name_;
  std::atomic<int64_t> in_use_{0}, peak_{0}, allocs_{0}, largest_{0};
  int64_t limit_;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_BUFFER_H_
