// Free blocks whose pages are there: memory for tensors that somebody will ask for soon.
//
// Problem: memory that is fresh costs whoever writes to it first a page fault for each 4 KiB, three
// to four times what copying as much takes (docs/measurements/performance.md). A step that has to
// copy the variables that are being saved would pay that while its program waits. Another thread
// can pay it before.
//
// Free blocks that are asked for again and again meanwhile, as by the steps that run until then,
// are not counted on: there are as many besides as are wanted. Who asks first gets them, though.
//
// Under AddressSanitizer, which keeps no free blocks, this does nothing.
//
// Thread rule: all methods may be called from any thread; the free blocks are the process's.
#ifndef TROUPE_GRAPH_CORE_WARM_MEMORY_H_
#define TROUPE_GRAPH_CORE_WARM_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/export.h"

namespace troupe {

class TROUPE_HIDDEN WarmMemory {
 public:
  // Keeps free blocks for buffers of these sizes, in bytes, until this is destroyed: those that
  // nobody has asked for lately, and others, which are made and whose pages the system provides.
  // Takes as long as that does, half a second a GiB and more. Without memory for all it makes
  // fewer. What Allocator keeps no lists of (16 KiB and less) is left out. `populate`: false leaves
  // the pages out, for tests.
  explicit WarmMemory(const std::vector<size_t>& sizes, bool populate = true);
  // What is beyond the quota of free blocks goes back to the system.
  ~WarmMemory();
  WarmMemory(const WarmMemory&) = delete;
  WarmMemory& operator=(const WarmMemory&) = delete;

  // The bytes of the blocks that were made.
  int64_t made() const { return made_; }

 private:
  void Keep(int size_class, size_t blocks, size_t touched, bool populate);
  std::vector<std::pair<int, size_t>> kept_;  // how many blocks of which size class
  int64_t made_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_WARM_MEMORY_H_
