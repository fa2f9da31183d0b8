// The inside of a Runtime: CAF types allowed.
#ifndef TROUPE_ACTORS_RUNTIME_IMPL_H_
#define TROUPE_ACTORS_RUNTIME_IMPL_H_

#include <caf/all.hpp>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/runtime.h"
#include "troupe/kernels/device/device.h"

namespace troupe {

struct Runtime::Impl {
  RuntimeOptions options;
  // Either ours or the caller's; ours dies last.
  std::unique_ptr<caf::actor_system_config> config;
  std::unique_ptr<caf::actor_system> own_system;
  caf::actor_system* system = nullptr;
  std::unique_ptr<Allocator> allocator;  // set when there is a limit
  std::vector<std::shared_ptr<Device>> devices;
  caf::actor worker;

  ~Impl();
};

// A runtime that lives in the caller's actor system, which must outlive it.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options);

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_IMPL_H_
