// The heap behind Allocator.
//
// Size classes: blocks of 64, 128, 192, 256 bytes, then four per doubling. Classes up to kSmallBytes are cut from slabs and kept
// in per-thread lists; a list that grows past its quota gives half to the central list under that class's mutex. Larger blocks
// come from aligned_alloc and are kept centrally, so that the tensors of a training step are found again by the next one
// without page faults.
//
// Under AddressSanitizer nothing is kept: every block is an allocation of its own of the exact size, so that a kernel that reads or writes past its
// tensor, or after its last reference went, is seen.
#include "troupe/graph/core/buffer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "troupe/graph/core/resource.h"

namespace troupe {
namespace {

constexpr size_t kHeader = sizeof(Buffer);
constexpr size_t kLine = 64;
constexpr size_t kSmallBytes = 16 * 1024;
constexpr size_t kSlabBytes = 64 * 1024;
constexpr int64_t kCentralQuota = int64_t{1} << 30;  // free bytes of large blocks kept
constexpr int kNumClasses = 4 + 4 * 34;              // up to 2^42 bytes
constexpr uint8_t kUnclassed = 255;
#if defined(__SANITIZE_ADDRESS__)
#define TROUPE_EXACT_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_EXACT_BLOCKS 1
#endif
#endif
#ifdef TROUPE_EXACT_BLOCKS
constexpr bool kExactBlocks = true;
#else
constexpr bool kExactBlocks = false;
#endif

// Blocks of class c hold ClassBytes(c) bytes, header included.
constexpr size_t ClassBytes(int c) {
  if (c < 4) return kLine * (c + 1);
  const int doubling = (c - 4) / 4, step = (c - 4) % 4;
  return (size_t{256} << doubling) + (size_t{64} << doubling) * (step + 1);
}
constexpr int ClassOf(size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kLine);
  const int doubling = std::bit_width(bytes - 1) - 9;
  const size_t base = size_t{256} << doubling;
  return 4 + 4 * doubling + static_cast<int>((bytes - base - 1) / (base / 4));
}
static_assert(ClassBytes(ClassOf(257)) == 320 && ClassBytes(ClassOf(512)) == 512);
static_assert(ClassBytes(ClassOf(513)) == 640 && ClassBytes(ClassOf(1 << 20)) == 1 << 20);
constexpr int kNumSmall = ClassOf(kSmallBytes) + 1;

// How many free blocks of a class a thread keeps.
constexpr uint32_t Quota(int c) { return std::max<uint32_t>(16, static_cast<uint32_t>(256 * 1024 / ClassBytes(c))); }
constexpr std::array<uint32_t, kNumSmall> kQuota = [] {
  std::array<uint32_t, kNumSmall> q{};
  for (int c = 0; c < kNumSmall; ++c) q[c] = Quota(c);
  return q;
}();

struct FreeBlock {
  FreeBlock* next;
};

struct ForeignOwner {
  void (*release)(void*);
  void* arg;
};

}  // namespace

// Free blocks shared by all threads. Lives for ever: tensors may die after static destructors ran.
struct Allocator::Central {
  struct List {
    std::mutex mu;
    FreeBlock* head = nullptr;
    size_t count = 0;
  };
  List lists[kNumClasses];
  std::atomic<int64_t> cached{0};

  static Central& Get() {
    static Central* central = new Central;
    return *central;
  }
};

// Free small blocks of one thread.
struct Allocator::ThreadCache {
  FreeBlock* head[kNumSmall] = {};
  uint32_t count[kNumSmall] = {};

  void* Take(int c) {
    FreeBlock* b = head[c];
    if (b == nullptr) return nullptr;
    head[c] = b->next;
    --count[c];
    return b;
  }
  void Give(void* block, int c) {
    auto* b = static_cast<FreeBlock*>(block);
    b->next = head[c];
    head[c] = b;
    if (++count[c] > kQuota[c]) [[unlikely]]
      Overflow(c, count[c] / 2);
  }
  // Moves n blocks to the central list.
  void Overflow(int c, uint32_t n) {
    if (n == 0) return;
    FreeBlock* first = head[c];
    FreeBlock* last = first;
    for (uint32_t i = 1; i < n; ++i) last = last->next;
    head[c] = last->next;
    count[c] -= n;
    Central::List& list = Central::Get().lists[c];
    std::lock_guard<std::mutex> lock(list.mu);
    last->next = list.head;
    list.head = first;
    list.count += n;
  }
  ~ThreadCache() {
    for (int c = 0; c < kNumSmall; ++c) Overflow(c, count[c]);
  }
};

namespace {
// The thread's cache once it was made, null again when the thread ends. In the initial-exec model reading it is two instructions, not a call.
__attribute__((tls_model("initial-exec"))) thread_local void* thread_cache = nullptr;
thread_local bool cache_is_gone = false;
}  // namespace

Allocator::ThreadCache* Allocator::Cache() {
  if (thread_cache != nullptr) [[likely]]
    return static_cast<ThreadCache*>(thread_cache);
  struct Holder {
    ThreadCache cache;
    ~Holder() {
      cache_is_gone = true;
      thread_cache = nullptr;
    }
  };
  if (cache_is_gone) return nullptr;
  static thread_local Holder holder;
  thread_cache = &holder.cache;
  return &holder.cache;
}

