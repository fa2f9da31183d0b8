#include "troupe/actors/worker_actor.h"

#include "troupe/actors/messages.h"

namespace troupe {

absl::StatusOr<std::vector<std::shared_ptr<const CompiledPart>>> Worker::RegisterGraph(const RegisterGraphCall& call) {
  std::vector<std::shared_ptr<const CompiledPart>> parts;
  for (const auto& [name, graph] : call.graphs) {
    Device* device = nullptr;
    for (const auto& d : devices_) {
      if (d->name() == name) device = d.get();
    }
    if (device == nullptr) return NotFound("this worker has no device '", name, "'");
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const CompiledPart> part,
                            CompiledPart::Compile(*graph, device, call.session));
    parts.push_back(std::move(part));
  }
  return parts;
}

namespace {

struct WorkerState {
  std::unique_ptr<Worker> worker;
  const char* name = "troupe.worker";
};

caf::behavior WorkerBehavior(caf::stateful_actor<WorkerState>* self, std::vector<std::shared_ptr<Device>> devices) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.worker = std::make_unique<Worker>(std::move(devices));
  return {
      [self](const std::shared_ptr<RegisterGraphCall>& call) { call->done(self->state.worker->RegisterGraph(*call)); },
  };
}

}  // namespace

caf::actor SpawnWorker(caf::actor_system& system, std::vector<std::shared_ptr<Device>> devices) {
  return system.spawn<caf::hidden>(WorkerBehavior, std::move(devices));
}

}  // namespace troupe
