// The actors of a topology (troupe/play.h): the roles of which a program makes them, and what each
// is told of those that it uses. Includes CAF 0.17.6; link troupe::actors.
//
// A shared library registers its roles when it is loaded, by a variable that calls RegisterRole.
//
// Thread rule: RegisterRole and ConfigureSystems from any thread; a factory is called in an actor's
// turn, and must not block.
#ifndef TROUPE_PLAY_ACTORS_H_
#define TROUPE_PLAY_ACTORS_H_

#include <caf/all.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "troupe/export.h"
#include "troupe/play.h"
#include "troupe/runtime.h"

namespace troupe {
namespace TROUPE_EXPORT play {

// What a factory is told. It spawns the actor in `system`.
struct RoleContext {
  caf::actor_system& system;
  // That in which the actor gets its name; null for an actor with a process of its own. Whoever
  // keeps a share of it drops it when the actor ends.
  std::shared_ptr<Runtime> runtime;
  std::string name;                         // of the part
  std::map<std::string, std::string> with;  // its settings `with: KEY=VALUE`
  uint64_t incarnation = 1;                 // of the actor, in this process
};
// An error, or no actor, counts as an actor that has failed at once.
using RoleFactory = std::function<absl::StatusOr<caf::actor>(const RoleContext& context)>;

// The `factory` of actors. ALREADY_EXISTS when the name is taken; INVALID_ARGUMENT without a name
// or a factory.
absl::Status RegisterRole(const std::string& name, RoleFactory factory);

// Called for the actor system of each part before it is made, in the order of the calls: for the
// message types that the program's actors send to other processes.
void ConfigureSystems(std::function<void(caf::actor_system_config* config)> configure);

// To an actor, for each part that it `uses`: it is there, at this handle; again when there is
// another incarnation. What it got last is gone after part_down. An actor that has no handler for
// them is told all the same.
struct part_up {
  std::string name;
  caf::actor actor;
};
struct part_down {
  std::string name;
};

}  // namespace play
}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::play::part_up)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::play::part_down)

#endif  // TROUPE_PLAY_ACTORS_H_
