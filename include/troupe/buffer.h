// Memory of tensors: reference-counted buffers from size-classed free lists, and the accounts to
// which they are charged.
//
// A Buffer's header and its bytes are one block: a scalar costs one cache line and, when a block of
// its class is in the thread's cache, no lock and no call into malloc. Bytes of at most 32 lie
// inside the header's line; larger ones start at the next multiple of 64.
//
// The heap of blocks is the process's; allocators only count. An allocator with a name of its own
// (a runtime's with a memory limit) is charged for each block that it handed out, header and
// rounding to its size class included, from Allocate until the last reference goes, on whatever
// thread, wherever the block came from and whoever holds it. So for a runtime with a limit:
//
//   charged      tensors that its kernels make: outputs, temporaries, those that variables, stacks
//                and tensor arrays keep, copies of these (Tensor::Clone), and fetched ones, until
//                the caller drops them; the header (64 bytes) of a view of a charged tensor
//   not charged  tensors that the program makes itself (Tensor's constructors, so feeds and the
//                values of constants), memory that was wrapped, free blocks kept for reuse, objects
//                of the runtime that are no tensors, and the memory that a std::string of a tensor
//                allocates: a string of more than 15 characters counts as its 32 bytes, however
//                long it is
//
// A tensor may outlive its allocator: the account is kept until the last block that is charged to
// it is gone.
//
// Memory of a device. An allocator with a BlockSource of its own takes the bytes of each plain
// buffer from there, and gives them back as soon as the buffer goes; the header is in host memory,
// as are strings and handles. Where the source's memory is not the host's, only the device touches
// the bytes: nobody else may follow data().
//
// Thread rule: counts are atomic, so a Buffer may be shared and dropped anywhere; a block freed on
// another thread joins that thread's cache and overflows to the central lists. Allocate and Unref
// never block on anything but a short central mutex.
#ifndef TROUPE_BUFFER_H_
#define TROUPE_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/dtype.h"
#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

class Allocator;

// What must happen to the bytes when the last reference goes.
enum class BufferKind : uint8_t {
  kPlain,    // nothing
  kStrings,  // std::string objects
  kHandles,  // ResourceHandle objects
  kSlice,    // bytes belong to `root`, which is released
  kForeign,  // bytes belong to somebody else, who is told
  kSourced,  // bytes go back to the allocator's own BlockSource
};

// Who can read the bytes of a buffer.
enum class MemoryKind : uint8_t {
  kHost,    // every kernel of this process
  kDevice,  // the kernels of the device that they belong to
};

// Where blocks of memory come from. The process's heap stands on Host(); an allocator may have a
// source of its own.
//
// Thread rule: all methods are thread safe.
class BlockSource {
 public:
  virtual ~BlockSource();
  // A block of `bytes` bytes, a multiple of 64, at a multiple of 64; null when there is none.
  virtual void* Take(size_t bytes) = 0;
  // Takes back a block that Take gave for as many bytes.
  virtual void Give(void* block, size_t bytes) = 0;
  virtual MemoryKind memory() const { return MemoryKind::kHost; }

  // malloc's memory. Lives for ever.
  static BlockSource* Host();
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
  MemoryKind memory() const { return memory_; }
  // The buffer that owns the bytes: itself unless it is a slice.
  Buffer* root() { return kind_ == BufferKind::kSlice ? static_cast<Buffer*>(owner_) : this; }

  // A view of [offset, offset + bytes) of `root`'s buffer, which it keeps alive. The result has one
  // reference; null when memory or the limit that `root` is charged to is exhausted.
  static Buffer* Slice(Buffer* root, size_t offset, size_t bytes);
  // An uninitialised buffer (strings empty, handles unbound) of `bytes`, charged to whom this one
  // is charged. Null as for Allocator::Allocate.
  Buffer* Another(size_t bytes, BufferKind kind);
  // Wraps memory of the caller; `release(arg)` is called when the last reference goes. Null, and
  // nothing is called, when there is no memory for the header.
  static Buffer* Wrap(void* data, size_t bytes, void (*release)(void*), void* arg);

 private:
  friend class Allocator;
  Buffer() = default;
  void Release();

