#include "actors/device_actor.h"

#include "actors/messages.h"

namespace troupe {

DeviceStatus Describe(const Device& d) { return {d.name(), d.type(), d.incarnation(), d.allocator()->stats()}; }

namespace {

struct DeviceState {
  const char* name = "troupe.device";
};
struct ContainerState {
  const char* name = "troupe.container";
};

caf::behavior DeviceBehavior(caf::stateful_actor<DeviceState>* self, std::shared_ptr<Device> device) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  return {
      [device = std::move(device)](const std::shared_ptr<DeviceStatsCall>& call) { call->done(Describe(*device)); },
  };
}

caf::behavior ContainerBehavior(caf::stateful_actor<ContainerState>* self,
                                std::shared_ptr<ResourceContainers> containers) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  return {
      [containers](const std::shared_ptr<ContainerListCall>& call) { call->done(containers->List()); },
      [containers](const std::shared_ptr<ContainerResetCall>& call) {
        for (const std::string& c : call->containers) containers->Clear(c);
        call->done(absl::OkStatus());
      },
  };
}

}  // namespace

caf::actor SpawnDevice(caf::actor_system& system, std::shared_ptr<Device> device) {
  return system.spawn<caf::hidden>(DeviceBehavior, std::move(device));
}
caf::actor SpawnContainer(caf::actor_system& system, std::shared_ptr<ResourceContainers> containers) {
  return system.spawn<caf::hidden>(ContainerBehavior, std::move(containers));
}

}  // namespace troupe
