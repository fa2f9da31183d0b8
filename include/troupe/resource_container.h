// Containers hold the state of stateful ops: named objects, in one set of containers for each
// device.
//
// An entry's key is (container, name). Ops without a shared name use their node's name under the
// container of their session (see KernelInit::ResourceKey), so every executor, signature and step
// that has the node finds the same object.
//
// Source of the semantics: section 4.7 of TensorFlow's white paper (containers).
//
// Thread rule: all methods are thread safe. Kernels look an entry up once and keep the shared
// pointer in a ResourceCache.
#ifndef TROUPE_RESOURCE_CONTAINER_H_
#define TROUPE_RESOURCE_CONTAINER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/resource.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

class ResourceContainers {
 public:
  // The entry as a T; made by `create` when there is none. INVALID_ARGUMENT when the entry is of
  // another class, INTERNAL when `create` gives null; what it throws passes through, and leaves no
  // entry.
  //
  // `create` is called without a lock, and may look up and make other entries. Others who ask for
  // this one wait until it returns; LookUp, Delete and the lists do not see the entry before. It
  // must not wait for anybody who asks for the entry: FAILED_PRECONDITION when it asks itself.
  template <class T>
  absl::StatusOr<std::shared_ptr<T>> LookUpOrCreate(const std::string& container, const std::string& name,
                                                    const std::function<std::shared_ptr<T>()>& create) {
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Resource> entry,
                            FindOrMake(container, name, [&create]() -> std::shared_ptr<Resource> { return create(); }));
    if (auto t = std::dynamic_pointer_cast<T>(entry)) return t;
    return OfAnotherClass(container, name, *entry);
  }
  template <class T>
  absl::StatusOr<std::shared_ptr<T>> LookUp(const std::string& container, const std::string& name) const {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = entries_.find({container, name});
    if (it == entries_.end() || IsBeingMade(it->second)) {
      return NotFound("no resource '", name, "' in container '", container, "'");
    }
    if (auto t = std::dynamic_pointer_cast<T>(it->second)) return t;
    return InvalidArgument("resource '", name, "' is of another class");
  }
  // NOT_FOUND when there is none.
  absl::Status Delete(const std::string& container, const std::string& name);
  // Drops every entry of the container ("" is the default one).
  void Clear(const std::string& container);
  void ClearAll();
  // (container, name, DebugString), sorted.
  struct Listing {
    std::string container, name, what;
  };
  std::vector<Listing> List() const;
  struct Entry {
    std::string container, name;
    std::shared_ptr<Resource> object;
  };
  // Sorted by container, then by name.
  std::vector<Entry> Entries() const;
  // Puts these objects into their places, and drops everything else that stands in `whole`
  // containers: all at one moment, or, after an error of TakePlaceOf, nothing. What was there
  // before lives on for who has it.
  absl::Status Put(const std::vector<Entry>& entries, const std::vector<std::string>& whole);
  // True if an entry was made since the last ClearAll, or, without one, ever.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Grows whenever an entry is removed: caches compare it before they use what they kept.
  int64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

 private:
  // Stands in an entry while its object is made.
  class Making;
  static bool IsBeingMade(const std::shared_ptr<Resource>& entry);
  absl::StatusOr<std::shared_ptr<Resource>> FindOrMake(const std::string& container, const std::string& name,
                                                       const std::function<std::shared_ptr<Resource>()>& make);
  static absl::Status OfAnotherClass(const std::string& container, const std::string& name, const Resource& entry);

  mutable std::mutex mu_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Resource>> entries_;
  std::atomic<int64_t> epoch_{0};
  std::atomic<bool> used_{false};
};

// One kernel's entry, found at first use and found again after its container was cleared. Thread
// safe.
template <class T>
class ResourceCache {
 public:
  absl::StatusOr<std::shared_ptr<T>> Get(ResourceContainers* containers, const std::string& container,
                                         const std::string& name, const std::function<std::shared_ptr<T>()>& create) {
    std::lock_guard<std::mutex> lock(mu_);
    const int64_t epoch = containers->epoch();
    if (entry_ == nullptr || epoch != epoch_) {
      TROUPE_ASSIGN_OR_RETURN(entry_, containers->LookUpOrCreate<T>(container, name, create));
      epoch_ = epoch;
    }
    return entry_;
  }

 private:
  std::mutex mu_;
  std::shared_ptr<T> entry_;
  int64_t epoch_ = -1;
};

}  // namespace troupe

#endif  // TROUPE_RESOURCE_CONTAINER_H_
