#include "graph/core/warm_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <mutex>

#include "graph/core/free_blocks.h"

namespace troupe {
namespace {

// While the system provides pages, no thread of the process can map memory or give it back.
constexpr uintptr_t kPopulatedAtOnce = uintptr_t{4} << 20;

// Lets the system provide the pages that lie wholly within the block. False when it has none.
bool Populate(void* block, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (start + page - 1) / page * page, end = (start + bytes) / page * page;
  if (begin >= end) return true;
#ifdef MADV_POPULATE_WRITE
  bool known = true;
  for (uintptr_t p = begin; known && p < end; p += kPopulatedAtOnce) {
    if (::madvise(reinterpret_cast<void*>(p), std::min(kPopulatedAtOnce, end - p), MADV_POPULATE_WRITE) == 0) continue;
    if (errno != EINVAL) return false;
    known = false;
  }
  if (known) return true;
#endif
  // A kernel before 5.14.
  for (uintptr_t p = begin; p < end; p += page) *reinterpret_cast<volatile char*>(p) = 0;
  return true;
}

}  // namespace

WarmMemory::WarmMemory(const std::vector<size_t>& sizes, bool populate) {
  if constexpr (kExactBlocks) return;
  struct Wanted {
    size_t blocks = 0, touched = 0;  // bytes of the largest of them
  };
  std::array<Wanted, kNumClasses> wanted{};
  for (const size_t bytes : sizes) {
    if (bytes > (size_t{1} << 41)) continue;
    const int c = ClassOf(kLine + bytes);
    if (c < kNumSmall) continue;
    Wanted& w = wanted[static_cast<size_t>(c)];
    ++w.blocks;
    w.touched = std::max(w.touched, kLine + bytes);
  }
  for (int c = kNumSmall; c < kNumClasses; ++c) {
    const Wanted& w = wanted[static_cast<size_t>(c)];
    if (w.blocks > 0) kept_.emplace_back(c, w.blocks);
  }
  for (const auto& [c, blocks] : kept_) Keep(c, blocks, wanted[static_cast<size_t>(c)].touched, populate);
}

void WarmMemory::Keep(int size_class, size_t blocks, size_t touched, bool populate) {
  const size_t bytes = ClassBytes(size_class);
  Allocator::Central& central = Allocator::Central::Get();
  Allocator::Central::List& list = central.lists[size_class];
  central.expected.fetch_add(static_cast<int64_t>(blocks * bytes), std::memory_order_relaxed);
  size_t there = 0;
  {
    const std::lock_guard<std::mutex> lock(list.mu);
    const size_t idle = std::min(list.idle, list.count.load(std::memory_order_relaxed));
    there = idle > list.expected ? idle - list.expected : 0;
    list.expected += blocks;
  }
  for (; there < blocks; ++there) {
    void* const block = BlockSource::Host()->Take(bytes);
    if (block == nullptr) return;
    if (populate && !Populate(block, touched)) return BlockSource::Host()->Give(block, bytes);
    made_ += static_cast<int64_t>(bytes);
    central.cached.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(list.mu);
    list.Push(block);
    ++list.idle;
  }
}

WarmMemory::~WarmMemory() {
  Allocator::Central& central = Allocator::Central::Get();
  for (const auto& [c, blocks] : kept_) {
    central.expected.fetch_sub(static_cast<int64_t>(blocks * ClassBytes(c)), std::memory_order_relaxed);
    const std::lock_guard<std::mutex> lock(central.lists[c].mu);
    central.lists[c].expected -= blocks;
  }
  if (!kept_.empty()) central.DropUntilMost(std::numeric_limits<uint64_t>::max());
}

}  // namespace troupe
