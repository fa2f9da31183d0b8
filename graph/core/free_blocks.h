// Free blocks of the heap behind Allocator, by size.
//
// Size classes: blocks of 64, 128, 192, 256 bytes, then four per doubling. Classes up to
// kSmallBytes are cut from slabs and kept in per-thread lists; a list that grows past its quota
// gives half to the central list under that class's mutex. Larger blocks come from aligned_alloc
// and are kept centrally, so that the tensors of a training step are found again by the next one
// without page faults.
//
// What a list of large blocks keeps is bounded twice. All lists together hold at most
// kCentralQuota, and what is expected to be asked for soon (warm_memory.h): a block that would pass
// it takes the place of free blocks of the class that was asked for longest ago, and goes back to
// malloc itself when that is its own. And every kVisitEvery takings one list in turn gives up the
// blocks that have lain there since it was visited last. What is expected of a list stays in both
// cases.
//
// Under AddressSanitizer nothing is kept: every block is an allocation of its own of the exact
// size, so that a kernel that reads or writes past its tensor, or after its last reference went, is
// seen.
//
// Thread rule: the central lists may be used by any thread; a thread's own by that thread.
#ifndef TROUPE_GRAPH_CORE_FREE_BLOCKS_H_
#define TROUPE_GRAPH_CORE_FREE_BLOCKS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>

#include "troupe/buffer.h"

namespace troupe {

inline constexpr size_t kLine = 64;
inline constexpr size_t kSmallBytes = 16 * 1024;
inline constexpr size_t kSlabBytes = 64 * 1024;
inline constexpr int64_t kCentralQuota = int64_t{1} << 30;  // free bytes of large blocks kept
inline constexpr int kNumClasses = 4 + 4 * 34;              // up to 2^42 bytes
inline constexpr int kCounted = 192;  // added to the class of a small block that is charged: Release sees one compare
inline constexpr uint64_t kVisitEvery = 512;             // takings of large blocks
inline constexpr size_t kVisitBytes = size_t{64} << 20;  // what a visit gives back at most, since somebody waits for it
static_assert(kNumClasses <= kCounted);
#if defined(__SANITIZE_ADDRESS__)
#define TROUPE_EXACT_BLOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_EXACT_BLOCKS 1
#endif
#endif
#ifdef TROUPE_EXACT_BLOCKS
inline constexpr bool kExactBlocks = true;
#else
inline constexpr bool kExactBlocks = false;
#endif

// Blocks of class c hold ClassBytes(c) bytes, header included.
inline constexpr size_t ClassBytes(int c) {
  if (c < 4) return kLine * (c + 1);
  const int doubling = (c - 4) / 4, step = (c - 4) % 4;
  return (size_t{256} << doubling) + (size_t{64} << doubling) * (step + 1);
}
inline constexpr int ClassOf(size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kLine);
  const int doubling = std::bit_width(bytes - 1) - 9;
  const size_t base = size_t{256} << doubling;
  return 4 + 4 * doubling + static_cast<int>((bytes - base - 1) / (base / 4));
}
static_assert(ClassBytes(ClassOf(257)) == 320 && ClassBytes(ClassOf(512)) == 512);
static_assert(ClassBytes(ClassOf(513)) == 640 && ClassBytes(ClassOf(1 << 20)) == 1 << 20);
inline constexpr int kNumSmall = ClassOf(kSmallBytes) + 1;
static_assert(kCounted + kNumSmall <= 256);

// How many free blocks of a class a thread keeps.
inline constexpr uint32_t Quota(int c) {
  return std::max<uint32_t>(16, static_cast<uint32_t>(256 * 1024 / ClassBytes(c)));
}
inline constexpr std::array<uint32_t, kNumSmall> kQuota = [] {
  std::array<uint32_t, kNumSmall> q{};
  for (int c = 0; c < kNumSmall; ++c) q[c] = Quota(c);
  return q;
}();

struct FreeBlock {
  FreeBlock* next;
};

// Free blocks shared by all threads. Lives for ever: tensors may die after static destructors ran.
struct Allocator::Central {
  struct List {
    std::mutex mu;
    FreeBlock* head = nullptr;
    std::atomic<size_t> count{0};    // written under mu
    size_t idle = 0;                 // of large blocks: the least count since the last visit
    size_t expected = 0;             // of large blocks: how many are to stay for who asks soon
    std::atomic<uint64_t> asked{0};  // of large blocks: the number of the last taking

