// The worker: compiles the graphs that a session registers for the devices of one task. It shares
// the devices, which the runtime owns.
//
//   state  message                            action                                              reply (through the call)
//   alive  register_graph {graphs, session} 1 compile one part per device                         parts
//   alive  register_graph, a part cannot be compiled, or is for a device of others
//                                           2 stop there                                          the first error
//   alive  exit                             3 calls in the mailbox are dropped; the supervisor    ABORTED
//                                             ends the steps of the task and spawns the next incarnation.
//                                             What is worked on goes on
//
// It supervises the actors of the task's devices and of their containers (supervisor.h). When the
// worker dies, they live on; its next incarnation watches them again, and restarts those that have
// died meanwhile. So the devices keep their incarnations.
//
// Each call is worked on by a thread of its own (aside.h), so that one session does not wait for
// another's kernels to be made. Blocks: never. Owner: the supervisor, which restarts it. Dies: with
// the runtime.
//
// Thread rule: RegisterGraph is thread safe.
//
// Tests of the edges, tests/cast/session_test.cc:
//   1, 2  the_worker_compiles_for_its_own_devices_only
//   3     workers_edge_3_a_call_that_the_worker_took_with_it_is_answered
#ifndef TROUPE_ACTORS_WORKER_ACTOR_H_
#define TROUPE_ACTORS_WORKER_ACTOR_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/executor/compiled_part.h"
#include "actors/reply.h"
#include "actors/supervisor.h"

namespace troupe {

struct RegisterGraphCall {
  explicit RegisterGraphCall(SessionScope of) : session(std::move(of)) {}
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> graphs;  // by device name
  SessionScope session;
  std::function<absl::Status()> wanted;  // an error when no call wants the parts any more; may be empty
  Reply<absl::StatusOr<std::vector<std::shared_ptr<const CompiledPart>>>> done;
};
// The logic of the worker, without CAF.
class Worker {
 public:
  explicit Worker(std::vector<std::shared_ptr<Device>> devices) : devices_(std::move(devices)) {}
  // Thread safe.
  absl::StatusOr<std::vector<std::shared_ptr<const CompiledPart>>> RegisterGraph(const RegisterGraphCall& call) const;

 private:
  std::vector<std::shared_ptr<Device>> devices_;
};

// `aside`: calls are worked on by threads of their own; otherwise in the actor's turn.
// `children`: the actors of the devices and of their containers, which the worker takes over.
caf::actor SpawnWorker(caf::actor_system& system, std::vector<std::shared_ptr<Device>> devices,
                       std::shared_ptr<Children> children, bool aside);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WORKER_ACTOR_H_
