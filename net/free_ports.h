// Ports of this machine that nobody has, for processes that are about to be started.
//
// They are free when they are given: who is started a moment later finds them so, unless another
// program takes one meanwhile.
//
// Thread rule: any thread.
#ifndef TROUPE_NET_FREE_PORTS_H_
#define TROUPE_NET_FREE_PORTS_H_

#include <cstddef>
#include <vector>

#include "troupe/cluster.h"

namespace troupe {

// Different ones of 127.0.0.1, not of those that the system gives to outgoing connections.
// UNAVAILABLE when there are not so many.
absl::StatusOr<std::vector<int>> FreePorts(size_t count);

// Whether a server could listen at this address of the machine: OK, UNAVAILABLE with the reason,
// NOT_FOUND for a host that has no address.
absl::Status CheckPort(const HostPort& address);

}  // namespace troupe

#endif  // TROUPE_NET_FREE_PORTS_H_
