#include "actors/worker_actor.h"

#include "actors/aside.h"
#include "actors/messages.h"

namespace troupe {

absl::StatusOr<std::vector<std::shared_ptr<const CompiledPart>>> Worker::RegisterGraph(
    const RegisterGraphCall& call) const {
  std::vector<std::shared_ptr<const CompiledPart>> parts;
  for (const auto& [name, graph] : call.graphs) {
    if (call.wanted) TROUPE_RETURN_IF_ERROR(call.wanted());
    std::shared_ptr<Device> device;
    for (const auto& d : devices_) {
      if (d->name() == name) device = d;
    }
    if (device == nullptr) return NotFound("this worker has no device '", name, "'");
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<const CompiledPart> part,
                            CompiledPart::Compile(*graph, std::move(device), call.session));
    parts.push_back(std::move(part));
  }
  return parts;
}

namespace {

struct WorkerState {
  std::shared_ptr<const Worker> worker;
  std::shared_ptr<Children> children;
  const char* name = "troupe.worker";
};

caf::behavior WorkerBehavior(caf::stateful_actor<WorkerState>* self, std::vector<std::shared_ptr<Device>> devices,
                             std::shared_ptr<Children> children, bool aside) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.worker = std::make_shared<const Worker>(std::move(devices));
  self->state.children = std::move(children);
  self->state.children->TakeOver(self);
  self->set_down_handler([self](caf::down_msg& down) { self->state.children->OnDown(self, down); });
  self->set_exit_handler([self](caf::exit_msg& e) {
    // A normal end is the runtime's: with a failure the children wait for the next incarnation.
    if (e.reason == caf::exit_reason::user_shutdown) self->state.children->StopAll();
    self->quit(e.reason);
  });
  return {
      [self](restart_child r) { self->state.children->OnRestart(self, r.number); },
      [self, aside](const std::shared_ptr<RegisterGraphCall>& call) {
        RunAside(aside, [worker = self->state.worker, call] {
          auto parts = Guarded("compiling", [&] { return worker->RegisterGraph(*call); });
          call->wanted = nullptr;
          call->done(std::move(parts));
        });
      },
  };
}

}  // namespace

caf::actor SpawnWorker(caf::actor_system& system, std::vector<std::shared_ptr<Device>> devices,
                       std::shared_ptr<Children> children, bool aside) {
  return system.spawn<caf::hidden>(WorkerBehavior, std::move(devices), std::move(children), aside);
}

}  // namespace troupe
