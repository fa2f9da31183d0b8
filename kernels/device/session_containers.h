// The containers of what one session has of its own on a device. No container of a user's begins
// with '/', so none of these is named from outside.
#ifndef TROUPE_KERNELS_DEVICE_SESSION_CONTAINERS_H_
#define TROUPE_KERNELS_DEVICE_SESSION_CONTAINERS_H_

#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe {

// Its variables that name neither a container nor a shared name.
inline std::string OwnVariables(std::string_view session) { return StrCat("/session/", session, "/variables"); }
// What is never another session's: random streams, print counters.
inline std::string OwnState(std::string_view session) { return StrCat("/session/", session, "/state"); }

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_SESSION_CONTAINERS_H_
