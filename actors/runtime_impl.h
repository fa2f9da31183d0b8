// The inside of a Runtime: CAF types allowed.
#ifndef TROUPE_ACTORS_RUNTIME_IMPL_H_
#define TROUPE_ACTORS_RUNTIME_IMPL_H_

#include <caf/all.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/runtime.h"
#include "troupe/actors/supervisor.h"
#include "troupe/kernels/device/device.h"

namespace troupe {

struct Runtime::Impl {
  RuntimeOptions options;
  // Either ours or the caller's; ours dies last.
  std::unique_ptr<caf::actor_system_config> config;
  std::unique_ptr<caf::actor_system> own_system;
  caf::actor_system* system = nullptr;
  // Long work has threads of its own. Not under a deterministic scheduler, which has all of it in its turns.
  bool aside = true;
  std::unique_ptr<Allocator> allocator;  // set when there is a limit
  std::vector<std::shared_ptr<Device>> devices;
  std::shared_ptr<Directory> directory;  // "worker", "device:<name>", "container:<name>" -> the living actor
  caf::actor supervisor;

  // Called when a device or container actor died: steps that run fail with this status. By session.
  std::mutex mu;
  std::map<const void*, std::function<void(const absl::Status&)>> on_failure;
  void TellFailure(const absl::Status& status);

  ~Impl();
};

// A runtime that lives in the caller's actor system, which must outlive it.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options);

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_IMPL_H_
