// Changes an entry of a container only if it is still the object that its caller knows. A handle
// may be older than what stands under its name: that was restored, or made anew, since.
//
// Thread rule: thread safe.
#ifndef TROUPE_KERNELS_DEVICE_SAME_ENTRY_H_
#define TROUPE_KERNELS_DEVICE_SAME_ENTRY_H_

#include <memory>
#include <string>

#include "troupe/resource_container.h"

namespace troupe {

// `by` takes the place of `same`; null: nobody does. NOT_FOUND, and nothing is changed, when
// another object or none stands there; else also what TakePlaceOf says.
absl::Status ReplaceIfSame(ResourceContainers* containers, const std::string& container, const std::string& name,
                           const Resource* same, std::shared_ptr<Resource> by);
inline absl::Status DeleteIfSame(ResourceContainers* containers, const std::string& container, const std::string& name,
                                 const Resource* same) {
  return ReplaceIfSame(containers, container, name, same, nullptr);
}

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_SAME_ENTRY_H_