Allocator::Allocator(std::string name, int64_t bytes_limit) : name_(std::move(name)), limit_(bytes_limit) {}
Allocator::~Allocator() = default;

Allocator* Allocator::Cpu() {
  static Allocator* cpu = new Allocator("cpu");
  return cpu;
}

namespace {
// Adds `bytes` to what is in use, unless that would pass the limit: threads that allocate at the same time do not pass it together.
bool Reserve(std::atomic<int64_t>* in_use, int64_t limit, int64_t bytes) {
  if (limit <= 0) {
    in_use->fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  for (int64_t now = in_use->load(std::memory_order_relaxed); now + bytes <= limit;) {
    if (in_use->compare_exchange_weak(now, now + bytes, std::memory_order_relaxed)) return true;
  }
  return false;
}
}  // namespace

// A block of `bytes` bytes, which were reserved, was made (or, when negative, given back).
void Allocator::Account(int64_t bytes) {
  if (bytes < 0) {
    in_use_.fetch_add(bytes, std::memory_order_relaxed);
    return;
  }
  const int64_t now = in_use_.load(std::memory_order_relaxed);
  allocs_.fetch_add(1, std::memory_order_relaxed);
  for (int64_t p = peak_.load(std::memory_order_relaxed);
       now > p && !peak_.compare_exchange_weak(p, now, std::memory_order_relaxed);) {
  }
  for (int64_t l = largest_.load(std::memory_order_relaxed);
       bytes > l && !largest_.compare_exchange_weak(l, bytes, std::memory_order_relaxed);) {
  }
}

void* Allocator::TakeBlock(uint8_t c, size_t block_bytes) {
  Central& central = Central::Get();
  Central::List& list = central.lists[c];
  if (c < kNumSmall) {
    ThreadCache* cache = Cache();
    if (cache != nullptr) {
      if (void* b = cache->Take(c)) return b;
    }
    {
      // Refill from the central list: up to half a quota at once.
      std::lock_guard<std::mutex> lock(list.mu);
      if (list.head != nullptr) {
        void* result = list.head;
        list.head = list.head->next;
        --list.count;
        for (uint32_t n = Quota(c) / 2; cache != nullptr && n > 0 && list.head; --n) {
          FreeBlock* b = list.head;
          list.head = b->next;
          --list.count;
          b->next = cache->head[c];
          cache->head[c] = b;
          ++cache->count[c];
        }
        return result;
      }
    }
    // Cut a new slab. Slabs are never returned: their blocks circulate among the small classes' lists.
    if (!Reserve(&in_use_, limit_, kSlabBytes)) return nullptr;
    char* slab = static_cast<char*>(std::aligned_alloc(kLine, kSlabBytes));
    if (slab == nullptr) {
      Account(-static_cast<int64_t>(kSlabBytes));
      return nullptr;
    }
    Account(kSlabBytes);
    const size_t bytes = ClassBytes(c), n = kSlabBytes / bytes;
    for (size_t i = 1; i < n; ++i) {
      if (cache != nullptr) {
        auto* b = reinterpret_cast<FreeBlock*>(slab + i * bytes);
        b->next = cache->head[c];
        cache->head[c] = b;
        ++cache->count[c];
      } else {
        std::lock_guard<std::mutex> lock(list.mu);
        auto* b = reinterpret_cast<FreeBlock*>(slab + i * bytes);
        b->next = list.head;
        list.head = b;
        ++list.count;
      }
    }
    return slab;
  }
  if (!Reserve(&in_use_, limit_, static_cast<int64_t>(block_bytes))) return nullptr;
  void* block = nullptr;
  {
    std::lock_guard<std::mutex> lock(list.mu);
    if (list.head != nullptr) {
      block = list.head;
      list.head = list.head->next;
      --list.count;
    }
  }
  if (block != nullptr) {
    central.cached.fetch_sub(static_cast<int64_t>(block_bytes), std::memory_order_relaxed);
  } else {
    block = std::aligned_alloc(kLine, block_bytes);
  }
  Account(block != nullptr ? static_cast<int64_t>(block_bytes) : -static_cast<int64_t>(block_bytes));
  return block;
}

void Allocator::GiveBlock(void* block, uint8_t c) {
  if constexpr (kExactBlocks) {
    Account(-static_cast<int64_t>(ClassBytes(c)));
    std::free(block);
    return;
  }
  Central& central = Central::Get();
  if (c < kNumSmall) {
    if (ThreadCache* cache = Cache()) return cache->Give(block, c);
  } else {
    const auto bytes = static_cast<int64_t>(ClassBytes(c));
    Account(-bytes);
    if (central.cached.fetch_add(bytes, std::memory_order_relaxed) + bytes > kCentralQuota) {
      central.cached.fetch_sub(bytes, std::memory_order_relaxed);
      std::free(block);
      return;
    }
  }
  Central::List& list = central.lists[c];
  std::lock_guard<std::mutex> lock(list.mu);
  auto* b = static_cast<FreeBlock*>(block);
  b->next = list.head;
  list.head = b;
  ++list.count;
}

Buffer* Allocator::Allocate(size_t bytes, BufferKind kind) {
  if (bytes > (size_t{1} << 41)) return nullptr;
  const size_t offset = bytes <= kLine - kHeader ? kHeader : kLine;
  const int c = ClassOf(offset + bytes);
  void* block = nullptr;
  if constexpr (kExactBlocks) {
    const auto rounded = static_cast<int64_t>(ClassBytes(c));
    if (Reserve(&in_use_, limit_, rounded)) {
      if (posix_memalign(&block, kLine, offset + bytes) != 0) block = nullptr;
      Account(block != nullptr ? rounded : -rounded);
    }
  } else {
    if (c < kNumSmall && thread_cache != nullptr) [[likely]]
      block = static_cast<ThreadCache*>(thread_cache)->Take(c);
    if (block == nullptr) [[unlikely]]
      block = TakeBlock(static_cast<uint8_t>(c), ClassBytes(c));
  }
  if (block == nullptr) return nullptr;
  auto* b = new (block) Buffer;
  b->kind_ = kind;
  b->size_class_ = static_cast<uint8_t>(c);
  b->data_ = static_cast<char*>(block) + offset;
  b->size_ = bytes;
  b->owner_ = this;
  if (kind == BufferKind::kStrings) {
    std::uninitialized_default_construct_n(static_cast<std::string*>(b->data_), bytes / sizeof(std::string));
  } else if (kind == BufferKind::kHandles) {
    std::uninitialized_default_construct_n(static_cast<ResourceHandle*>(b->data_), bytes / sizeof(ResourceHandle));
  }
  return b;
}

void Allocator::Free(Buffer* b) {
  const uint8_t c = b->size_class_;
  GiveBlock(b, c);
}

void Buffer::Release() {
  if (!kExactBlocks && kind_ == BufferKind::kPlain && size_class_ < kNumSmall && thread_cache != nullptr) [[likely]] {
    return static_cast<Allocator::ThreadCache*>(thread_cache)->Give(this, size_class_);
  }
  switch (kind_) {
    case BufferKind::kPlain:
      break;
    case BufferKind::kStrings:
      std::destroy_n(static_cast<std::string*>(data_), size_ / sizeof(std::string));
      break;
    case BufferKind::kHandles:
      std::destroy_n(static_cast<ResourceHandle*>(data_), size_ / sizeof(ResourceHandle));
      break;
    case BufferKind::kSlice: {
      auto* root = static_cast<Buffer*>(owner_);
      Allocator::Cpu()->Free(this);
      root->Unref();
      return;
    }
    case BufferKind::kForeign: {
      auto* owner = static_cast<ForeignOwner*>(owner_);
      owner->release(owner->arg);
      delete owner;
      Allocator::Cpu()->Free(this);
      return;
    }
  }
  static_cast<Allocator*>(owner_)->Free(this);
}

Buffer* Buffer::Slice(Buffer* buffer, size_t offset, size_t bytes) {
  Buffer* b = Allocator::Cpu()->Allocate(0);
  if (b == nullptr) return nullptr;
  Buffer* root = buffer->root();
  root->Ref();
  b->kind_ = BufferKind::kSlice;
  b->data_ = static_cast<char*>(buffer->data_) + offset;
  b->size_ = bytes;
  b->owner_ = root;
  return b;
}

Buffer* Buffer::Wrap(void* data, size_t bytes, void (*release)(void*), void* arg) {
  Buffer* b = Allocator::Cpu()->Allocate(0);
  if (b == nullptr) return nullptr;
  b->kind_ = BufferKind::kForeign;
  b->data_ = data;
  b->size_ = bytes;
  b->owner_ = new ForeignOwner{release, arg};
  return b;
}

AllocatorStats Allocator::stats() const {
  AllocatorStats s;
  s.bytes_in_use = in_use_.load(std::memory_order_relaxed);
  s.peak_bytes_in_use = peak_.load(std::memory_order_relaxed);
  s.num_allocs = allocs_.load(std::memory_order_relaxed);
  s.largest_alloc = largest_.load(std::memory_order_relaxed);
  s.bytes_limit = limit_;
  s.bytes_cached = Central::Get().cached.load(std::memory_order_relaxed);
  return s;
}

void Allocator::ResetPeak() { peak_.store(in_use_.load()); }

void Allocator::Trim() {
  Central& central = Central::Get();
  for (int c = kNumSmall; c < kNumClasses; ++c) {
    FreeBlock* head;
    {
      std::lock_guard<std::mutex> lock(central.lists[c].mu);
      head = central.lists[c].head;
      central.lists[c].head = nullptr;
      central.lists[c].count = 0;
    }
    while (head != nullptr) {
      FreeBlock* next = head->next;
      std::free(head);
      central.cached.fetch_sub(static_cast<int64_t>(ClassBytes(c)), std::memory_order_relaxed);
      head = next;
    }
  }
}

}  // namespace troupe
