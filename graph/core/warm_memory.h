// Free blocks whose pages are there: memory for tensors that somebody will ask for soon.
//
// Problem: memory that is fresh costs whoever writes to it first a page fault for each 4 KiB, three
// to four times what copying as much takes (docs/measurements/performance.md). A step that has to
// copy the variables that are being saved would pay that while its program waits. Another thread
// can pay it before.
//
// Under AddressSanitizer, which keeps no free blocks, this does nothing.
//
// Thread rule: all methods may be called from any thread; the free blocks are the process's.
#ifndef TROUPE_GRAPH_CORE_WARM_MEMORY_H_
#define TROUPE_GRAPH_CORE_WARM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

class WarmMemory {
 public:
  // Sees to it that the process has free blocks for buffers of these sizes, in bytes: makes those
  // that it does not have, and lets the system provide their pages. Takes as long as that does, half
  // a second a GiB and more. Without memory for all it makes fewer. Until this is destroyed the
  // process may keep so many bytes more than its quota. What Allocator keeps no lists of (16 KiB and
  // less) is left out.
  explicit WarmMemory(const std::vector<size_t>& sizes);
  // What is beyond the quota goes back to the system.
  ~WarmMemory();
  WarmMemory(const WarmMemory&) = delete;
  WarmMemory& operator=(const WarmMemory&) = delete;

  // The bytes of the blocks that were made.
  int64_t made() const { return made_; }

 private:
  int64_t expected_ = 0, made_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_WARM_MEMORY_H_
