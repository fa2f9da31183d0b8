// For programs that script the cast themselves: the actors, their messages and how to spawn them. Pulls in CAF.
#ifndef TROUPE_ACTORS_ACTORS_H_
#define TROUPE_ACTORS_ACTORS_H_

#include "troupe/graph/core/status.h"
#include "troupe/graph/core/tensor.h"

#endif  // TROUPE_ACTORS_ACTORS_H_
