// State that outlives a run of a node: the base class of variables, stacks and random streams; and
// the handle that flows along resource and reference edges.
//
// A ResourceHandle is an element of a tensor of dtype resource, or of a reference type. It owns a
// share of the object it names, so a handle never dangles; an object removed from its container
// lives until the last handle is gone.
//
// Thread rule: counts are atomic; each resource class states its own thread rule.
#ifndef TROUPE_RESOURCE_H_
#define TROUPE_RESOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

class Resource {
 public:
  Resource() = default;
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  virtual ~Resource() = default;
  // One line for status reports: what it is and how big.
  virtual std::string DebugString() const = 0;
};

class ResourceHandle {
 public:
  ResourceHandle() = default;
  ResourceHandle(std::string device, std::string container, std::string name, std::shared_ptr<Resource> object)
      : device_(std::move(device)),
        container_(std::move(container)),
        name_(std::move(name)),
        object_(std::move(object)) {}

  const std::string& device() const { return device_; }
  const std::string& container() const { return container_; }
  const std::string& name() const { return name_; }
  // Null when the handle was never bound.
  const std::shared_ptr<Resource>& object() const { return object_; }
  // The object as a T, or null when it is of another class or unbound.
  template <class T>
  T* As() const {
    return dynamic_cast<T*>(object_.get());
  }

 private:
  std::string device_, container_, name_;
  std::shared_ptr<Resource> object_;
};

}  // namespace troupe

#endif  // TROUPE_RESOURCE_H_
