// The device actor: answers questions about one device of a task.
//
//   message                    action                                   reply (through the call)
//   device_stats {}            1 read the allocator                     DeviceStatus
//   exit (failure)             2 calls in the mailbox are dropped       ABORTED
//                                the supervisor fails the steps that run on the device, then spawns the next incarnation
//
// The runtime owns the Device object, which outlives the actor. The actor knows no graphs. Blocks:
// never.
//
// The container actor: lists and resets the named state of one device.
//
//   list {}                    1 list the entries                       (container, name, what) of each
//   reset {names}              2 drop those containers                  status
//   exit (failure)             3 as above; the entries belong to the runtime, so variables are still there
//
// Thread rule: SpawnDevice and SpawnContainer may be called from any thread.
#ifndef TROUPE_ACTORS_DEVICE_ACTOR_H_
#define TROUPE_ACTORS_DEVICE_ACTOR_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/reply.h"
#include "troupe/device.h"
#include "troupe/runtime.h"

namespace troupe {

struct DeviceStatsCall {
  Reply<absl::StatusOr<DeviceStatus>> done;
};
struct ContainerListCall {
  Reply<absl::StatusOr<std::vector<ResourceContainers::Listing>>> done;
};
struct ContainerResetCall {
  std::vector<std::string> containers;
  Reply<absl::Status> done;
};

DeviceStatus Describe(const Device& device);
// Monitorable actors; `system` spawns them.
caf::actor SpawnDevice(caf::actor_system& system, std::shared_ptr<Device> device);
caf::actor SpawnContainer(caf::actor_system& system, std::shared_ptr<ResourceContainers> containers);

}  // namespace troupe

#endif  // TROUPE_ACTORS_DEVICE_ACTOR_H_
