#include "graph/core/warm_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <mutex>

#include "graph/core/free_blocks.h"

namespace troupe {
namespace {

// Lets the system provide the pages that lie wholly within the block. False when it has none.
bool Populate(void* block, size_t bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (start + page - 1) / page * page, end = (start + bytes) / page * page;
  if (begin >= end) return true;
#ifdef MADV_POPULATE_WRITE
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  // A kernel before 5.14.
  for (uintptr_t p = begin; p < end; p += page) *reinterpret_cast<volatile char*>(p) = 0;
  return true;
}

}  // namespace

WarmMemory::WarmMemory(const std::vector<size_t>& sizes) {
  if constexpr (kExactBlocks) return;
  std::array<size_t, kNumClasses> wanted{};
  for (const size_t bytes : sizes) {
    if (bytes > (size_t{1} << 41)) continue;
    const int c = ClassOf(kLine + bytes);
    if (c < kNumSmall) continue;
    ++wanted[static_cast<size_t>(c)];
    expected_ += static_cast<int64_t>(ClassBytes(c));
  }
  Allocator::Central& central = Allocator::Central::Get();
  central.expected.fetch_add(expected_, std::memory_order_relaxed);
  for (int c = kNumSmall; c < kNumClasses; ++c) {
    Allocator::Central::List& list = central.lists[c];
    const size_t there = list.count.load(std::memory_order_relaxed), want = wanted[static_cast<size_t>(c)];
    // As if they had been asked for now, so that they are not the first to go.
    if (want > 0) list.asked.store(central.takings.load(std::memory_order_relaxed), std::memory_order_relaxed);
    for (size_t i = there; i < want; ++i) {
      const size_t bytes = ClassBytes(c);
      void* const block = BlockSource::Host()->Take(bytes);
      if (block == nullptr) return;
      if (!Populate(block, bytes)) {
        BlockSource::Host()->Give(block, bytes);
        return;
      }
      made_ += static_cast<int64_t>(bytes);
      central.cached.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
      const std::lock_guard<std::mutex> lock(list.mu);
      list.Push(block);
    }
  }
}

WarmMemory::~WarmMemory() {
  if constexpr (kExactBlocks) return;
  Allocator::Central& central = Allocator::Central::Get();
  central.expected.fetch_sub(expected_, std::memory_order_relaxed);
  central.DropUntilMost(std::numeric_limits<uint64_t>::max());
}

}  // namespace troupe
