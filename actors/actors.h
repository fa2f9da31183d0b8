// For programs that script the cast themselves: a runtime in an actor system of theirs, and the messages of the session actor. Pulls in CAF.
#ifndef TROUPE_ACTORS_ACTORS_H_
#define TROUPE_ACTORS_ACTORS_H_

#include "troupe/actors/runtime_impl.h"
#include "troupe/troupe.h"

#endif  // TROUPE_ACTORS_ACTORS_H_