  std::atomic<uint32_t> refs_{1};
  BufferKind kind_ = BufferKind::kPlain;
  uint8_t size_class_ = 0;
  MemoryKind memory_ = MemoryKind::kHost;
  uint8_t unused_ = 0;
  void* data_ = nullptr;
  size_t size_ = 0;
  // Account of a block, root of a slice, ForeignOwner of wrapped memory, SourcedBlock.
  void* owner_ = nullptr;
};
static_assert(sizeof(Buffer) == 32);

struct AllocatorStats {
  // What is handed out now, by size classes. The process-wide allocator counts blocks of more than
  // 16 KB, and the slabs that were cut for smaller ones, its own and others', instead of these.
  int64_t bytes_in_use = 0;
  int64_t peak_bytes_in_use = 0;
  int64_t num_allocs = 0;     // blocks counted, since the start
  int64_t largest_alloc = 0;  // of these
  int64_t bytes_limit = 0;    // 0 = none
  int64_t bytes_cached = 0;   // free blocks of more than 16 KB that the process keeps for reuse
};

// An account for the buffers of a device, with an optional limit. Buffers may outlive it.
//
// Free blocks of more than 16 KB are kept for reuse, up to 1 GB in the process; a Saver that
// expects a save makes more of them ready for as long (Saver::ExpectSave). When that is full,
// blocks of the sizes that were asked for longest ago go first; and those that were not needed for
// some 60,000 allocations of such blocks go in any case, a few at a time.
class Allocator {
 public:
  // Counts all that it hands out; with a limit, in bytes, it refuses what would pass it.
  // `source`: where the bytes of plain buffers come from; null: from the process's heap.
  explicit Allocator(std::string name, int64_t bytes_limit = 0, std::shared_ptr<BlockSource> source = nullptr);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A buffer with at least `bytes` bytes and one reference; null when memory or the limit is
  // exhausted. For kStrings and kHandles, `bytes` must be a multiple of the object's size and the
  // objects are constructed.
  Buffer* Allocate(size_t bytes, BufferKind kind = BufferKind::kPlain);

  const std::string& name() const { return name_; }
  AllocatorStats stats() const;
  // The kind of memory of its plain buffers.
  MemoryKind memory() const { return memory_; }
  // Changes the limit; 0 = none. What is in use beyond it stays, and nothing more is handed out
  // until enough has gone. False for the process-wide allocator, which does not count all.
  bool SetLimit(int64_t bytes_limit);
  // The bytes that this allocator is charged for the block behind `b`; 0 when it is another's.
  int64_t ChargeOf(const Buffer& b) const;
  // Sets the peak to what is in use now.
  void ResetPeak();
  // Gives the process's free blocks of more than 16 KB back to the system. From any thread; takes
  // some milliseconds.
  void Trim();

  // The process-wide CPU allocator; lives for ever and has no limit.
  static Allocator* Cpu();

 private:
  friend class Buffer;
  friend class WarmMemory;
  struct TROUPE_HIDDEN Account;
  struct TROUPE_HIDDEN Central;
  struct TROUPE_HIDDEN ThreadCache;
  struct ProcessWide {};
  explicit Allocator(ProcessWide);
  static ThreadCache* Cache();
  static Buffer* Make(Account* account, int uncounted_classes, size_t bytes, BufferKind kind);
  static void* TakeBlock(int size_class, size_t exact_bytes);
  static void* TakeSmall(int size_class);
  static void* TakeLarge(int size_class);
  static void* TakeFresh(size_t bytes);
  static void GiveBlock(void* block, int size_class);
  static void GiveLarge(void* block, int size_class);
  // Whom a buffer that is no slice and wraps nothing is charged to; null for nobody.
  static Account* ChargedFor(const Buffer& buffer);
  static Buffer* TakeFromSource(Account* account, size_t bytes);
  static void Free(Buffer* buffer, Account* account);
  static void TrimProcess();

  std::string name_;
  Account* account_;
  int uncounted_classes_;  // blocks of a smaller class than this are not counted
  bool sourced_ = false;   // the account has a BlockSource
  MemoryKind memory_ = MemoryKind::kHost;
};

}  // namespace troupe

#endif  // TROUPE_BUFFER_H_
