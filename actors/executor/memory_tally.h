// Adds up who holds the memory of a device's tensors, when somebody asks: where memory has run out,
// and for the device's actor. Nothing is noted while a step runs; the holders are walked instead
// (StepState::Holders, Resource::VisitTensors). A buffer that several hold counts for the first
// that is added.
//
// Thread rule: one thread.
#ifndef TROUPE_ACTORS_EXECUTOR_MEMORY_TALLY_H_
#define TROUPE_ACTORS_EXECUTOR_MEMORY_TALLY_H_

#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "troupe/device.h"
#include "troupe/runtime.h"
#include "troupe/tensor.h"

namespace troupe {

class MemoryTally {
 public:
  // Counts what is charged to the device's allocator.
  explicit MemoryTally(const Device& device) : device_(device) {}
  // `what()` is called when the tensor counts, and names who holds it.
  template <class F>
  void Add(const Tensor& tensor, F&& what) {
    if (const int64_t bytes = Take(tensor); bytes > 0) Count(what(), bytes);
  }
  // The resources of these containers.
  void AddResources(const ResourceContainers& containers);
  // What resources of these containers hold is no one else's.
  void IgnoreResources(const ResourceContainers& containers);
  void Add(const std::vector<MemoryHolder>& holders);
  // The largest ones first, at most `limit`.
  std::vector<MemoryHolder> Largest(size_t limit = 10) const;
  // "; 1.9 MiB are in use of at most 2.0 MiB, held by node 'a' (Add) (1.0 MiB in 1 tensor), ...".
  // Empty when nobody holds anything.
  std::string Text() const;

 private:
  // What is charged for the tensor; 0 when it is another's, or was taken before.
  int64_t Take(const Tensor& tensor);
  void Count(const std::string& what, int64_t bytes);

  const Device& device_;
  std::map<std::string, MemoryHolder> holders_;
  std::unordered_set<const Buffer*> seen_;
};

// `status` of a node that found no memory, with what the tally says; any other as it is.
absl::Status WithHolders(const absl::Status& status, const MemoryTally& tally);

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_MEMORY_TALLY_H_
