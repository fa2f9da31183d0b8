// The device actor: answers questions about one device of a task.
//
//   message                    action                                   reply
//   get_device_stats           1 read the allocator                     device_stats
//   exit (failure)             2 requests in the mailbox are refused    CAF's request_receiver_down
//                                the worker ends the steps that have a part on the device, then spawns the next incarnation
//
// The runtime owns the Device object, which outlives the actor. The actor knows no graphs. Blocks:
// never.
//
// The container actor: lists and resets the named state of one device.
//
//   list_resources             3 list the entries                       resource_list
//   reset_resources {names}    4 drop those containers                  resources_reset {status}
//   exit (failure)             5 as 2, but the device keeps its incarnation; the entries belong to the runtime,
//                                so variables are still there
//
// Thread rule: SpawnDevice and SpawnContainer may be called from any thread.
//
// Tests of the edges, tests/cast/session_test.cc:
//   1, 2, 3, 4, 5  device_and_container_answer_and_a_call_that_dies_with_them_is_aborted
// and tests/cast/supervisor_test.cc:
//   2, 5           a_killed_device_container_or_worker_ends_its_steps_and_comes_back
#ifndef TROUPE_ACTORS_DEVICE_ACTOR_H_
#define TROUPE_ACTORS_DEVICE_ACTOR_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors.h"
#include "troupe/device.h"
#include "troupe/runtime.h"

namespace troupe {

DeviceStatus Describe(const Device& device, uint64_t incarnation);
// Monitorable actors; `system` spawns them.
caf::actor SpawnDevice(caf::actor_system& system, std::shared_ptr<Device> device, uint64_t incarnation);
caf::actor SpawnContainer(caf::actor_system& system, std::shared_ptr<ResourceContainers> containers);

}  // namespace troupe

#endif  // TROUPE_ACTORS_DEVICE_ACTOR_H_
