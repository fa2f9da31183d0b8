// The heap behind Allocator.
//
// What is kept of freed blocks, and for whom, is said in free_blocks.h.
#include "troupe/buffer.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>

#include "graph/core/free_blocks.h"
#include "troupe/resource.h"

namespace troupe {
namespace {

constexpr size_t kHeader = sizeof(Buffer);

struct ForeignOwner {
  void (*release)(void*);
  void* arg;
};

class HostBlocks : public BlockSource {
 public:
  void* Take(size_t bytes) override { return std::aligned_alloc(kLine, bytes); }
  void Give(void* block, size_t) override { std::free(block); }
};

}  // namespace

BlockSource::~BlockSource() = default;

BlockSource* BlockSource::Host() {
  static BlockSource* host = new HostBlocks;
  return host;
}

// What is charged for an allocator. The lowest bit of `in_use` is the allocator's own share, sizes
// of blocks being multiples of 64: when the sum is zero the last that could ask for the account is
// gone. So a tensor that outlives its allocator costs no count of its own.
struct Allocator::Account {
  Account(int64_t bytes_limit, std::shared_ptr<BlockSource> source) : limit(bytes_limit), source(std::move(source)) {}

  // False when the limit would be passed: threads that allocate at the same time do not pass it
  // together.
  bool Reserve(int64_t bytes, int64_t* now) {
    const int64_t most = limit.load(std::memory_order_relaxed);
    if (most <= 0) {
      *now = in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      return true;
    }
    for (int64_t before = in_use.load(std::memory_order_relaxed); Bytes(before) + bytes <= most;) {
      if (in_use.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed)) {
        *now = before + bytes;
        return true;
      }
    }
    return false;
  }
  // The block of `bytes` that was reserved when `now` were in use was had.
  void Had(int64_t bytes, int64_t now) {
    allocs.fetch_add(1, std::memory_order_relaxed);
    Raise(&peak, Bytes(now));
    Raise(&largest, bytes);
  }
  void Return(int64_t bytes) {
    if (in_use.fetch_sub(bytes, std::memory_order_acq_rel) == bytes) delete this;
  }
  static int64_t Bytes(int64_t in_use) { return in_use & ~int64_t{1}; }
  static void Raise(std::atomic<int64_t>* most, int64_t value) {
    for (int64_t m = most->load(std::memory_order_relaxed);
         value > m && !most->compare_exchange_weak(m, value, std::memory_order_relaxed);) {
    }
  }

  std::atomic<int64_t> in_use{1}, peak{0}, allocs{0}, largest{0}, limit;
  const std::shared_ptr<BlockSource> source;  // null: the heap
};

namespace {

// The owner of a buffer whose bytes came from its account's source.
template <class Account>
struct SourcedBlockOf {
  Account* account;
  void* block;
  size_t bytes;
};

}  // namespace

