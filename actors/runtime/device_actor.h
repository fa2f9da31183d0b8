// The device actor: answers questions about one device of a task, and owns its limit and the
// trimming of its memory.
//
//   message                    action                                   reply
//   get_device_stats           1 read the allocator; add up what the    device_stats, when the steps have answered,
//                                resources hold; ask the steps that     or after 100 ms
//                                run
//   set_memory_limit {bytes}   2 tell the allocator                     memory_limit_set {status}
//   trim_memory                3 give free blocks back, on a thread of  memory_trimmed {bytes}
//                                its own
//   look_whether_idle          4 as 3, when nothing was allocated since none
//                                the last look
//   exit (failure)             5 requests in the mailbox are refused, and those that wait for an answer get
//                                one: CAF's request_receiver_down
//                                the worker ends the steps that have a part on the device, then spawns the next incarnation
//
// The runtime owns the Device object, which outlives the actor. The actor knows no graphs. Blocks:
// never.
//
// The container actor: lists, saves, makes and resets the named state of one device.
//
//   list_resources             6 list the entries                       resource_list
//   reset_resources {names}    7 drop those containers; who waits for   resources_reset {status}
//                                what stood there is told
//   snapshot_resources {names} 8 ask each entry for its state           resource_snapshot, at once unless an
//                                                                       update has one of them
//   resources_gathered         9 the last of them has come            the same
//   restore_resources {entries, whole}
//                             10 make the entries, then put them into   resources_restored {status}
//                                their places, all at one moment;
//                                `only_check`: say whether that could be done
//   states_came               12 watch the actors of the resources that were made (state/state_actors.h)
//   down of one of them, its restart timer
//                             13 restart it, as its policy says
//   exit (failure)            11 as 5, but the device keeps its incarnation; the entries belong to the runtime,
//                                so variables are still there. Snapshots that wait are ABORTED.
//                                The actors of its resources live on; the next incarnation watches them
//
// Kernels do not ask it for their slots: a node finds its slot in the containers when it runs
// first, and again after an entry went (kernels/state/variable_owner.h). A part is compiled before
// it is known which of its nodes will run; slots that were made then, by one message for each part,
// would stand in listings and snapshots although nothing ever named them, and the message would
// have to come again after each Reset and restore.
//
// Thread rule: SpawnDevice and SpawnContainer may be called from any thread.
//
// Tests of the edges, tests/cast/session_test.cc:
//   1, 5, 6, 7, 11  device_and_container_answer_and_a_call_that_dies_with_them_is_aborted
// and tests/cast/containers_test.cc:
//   1     edge_1_a_device_tells_who_holds_its_memory
//   2     edge_2_a_limit_holds_from_when_it_is_set
//   3, 4  edges_3_and_4_free_blocks_go_back_when_asked_and_when_idle
//   8, 9  edges_8_and_9_a_snapshot_waits_for_an_update
//   10    edge_10_restoring_is_all_or_nothing
//   10    edge_10_what_is_only_checked_changes_nothing
//   11    edge_11_a_snapshot_that_waits_for_a_dying_container_is_aborted
// and tests/queue/state_actors_test.cc:
//   12, 13  edges_12_and_13_a_container_watches_its_queues
// and tests/cast/supervisor_test.cc:
//   5, 11         a_killed_device_container_or_worker_ends_its_steps_and_comes_back
#ifndef TROUPE_ACTORS_RUNTIME_DEVICE_ACTOR_H_
#define TROUPE_ACTORS_RUNTIME_DEVICE_ACTOR_H_

#include <caf/all.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/watch/stall_report.h"
#include "troupe/actors.h"
#include "troupe/device.h"
#include "troupe/runtime.h"

namespace troupe {

class StateActors;
class UnderWay;

DeviceStatus Describe(const Device& device, uint64_t incarnation);

// Asks all steps that run; `answered` is called for each when its parts have answered.
using AskSteps = std::function<std::vector<std::shared_ptr<StepQuestion>>(
    const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered)>;

// Monitorable actors; `system` spawns them. `aside`: trimming has a thread of its own, which is
// counted there and uses `system` to its end, and is done without being asked when nothing was
// allocated for `idle`; null: trimming is done in the actor's turn, when asked.
caf::actor SpawnDevice(caf::actor_system& system, std::shared_ptr<Device> device, uint64_t incarnation, AskSteps ask,
                       std::shared_ptr<UnderWay> aside, std::chrono::milliseconds idle = std::chrono::seconds(10));
// `states`: the actors of its resources; null: it has none.
caf::actor SpawnContainer(caf::actor_system& system, std::shared_ptr<ResourceContainers> containers,
                          std::shared_ptr<const Device> device, std::shared_ptr<StateActors> states = nullptr);

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_DEVICE_ACTOR_H_
