// The runtime of one process: its actors, devices and threads. Sessions live in one.
//
// A runtime belongs to the process that started it: after fork the child starts its own. Where the
// system has no threads or memory left for one, Start says RESOURCE_EXHAUSTED.
//
// Thread rule: all methods are thread safe. A Runtime outlives its sessions, which hold a share of
// it; so do steps that run.
#ifndef TROUPE_RUNTIME_H_
#define TROUPE_RUNTIME_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

class Device;

struct RuntimeOptions {
  // Busy threads in all, the caller's included; 0 = one per hardware thread. As many compute
  // asynchronous steps, whose callers do not.
  int threads = 0;
  // CPU devices of this process: "/job:localhost/replica:0/task:0/device:CPU:0" and on.
  int cpu_devices = 1;
  // Limit of tensor memory in bytes; 0 = none.
  int64_t memory_limit = 0;
};

struct DeviceStatus {
  std::string name, type;
  uint64_t incarnation = 0;
  // Of the allocator. The CPU devices of a process have one among them, so each tells the same.
  AllocatorStats memory;
};

class Runtime {
 public:
  // Starts an actor system of its own. INVALID_ARGUMENT for impossible options.
  static absl::StatusOr<std::shared_ptr<Runtime>> Start(const RuntimeOptions& options = {});
  ~Runtime();

  const RuntimeOptions& options() const;
  std::vector<DeviceStatus> devices() const;

  struct Impl;
  Impl* impl() const { return impl_.get(); }
  explicit Runtime(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe

#endif  // TROUPE_RUNTIME_H_
