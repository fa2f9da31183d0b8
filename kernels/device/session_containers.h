// Names of the containers that hold one session's own state on a device. Users' container names
// cannot begin with '/', so they never name one of these.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_DEVICE_SESSION_CONTAINERS_H_
#define TROUPE_KERNELS_DEVICE_SESSION_CONTAINERS_H_

#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe {

// Variables of the session whose nodes give neither a container nor a shared name.
inline std::string OwnVariables(std::string_view session) { return StrCat("/session/", session, "/variables"); }
// State that sessions never share: random streams, print counters.
inline std::string OwnState(std::string_view session) { return StrCat("/session/", session, "/state"); }

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_SESSION_CONTAINERS_H_
