// A device as a plain object: a name, memory, compute threads, state. The runtime owns its devices;
// a device actor answers questions about each one; kernels see it through their context.
//
// A program may bring devices of a type of its own (RuntimeOptions.devices) with kernels that are
// registered for that type. Such a device derives from Device where it differs from a CPU:
//
//   Copy   when its allocator's memory is not the host's. The values that cross between devices,
//          feeds, fetches and constants are in host memory; where a part meets a node that takes or
//          gives the device's memory (all arguments but those that its kernel declares as
//          HostMemory), the value is copied.
//   Run    when its kernels are not simply called: they are put into a queue, or need the device to
//          be bound to the thread.
//   Sync   with Run: waits for what was put into the queue.
//
// Source of the semantics: section 2 of TensorFlow's white paper (devices).
//
// Thread rule: immutable after construction; its parts have thread rules of their own.
#ifndef TROUPE_DEVICE_H_
#define TROUPE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/buffer.h"
#include "troupe/compute_threads.h"
#include "troupe/env.h"
#include "troupe/export.h"
#include "troupe/resource_container.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

class KernelContext;
class Tensor;

class Device {
 public:
  // `name` is full: "/job:localhost/replica:0/task:0/device:CPU:0". The threads may be shared by
  // several devices of a process. The allocator and `env` must outlive the device.
  Device(std::string name, std::string type, uint64_t incarnation, Allocator* allocator,
         std::shared_ptr<ComputeThreads> threads, std::shared_ptr<ResourceContainers> containers,
         Env* env = Env::Default());
  virtual ~Device();

  const std::string& name() const { return name_; }
  const std::string& type() const { return type_; }  // "CPU", "GPU"
  // Random at creation: tells a device from its predecessor of the same name.
  uint64_t incarnation() const { return incarnation_; }
  Allocator* allocator() const { return allocator_; }
  ComputeThreads* threads() const { return threads_.get(); }
  ResourceContainers* containers() const { return containers_.get(); }
  const std::shared_ptr<ResourceContainers>& shared_containers() const { return containers_; }
  Env* env() const { return env_; }
  // Of the tensors that its kernels take and give, but for those that they declare as HostMemory.
  MemoryKind memory() const { return allocator_->memory(); }

  // Copies a tensor of plain elements from this device's memory into the host's, or the other way;
  // `to` differs from from.memory(). Calls `done` once, at once or later, on any thread; a copy out
  // comes after all kernels that were run before. UNIMPLEMENTED for a device that does not say how.
  using CopyDone = std::function<void(absl::StatusOr<Tensor>)>;
  virtual void Copy(const Tensor& from, MemoryKind to, CopyDone done);
  // Whether the kernels of this device are called by Run; asked when a part is compiled.
  virtual bool runs_kernels() const { return false; }
  // Runs a synchronous kernel; its status. Here: calls it.
  virtual absl::Status Run(absl::Status (*compute)(KernelContext&), KernelContext& ctx);
  // Waits until all kernels that were run have ended, and returns their error, if any. With
  // runs_kernels(), called when a part has run all of its nodes.
  virtual absl::Status Sync();

 private:
  std::string name_, type_;
  uint64_t incarnation_;
  Allocator* allocator_;
  std::shared_ptr<ComputeThreads> threads_;
  std::shared_ptr<ResourceContainers> containers_;
  Env* const env_;
};

}  // namespace troupe

#endif  // TROUPE_DEVICE_H_
