// Precompiled for tests/cast: the tests' own, CAF with its deterministic scheduler, and the stage on which the cast plays.
#include "tests.h"

#include "cast/play.h"