namespace {
// The thread's cache once it was made, null again when the thread ends. In the initial-exec model
// reading it is two instructions, not a call.
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

Allocator::Allocator(std::string name, int64_t bytes_limit, std::shared_ptr<BlockSource> source)
    : name_(std::move(name)), account_(new Account(bytes_limit, std::move(source))), uncounted_classes_(0) {
  sourced_ = account_->source != nullptr;
  if (sourced_) memory_ = account_->source->memory();
}
Allocator::Allocator(ProcessWide) : name_("cpu"), account_(new Account(0, nullptr)), uncounted_classes_(kNumSmall) {}
Allocator::~Allocator() { account_->Return(1); }

Allocator* Allocator::Cpu() {
  static Allocator* cpu = new Allocator(ProcessWide{});
  return cpu;
}

void* Allocator::TakeFresh(size_t bytes) {
  void* block = BlockSource::Host()->Take(bytes);
  if (block == nullptr && Central::Get().cached.load(std::memory_order_relaxed) > 0) {
    TrimProcess();
    block = BlockSource::Host()->Take(bytes);
  }
  return block;
}

void* Allocator::TakeSmall(int c) {
  Central::List& list = Central::Get().lists[c];
  ThreadCache* cache = Cache();
  if (cache != nullptr) {
    if (void* b = cache->Take(c)) return b;
  }
  {
    // Refill from the central list: up to half a quota at once.
    std::lock_guard<std::mutex> lock(list.mu);
    if (void* result = list.Pop()) {
      for (uint32_t n = Quota(c) / 2; cache != nullptr && n > 0 && list.head != nullptr; --n)
        cache->Give(list.Pop(), c);
      return result;
    }
  }
  // Cut a new slab. Slabs are never returned: their blocks circulate among the small classes'
  // lists.
  char* slab = static_cast<char*>(TakeFresh(kSlabBytes));
  if (slab == nullptr) return nullptr;
  int64_t now;
  Account* process = Cpu()->account_;
  process->Reserve(kSlabBytes, &now);
  process->Had(kSlabBytes, now);
  const size_t bytes = ClassBytes(c), n = kSlabBytes / bytes;
  if (cache != nullptr) {
    for (size_t i = 1; i < n; ++i) cache->Give(slab + i * bytes, c);
  } else {
    std::lock_guard<std::mutex> lock(list.mu);
    for (size_t i = 1; i < n; ++i) list.Push(slab + i * bytes);
  }
  return slab;
}

void* Allocator::TakeLarge(int c) {
  Central& central = Central::Get();
  Central::List& list = central.lists[c];
  const uint64_t taking = central.takings.fetch_add(1, std::memory_order_relaxed) + 1;
  if (taking % kVisitEvery == 0) [[unlikely]]
    central.Visit(kNumSmall + static_cast<int>(taking / kVisitEvery % (kNumClasses - kNumSmall)));
  void* block;
  {
    std::lock_guard<std::mutex> lock(list.mu);
    list.asked.store(taking, std::memory_order_relaxed);
    block = list.Pop();
    list.idle = std::min(list.idle, list.count.load(std::memory_order_relaxed));
  }
  if (block == nullptr) return TakeFresh(ClassBytes(c));
  central.cached.fetch_sub(static_cast<int64_t>(ClassBytes(c)), std::memory_order_relaxed);
  return block;
}

void* Allocator::TakeBlock(int c, size_t exact_bytes) {
  if constexpr (kExactBlocks) {
    void* block = nullptr;
    return posix_memalign(&block, kLine, exact_bytes) == 0 ? block : nullptr;
  }
  return c < kNumSmall ? TakeSmall(c) : TakeLarge(c);
}

void Allocator::GiveLarge(void* block, int c) {
  Central& central = Central::Get();
  const auto bytes = static_cast<int64_t>(ClassBytes(c));
  if (central.cached.fetch_add(bytes, std::memory_order_relaxed) + bytes > central.Most() && !central.MakeRoomFor(c))
      [[unlikely]] {
    central.cached.fetch_sub(bytes, std::memory_order_relaxed);
    BlockSource::Host()->Give(block, ClassBytes(c));
    return;
  }
  std::lock_guard<std::mutex> lock(central.lists[c].mu);
  central.lists[c].Push(block);
}

void Allocator::GiveBlock(void* block, int c) {
  if constexpr (kExactBlocks) return std::free(block);
  if (c >= kNumSmall) return GiveLarge(block, c);
  if (ThreadCache* cache = Cache()) return cache->Give(block, c);
  Central::List& list = Central::Get().lists[c];
  std::lock_guard<std::mutex> lock(list.mu);
  list.Push(block);
}

// `uncounted_classes` is a number that the compiler does not see, so that telling who counts costs
// the fast path nothing.
inline Buffer* Allocator::Make(Account* account, int uncounted_classes, size_t bytes, BufferKind kind) {
  if (bytes > (size_t{1} << 41)) return nullptr;
  const size_t offset = bytes <= kLine - kHeader ? kHeader : kLine;
  const int c = ClassOf(offset + bytes);
  int tag = c;
  void* block = nullptr;
  if (!kExactBlocks && c < uncounted_classes && thread_cache != nullptr) [[likely]]
    block = static_cast<ThreadCache*>(thread_cache)->Take(c);
  if (block == nullptr) [[unlikely]] {
    const bool counted = c >= uncounted_classes;
    if (counted && kind == BufferKind::kPlain && account->source != nullptr) return TakeFromSource(account, bytes);
    const auto charge = static_cast<int64_t>(ClassBytes(c));
    int64_t now = 0;
    if (counted && !account->Reserve(charge, &now)) return nullptr;
    block = TakeBlock(c, offset + bytes);
    if (block == nullptr) {
      if (counted) account->Return(charge);
      return nullptr;
    }
    if (counted) account->Had(charge, now);
    if (counted && c < kNumSmall) tag = c + kCounted;
  }
  auto* b = new (block) Buffer;
  b->kind_ = kind;
  b->size_class_ = static_cast<uint8_t>(tag);
  b->data_ = static_cast<char*>(block) + offset;
  b->size_ = bytes;
  b->owner_ = account;
  if (kind == BufferKind::kStrings) {
    std::uninitialized_default_construct_n(static_cast<std::string*>(b->data_), bytes / sizeof(std::string));
  } else if (kind == BufferKind::kHandles) {
    std::uninitialized_default_construct_n(static_cast<ResourceHandle*>(b->data_), bytes / sizeof(ResourceHandle));
  }
  return b;
}

Buffer* Allocator::Allocate(size_t bytes, BufferKind kind) { return Make(account_, uncounted_classes_, bytes, kind); }

// The header is the heap's: the source's memory may be out of the host's reach.
[[gnu::noinline]] Buffer* Allocator::TakeFromSource(Account* account, size_t bytes) {
  if (bytes > (size_t{1} << 41)) return nullptr;
  const size_t whole = (bytes + kLine - 1) / kLine * kLine;
  const auto charge = static_cast<int64_t>(whole);
  auto* owner = new (std::nothrow) SourcedBlockOf<Account>{account, nullptr, whole};
  Buffer* b = owner == nullptr ? nullptr : Cpu()->Allocate(0);
  int64_t now = 0;
  const bool reserved = b != nullptr && account->Reserve(charge, &now);
  if (reserved && whole > 0) owner->block = account->source->Take(whole);
  if (!reserved || (whole > 0 && owner->block == nullptr)) {
    if (reserved) account->Return(charge);
    if (b != nullptr) b->Unref();
    delete owner;
    return nullptr;
  }
  account->Had(charge, now);
  b->kind_ = BufferKind::kSourced;
  b->memory_ = account->source->memory();
  b->data_ = owner->block;
  b->size_ = bytes;
  b->owner_ = owner;
  return b;
}

Allocator::Account* Allocator::ChargedFor(const Buffer& b) {
  return b.size_class_ < kNumSmall ? nullptr : static_cast<Account*>(b.owner_);
}

void Allocator::Free(Buffer* b, Account* account) {
  const int c = b->size_class_ < kCounted ? b->size_class_ : b->size_class_ - kCounted;
  GiveBlock(b, c);
  // Last: the limit is a promise about memory, not about numbers.
  if (account != nullptr) account->Return(static_cast<int64_t>(ClassBytes(c)));
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
      // The root keeps the account, which may be gone with it.
      Allocator::Free(this, size_class_ < kCounted ? nullptr : Allocator::ChargedFor(*root));
      root->Unref();
      return;
    }
    case BufferKind::kForeign: {
      auto* owner = static_cast<ForeignOwner*>(owner_);
      owner->release(owner->arg);
      delete owner;
      Allocator::Free(this, nullptr);
      return;
    }
    case BufferKind::kSourced: {
      // A function of its own, so that Release need save no register for it.
      const auto give_back = [](Buffer * b) __attribute__((noinline, cold)) {
        auto* owner = static_cast<SourcedBlockOf<Allocator::Account>*>(b->owner_);
        if (owner->block != nullptr) owner->account->source->Give(owner->block, owner->bytes);
        owner->account->Return(static_cast<int64_t>(owner->bytes));  // the source may go with it
        delete owner;
        Allocator::Free(b, nullptr);
      };
      return give_back(this);
    }
  }
  Allocator::Free(this, Allocator::ChargedFor(*this));
}