    void Push(void* block) {
      auto* b = static_cast<FreeBlock*>(block);
      b->next = head;
      head = b;
      Add(1);
    }
    void* Pop() {
      FreeBlock* b = head;
      if (b == nullptr) return nullptr;
      head = b->next;
      Add(-1);
      return b;
    }
    // The first n blocks, linked to each other.
    FreeBlock* PopSome(size_t n) {
      FreeBlock* first = nullptr;
      for (size_t i = 0; i < n; ++i) {
        auto* b = static_cast<FreeBlock*>(Pop());
        b->next = first;
        first = b;
      }
      return first;
    }
    // Of large blocks: how many may go.
    size_t Spare() const {
      const size_t n = count.load(std::memory_order_relaxed);
      return n > expected ? n - expected : 0;
    }
    void Add(int64_t n) {
      count.store(count.load(std::memory_order_relaxed) + static_cast<size_t>(n), std::memory_order_relaxed);
    }
  };
  List lists[kNumClasses];
  std::atomic<int64_t> cached{0};
  std::atomic<int64_t> expected{0};  // bytes of warm memory, kept beyond kCentralQuota
  std::atomic<uint64_t> takings{0};

  // The most that may be kept.
  int64_t Most() const { return kCentralQuota + expected.load(std::memory_order_relaxed); }

  // Gives blocks of class c, linked to each other, back to malloc.
  void Drop(FreeBlock* first, int c) {
    int64_t bytes = 0;
    while (first != nullptr) {
      FreeBlock* next = first->next;
      BlockSource::Host()->Give(first, ClassBytes(c));
      bytes += static_cast<int64_t>(ClassBytes(c));
      first = next;
    }
    cached.fetch_sub(bytes, std::memory_order_relaxed);
  }
  // Drops what has lain in list c since the last visit, or some of it.
  void Visit(int c) {
    List& list = lists[c];
    FreeBlock* first;
    {
      std::lock_guard<std::mutex> lock(list.mu);
      first = list.PopSome(std::min({list.idle, list.Spare(), std::max<size_t>(1, kVisitBytes / ClassBytes(c))}));
      list.idle = list.count.load(std::memory_order_relaxed);
    }
    Drop(first, c);
  }
  // Drops blocks of the classes that were asked for longest ago, and before class c was, until no
  // more than the quota is kept. False when there are none.
  bool MakeRoomFor(int c) {
    if (static_cast<int64_t>(ClassBytes(c)) > Most()) return false;
    return DropUntilMost(lists[c].asked.load(std::memory_order_relaxed));
  }
  // Likewise, of the classes that were asked for before taking `asked`.
  bool DropUntilMost(uint64_t asked_before) {
    for (int64_t over; (over = cached.load(std::memory_order_relaxed) - Most()) > 0;) {
      int oldest = -1;
      uint64_t asked = asked_before;
      for (int i = kNumSmall; i < kNumClasses; ++i) {
        if (lists[i].count.load(std::memory_order_relaxed) == 0) continue;
        const uint64_t a = lists[i].asked.load(std::memory_order_relaxed);
        if (a >= asked) continue;
        std::lock_guard<std::mutex> lock(lists[i].mu);
        if (lists[i].Spare() > 0) asked = a, oldest = i;
      }
      if (oldest < 0) return false;
      List& list = lists[oldest];
      const auto bytes = static_cast<int64_t>(ClassBytes(oldest));
      FreeBlock* first;
      {
        std::lock_guard<std::mutex> lock(list.mu);
        first = list.PopSome(std::min(list.Spare(), static_cast<size_t>((over + bytes - 1) / bytes)));
        list.idle = std::min(list.idle, list.count.load(std::memory_order_relaxed));
      }
      Drop(first, oldest);
    }
    return true;
  }

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
    list.Add(n);
  }
  ~ThreadCache() {
    for (int c = 0; c < kNumSmall; ++c) Overflow(c, count[c]);
  }
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_FREE_BLOCKS_H_
