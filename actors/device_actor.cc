#include "actors/device_actor.h"

#include "actors/messages.h"
#include "actors/runtime_impl.h"

namespace troupe {

DeviceStatus Describe(const Device& d, uint64_t incarnation) {
  return {d.name(), d.type(), incarnation, d.allocator()->stats()};
}

namespace {

struct DeviceState {
  const char* name = "troupe.device";
};
struct ContainerState {
  const char* name = "troupe.container";
};

caf::behavior DeviceBehavior(caf::stateful_actor<DeviceState>* self, std::shared_ptr<Device> device,
                             uint64_t incarnation) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  return {
      [device = std::move(device), incarnation](get_device_stats) {
        return device_stats{Describe(*device, incarnation)};
      },
  };
}

caf::behavior ContainerBehavior(caf::stateful_actor<ContainerState>* self,
                                std::shared_ptr<ResourceContainers> containers) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  return {
      [containers](list_resources) {
        resource_list list;
        for (ResourceContainers::Listing& l : containers->List())
          list.entries.push_back({std::move(l.container), std::move(l.name), std::move(l.what)});
        return list;
      },
      [containers](const reset_resources& m) {
        for (const std::string& c : m.containers) containers->Clear(c);
        return resources_reset{};
      },
  };
}

}  // namespace

caf::actor DeviceActorOf(const Runtime& runtime, const std::string& device) {
  return runtime.impl()->directory->Find("device:" + device);
}
caf::actor ContainerActorOf(const Runtime& runtime, const std::string& device) {
  return runtime.impl()->directory->Find("container:" + device);
}

caf::actor SpawnDevice(caf::actor_system& system, std::shared_ptr<Device> device, uint64_t incarnation) {
  return system.spawn<caf::hidden>(DeviceBehavior, std::move(device), incarnation);
}
caf::actor SpawnContainer(caf::actor_system& system, std::shared_ptr<ResourceContainers> containers) {
  return system.spawn<caf::hidden>(ContainerBehavior, std::move(containers));
}

}  // namespace troupe
