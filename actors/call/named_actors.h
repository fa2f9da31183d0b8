// The program's actors, by the names under which nodes call them (troupe/open_cast.h).
//
// A name is an entry in a container of each device of the runtime, where kernels find it, and which
// lets go of the actor when the runtime ends.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_CALL_NAMED_ACTORS_H_
#define TROUPE_ACTORS_CALL_NAMED_ACTORS_H_

#include <caf/all.hpp>
#include <memory>
#include <string>

#include "troupe/device.h"
#include "troupe/resource_container.h"

namespace troupe {

struct NamedActor : Resource {
  NamedActor(caf::actor_system* in, std::string called, caf::actor who)
      : system(in), name(std::move(called)), actor(std::move(who)) {}
  std::string DebugString() const override { return "actor '" + name + "' of the program"; }
  caf::actor_system* const system;  // of the runtime
  const std::string name;
  const caf::actor actor;
};

// FAILED_PRECONDITION: nobody has the name.
absl::StatusOr<std::shared_ptr<NamedActor>> FindNamedActor(const Device& device, const std::string& name);

}  // namespace troupe

#endif  // TROUPE_ACTORS_CALL_NAMED_ACTORS_H_
