// For programs that script the cast themselves: a runtime in an actor system of theirs, and the messages of the session actor. Pulls in CAF.
#ifndef TROUPE_ACTORS_ACTORS_H_
#define TROUPE_ACTORS_ACTORS_H_

#include "troupe/actors/messages.h"
#include "troupe/actors/runtime_impl.h"
#include "troupe/troupe.h"

namespace troupe {

// The actor of a session. A user's actor sends it run_request and gets run_reply; it may be monitored, and lives as long as the session.
//   self->request(ActorOf(session), 10s, run_request{{{"x", t}}, {"y"}, {}}).then([](const run_reply& r) { ... });
caf::actor ActorOf(const Session& session);

}  // namespace troupe

#endif  // TROUPE_ACTORS_ACTORS_H_