Buffer* Buffer::Another(size_t bytes, BufferKind kind) {
  Buffer* r = root();
  Allocator::Account* account = r->kind_ == BufferKind::kForeign ? nullptr
                                : r->kind_ == BufferKind::kSourced
                                    ? static_cast<SourcedBlockOf<Allocator::Account>*>(r->owner_)->account
                                    : Allocator::ChargedFor(*r);
  if (account == nullptr || account == Allocator::Cpu()->account_) return Allocator::Cpu()->Allocate(bytes, kind);
  return Allocator::Make(account, 0, bytes, kind);
}

Buffer* Buffer::Slice(Buffer* buffer, size_t offset, size_t bytes) {
  Buffer* root = buffer->root();
  Buffer* b =
      root->kind_ == BufferKind::kSourced ? Allocator::Cpu()->Allocate(0) : root->Another(0, BufferKind::kPlain);
  if (b == nullptr) return nullptr;
  root->Ref();
  b->kind_ = BufferKind::kSlice;
  b->memory_ = root->memory_;
  b->data_ = static_cast<char*>(buffer->data_) + offset;
  b->size_ = bytes;
  b->owner_ = root;
  return b;
}

Buffer* Buffer::Wrap(void* data, size_t bytes, void (*release)(void*), void* arg) {
  auto* owner = new (std::nothrow) ForeignOwner{release, arg};
  if (owner == nullptr) return nullptr;
  Buffer* b = Allocator::Cpu()->Allocate(0);
  if (b == nullptr) {
    delete owner;
    return nullptr;
  }
  b->kind_ = BufferKind::kForeign;
  b->data_ = data;
  b->size_ = bytes;
  b->owner_ = owner;
  return b;
}

