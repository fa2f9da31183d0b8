// Calls a server's address: a probe, then CAF's connect, each with an end. An actor for each call,
// which is gone when it has told.
//
// Thread rule: any thread.
#ifndef TROUPE_NET_CALLER_H_
#define TROUPE_NET_CALLER_H_

#include "net/control_actor.h"
#include "net/probe.h"

namespace troupe {

// The system has CAF's middleman. Each part of a call ends after `timeout`.
Dial DialByNetwork(caf::actor_system& system, std::shared_ptr<Probes> probes, std::chrono::milliseconds timeout);

}  // namespace troupe

#endif  // TROUPE_NET_CALLER_H_
