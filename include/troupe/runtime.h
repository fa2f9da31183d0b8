// The runtime of one process: its actors, devices and threads. Sessions live in one.
//
// A runtime belongs to the process that started it: after a fork the child starts its own. Start
// returns RESOURCE_EXHAUSTED when the system has no threads or memory left.
//
// Source of the semantics: section 3 of TensorFlow's white paper (devices and their names,
// workers).
//
// Thread rule: all methods are thread safe. Sessions and running steps hold a share of their
// Runtime, so it outlives them.
#ifndef TROUPE_RUNTIME_H_
#define TROUPE_RUNTIME_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

class Device;
class Env;

struct RuntimeOptions {
  // The number of threads that compute at the same time, the caller's included; 0 = one for each
  // hardware thread. Asynchronous steps, whose callers do not compute, have as many.
  int threads = 0;
  // CPU devices of each task: "/job:localhost/replica:0/task:0/device:CPU:0" and on.
  int cpu_devices = 1;
  // Limit of tensor memory of the CPU devices, in bytes; 0 = none.
  int64_t memory_limit = 0;
  // Devices of the program's own (troupe/device.h), beside the CPUs. Names are full, of one of
  // `tasks`, and differ.
  std::vector<std::shared_ptr<Device>> devices;
  // What the CPU devices see of time and chance; null: the process's. Must outlive the runtime and
  // its steps.
  Env* env = nullptr;
  // The names of the tasks that this process is. Each has a worker, and devices with named state of
  // their own. Sessions prefer the devices of the first.
  std::vector<std::string> tasks = {"/job:localhost/replica:0/task:0"};
};

// Who holds memory of tensors: the node that made them, or a resource.
struct MemoryHolder {
  std::string what;  // "node 'conv1' (Conv2D)", "variable 'w'"
  int64_t bytes = 0;
  int64_t tensors = 0;
};

struct DeviceStatus {
  std::string name, type;
  uint64_t incarnation = 0;
  // Statistics of the allocator. The CPU devices of a runtime share one, so all report the same.
  AllocatorStats memory;
};

class Runtime {
 public:
  // Starts an actor system of its own. INVALID_ARGUMENT for impossible options.
  static absl::StatusOr<std::shared_ptr<Runtime>> Start(const RuntimeOptions& options = {});
  ~Runtime();

  const RuntimeOptions& options() const;
  std::vector<DeviceStatus> devices() const;
  // Sets the peak of each device's memory (DeviceStatus.memory) to what is in use now. Thread safe.
  void ResetPeakMemory();

  struct TROUPE_HIDDEN Impl;
  Impl* impl() const { return impl_.get(); }
  explicit Runtime(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe

#endif  // TROUPE_RUNTIME_H_
