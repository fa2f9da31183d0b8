// The worker: owns the devices of one task and compiles what a session registers for them.
//
//   message                          action                                              reply (through the call)
//   register_graph {graphs, session} compile one part per device                         parts, or the first error
//
// Blocks: never (compiling is computing). Owner: the runtime. Dies: with it.
#ifndef TROUPE_ACTORS_WORKER_ACTOR_H_
#define TROUPE_ACTORS_WORKER_ACTOR_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/executor/compiled_part.h"
#include "troupe/actors/reply.h"

namespace troupe {

struct RegisterGraphCall {
  std::vector<std::pair<std::string, std::unique_ptr<Graph>>> graphs;  // by device name
  std::string session;
  Reply<absl::StatusOr<std::vector<std::shared_ptr<const CompiledPart>>>> done;
};
// What the worker does, without an actor.
class Worker {
 public:
  explicit Worker(std::vector<std::shared_ptr<Device>> devices) : devices_(std::move(devices)) {}
  absl::StatusOr<std::vector<std::shared_ptr<const CompiledPart>>> RegisterGraph(const RegisterGraphCall& call);

 private:
  std::vector<std::shared_ptr<Device>> devices_;
};

caf::actor SpawnWorker(caf::actor_system& system, std::vector<std::shared_ptr<Device>> devices);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WORKER_ACTOR_H_
