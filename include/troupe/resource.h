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

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

class Tensor;
struct ResourceState;

class Resource {
 public:
  Resource() = default;
  Resource(const Resource&) = delete;
  Resource& operator=(const Resource&) = delete;
  virtual ~Resource() = default;
  // One line for status reports: what it is and how big.
  virtual std::string DebugString() const = 0;
  // Calls `visit` with each tensor that it holds, as far as it can tell without waiting: for who
  // asks where memory went.
  virtual void VisitTensors(const std::function<void(const Tensor&)>& visit) const;

  // Takes the state of one resource, or why it has none that could be saved.
  using StateVisitor = std::function<void(absl::StatusOr<ResourceState>)>;
  // Calls `visit` once, with the state between two updates: at once, or on the thread of the update
  // that is under way. UNIMPLEMENTED unless the class says how it is saved (resource_state.h). The
  // caller keeps the object alive until then. A second call counts for nothing; an exception before
  // the first, or a visitor that is dropped without a call, means that it cannot be saved.
  virtual void Save(const StateVisitor& visit) const;
  // Called before this object takes the place of `other` in a container. INVALID_ARGUMENT, as for
  // an object of another class, keeps `other` there.
  virtual absl::Status TakePlaceOf(const Resource& other);
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
