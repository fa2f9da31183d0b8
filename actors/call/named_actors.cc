#include "actors/call/named_actors.h"

#include "actors/runtime/runtime_impl.h"
#include "troupe/open_cast.h"

namespace troupe {
namespace {

constexpr char kContainer[] = "actors of the program";

}  // namespace

absl::StatusOr<std::shared_ptr<NamedActor>> FindNamedActor(const Device& device, const std::string& name) {
  auto found = device.containers()->LookUp<NamedActor>(kContainer, name);
  if (!absl::IsNotFound(found.status())) return found;
  return FailedPrecondition("no actor has the name '", name, "' on ", device.name(), "; NameActor gives it to one");
}

absl::Status NameActor(const Runtime& runtime, const std::string& name, const caf::actor& actor) {
  if (name.empty()) return InvalidArgument("an actor needs a name that is not empty");
  if (!actor) return InvalidArgument("there is no actor that could have the name '", name, "'");
  const Runtime::Impl& impl = *runtime.impl();
  // Another system of this process would end without waiting for the calls. What is in another
  // process has a proxy in this system.
  if (&actor.home_system() != impl.system)
    return InvalidArgument("actor '", name,
                           "' lives in another actor system of this process than the runtime; StartRuntimeIn starts a "
                           "runtime in the program's own");
  const auto named = std::make_shared<NamedActor>(impl.system, name, actor);
  for (const std::shared_ptr<Device>& device : impl.devices)
    TROUPE_RETURN_IF_ERROR(device->containers()->Put({{kContainer, name, named}}, {}));
  return absl::OkStatus();
}

absl::Status UnnameActor(const Runtime& runtime, const std::string& name) {
  absl::Status status;
  for (const std::shared_ptr<Device>& device : runtime.impl()->devices)
    status.Update(device->containers()->Delete(kContainer, name));
  return absl::IsNotFound(status) ? NotFound("no actor has the name '", name, "'") : status;
}

}  // namespace troupe
