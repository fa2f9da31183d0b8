// The placement policies that programs have given to sessions (troupe/placement.h).
//
// They stand beside the sessions and not in them: hardly any session has one. What a session has
// left behind goes when the next one gets a policy.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_SESSION_PLACEMENT_POLICIES_H_
#define TROUPE_ACTORS_SESSION_PLACEMENT_POLICIES_H_

#include <memory>

#include "troupe/placement.h"

namespace troupe {

class SessionMaster;

// Empty: the session has none.
PlacementPolicy PlacementOf(const std::weak_ptr<const SessionMaster>& session);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_PLACEMENT_POLICIES_H_
