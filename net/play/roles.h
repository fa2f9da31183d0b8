// The roles that programs have registered (troupe/play_actors.h).
//
// Thread rule: any thread.
#ifndef TROUPE_NET_PLAY_ROLES_H_
#define TROUPE_NET_PLAY_ROLES_H_

#include <string>

#include "troupe/play_actors.h"

namespace troupe::play {

// NOT_FOUND lists those that there are.
absl::StatusOr<RoleFactory> FindRole(const std::string& name);

// Lets the program's message types pass.
void ConfigureSystem(caf::actor_system_config* config);

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_ROLES_H_
