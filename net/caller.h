// Calls a server's address: a probe, whose connection CAF then greets on, each with an end. An
// actor for each call, which is gone when it has told.
//
// Thread rule: any thread; ConnectTo blocks.
#ifndef TROUPE_NET_CALLER_H_
#define TROUPE_NET_CALLER_H_

#include <algorithm>
#include <chrono>
#include <memory>

#include "net/control_actor.h"
#include "net/probe.h"

namespace troupe {

// The system has CAF's middleman. A call, of both parts, ends after `timeout`, but for the time of
// a look-up; a connection that was probed has 100 ms at least.
Dial DialByNetwork(caf::actor_system& system, std::shared_ptr<Probes> probes, std::chrono::milliseconds timeout);

// The same by a thread that may wait, in `at_most` (and a day) and the time of a look-up.
absl::StatusOr<caf::actor> ConnectTo(caf::actor_system& system, const HostPort& address,
                                     std::chrono::milliseconds at_most, const std::shared_ptr<TlsContext>& tls);
// The same on the connection of a probe, which nobody else takes.
absl::StatusOr<caf::actor> ConnectTo(caf::actor_system& system, const Reached& reached,
                                     std::chrono::milliseconds at_most);

// CAF ends a connection on which nothing comes for a while, and sessions of clients with it: not
// before the lease is over.
void KeepConnectionsFor(std::chrono::milliseconds lease, caf::actor_system_config* config);

// Of an actor system that is a node: two threads for all who are in control.
// `lease`: of sessions, as KeepConnectionsFor.
std::unique_ptr<caf::actor_system_config> NodeConfig(std::chrono::milliseconds lease);

// Times of more than a day are cut, so that sums with the time of now do not overflow.
inline constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
inline std::chrono::milliseconds Bounded(std::chrono::milliseconds time) {
  return std::clamp(time, std::chrono::milliseconds(0), kLongest);
}

}  // namespace troupe

#endif  // TROUPE_NET_CALLER_H_