AllocatorStats Allocator::stats() const {
  AllocatorStats s;
  s.bytes_in_use = Account::Bytes(account_->in_use.load(std::memory_order_relaxed));
  s.peak_bytes_in_use = account_->peak.load(std::memory_order_relaxed);
  s.num_allocs = account_->allocs.load(std::memory_order_relaxed);
  s.largest_alloc = account_->largest.load(std::memory_order_relaxed);
  s.bytes_limit = account_->limit.load(std::memory_order_relaxed);
  if (!sourced_) s.bytes_cached = Central::Get().cached.load(std::memory_order_relaxed);
  return s;
}

bool Allocator::SetLimit(int64_t bytes_limit) {
  if (uncounted_classes_ != 0) return false;
  account_->limit.store(bytes_limit, std::memory_order_relaxed);
  return true;
}

int64_t Allocator::ChargeOf(const Buffer& b) const {
  const Buffer* root = b.kind_ == BufferKind::kSlice ? static_cast<const Buffer*>(b.owner_) : &b;
  if (root->kind_ == BufferKind::kSourced) {
    const auto* owner = static_cast<const SourcedBlockOf<Account>*>(root->owner_);
    return owner->account == account_ ? static_cast<int64_t>(owner->bytes) : 0;
  }
  if (root->kind_ == BufferKind::kForeign || ChargedFor(*root) != account_) return 0;
  return static_cast<int64_t>(
      ClassBytes(root->size_class_ < kCounted ? root->size_class_ : root->size_class_ - kCounted));
}

void Allocator::ResetPeak() { account_->peak.store(Account::Bytes(account_->in_use.load())); }

void Allocator::TrimProcess() {
  Central& central = Central::Get();
  for (int c = kNumSmall; c < kNumClasses; ++c) {
    Central::List& list = central.lists[c];
    FreeBlock* first;
    {
      std::lock_guard<std::mutex> lock(list.mu);
      first = list.PopSome(list.count.load(std::memory_order_relaxed));
      list.idle = 0;
    }
    central.Drop(first, c);
  }
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// What comes from a source of one's own is not kept.
void Allocator::Trim() {
  if (!sourced_) TrimProcess();
}

}  // namespace troupe
