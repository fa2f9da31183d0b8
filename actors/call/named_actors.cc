#include "actors/call/named_actors.h"

#include <mutex>
#include <vector>

#include "actors/runtime/runtime_impl.h"
#include "actors/threads/no_memory.h"
#include "graph/core/guarded.h"
#include "kernels/device/same_entry.h"
#include "troupe/open_cast.h"

namespace troupe {
namespace {

constexpr char kContainer[] = "actors of the program";

// A name is given, or taken away, on all devices before another one is.
std::mutex& Naming() {
  static std::mutex& naming = *new std::mutex;
  return naming;
}

using Named = std::shared_ptr<NamedActor>;

// Who has the name, by device; null: nobody.
absl::StatusOr<std::vector<Named>> WhoHas(const Runtime::Impl& impl, const std::string& name) {
  std::vector<Named> all;
  for (const std::shared_ptr<Device>& device : impl.devices) {
    const auto found = device->containers()->LookUp<NamedActor>(kContainer, name);
    if (!found.ok() && !absl::IsNotFound(found.status()))
      return InvalidArgument("on ", device->name(), " '", name, "' of container '", kContainer, "' is no actor");
    all.push_back(found.ok() ? *found : nullptr);
  }
  return all;
}

// From `now` back to those before, on the first devices.
void PutBack(const Runtime::Impl& impl, const std::string& name, const std::vector<Named>& before, size_t devices,
             const Resource* now) {
  for (size_t i = 0; i < devices; ++i) {
    ResourceContainers* const containers = impl.devices[i]->containers();
    UntilMemoryAllows([&] { (void)ReplaceIfSame(containers, kContainer, name, now, before[i]); });
  }
}

// On all devices or, after an error, on none.
absl::Status PutEverywhere(const Runtime::Impl& impl, const std::string& name, const caf::actor& actor) {
  std::vector<Named> before;  // who ends with them may give names: after the lock
  const std::lock_guard lock(Naming());
  TROUPE_ASSIGN_OR_RETURN(before, WhoHas(impl, name));
  const std::vector<ResourceContainers::Entry> now = {
      {kContainer, name, std::make_shared<NamedActor>(impl.system, name, actor)}};
  for (size_t i = 0; i < impl.devices.size(); ++i) {
    const absl::Status put = Guarded("naming an actor", [&] { return impl.devices[i]->containers()->Put(now, {}); });
    if (put.ok()) continue;
    PutBack(impl, name, before, i + 1, now[0].object.get());
    return put;
  }
  return absl::OkStatus();
}

absl::Status TakeAway(const Runtime::Impl& impl, const std::string& name) {
  std::vector<Named> before;  // as above
  const std::lock_guard lock(Naming());
  TROUPE_ASSIGN_OR_RETURN(before, WhoHas(impl, name));
  bool any = false;
  for (size_t i = 0; i < impl.devices.size(); ++i) {
    if (before[i] == nullptr) continue;
    any = true;
    ResourceContainers* const containers = impl.devices[i]->containers();
    UntilMemoryAllows([&] { (void)DeleteIfSame(containers, kContainer, name, before[i].get()); });
  }
  return any ? absl::OkStatus() : NotFound("no actor has the name '", name, "'");
}

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
  return Guarded("naming an actor", [&] { return PutEverywhere(impl, name, actor); });
}

absl::Status UnnameActor(const Runtime& runtime, const std::string& name) {
  return Guarded("taking an actor's name", [&] { return TakeAway(*runtime.impl(), name); });
}

}  // namespace troupe
