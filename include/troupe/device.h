// A device as a plain object: a name, memory, compute threads, state. The runtime owns its devices;
// a device actor answers questions about each one; kernels see it through their context.
//
// Thread rule: immutable after construction; its parts have thread rules of their own.
#ifndef TROUPE_DEVICE_H_
#define TROUPE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/buffer.h"
#include "troupe/compute_threads.h"
#include "troupe/export.h"
#include "troupe/resource_container.h"

namespace TROUPE_EXPORT troupe {

class Device {
 public:
  // `name` is full: "/job:localhost/replica:0/task:0/device:CPU:0". The threads may be shared by
  // several devices of a process.
  Device(std::string name, std::string type, uint64_t incarnation, Allocator* allocator,
         std::shared_ptr<ComputeThreads> threads, std::shared_ptr<ResourceContainers> containers)
      : name_(std::move(name)),
        type_(std::move(type)),
        incarnation_(incarnation),
        allocator_(allocator),
        threads_(std::move(threads)),
        containers_(std::move(containers)) {}
  virtual ~Device() = default;

  const std::string& name() const { return name_; }
  const std::string& type() const { return type_; }  // "CPU", "GPU"
  // Random at creation: tells a device from its predecessor of the same name.
  uint64_t incarnation() const { return incarnation_; }
  Allocator* allocator() const { return allocator_; }
  ComputeThreads* threads() const { return threads_.get(); }
  ResourceContainers* containers() const { return containers_.get(); }
  const std::shared_ptr<ResourceContainers>& shared_containers() const { return containers_; }

 private:
  std::string name_, type_;
  uint64_t incarnation_;
  Allocator* allocator_;
  std::shared_ptr<ComputeThreads> threads_;
  std::shared_ptr<ResourceContainers> containers_;
};

}  // namespace troupe

#endif  // TROUPE_DEVICE_H_
