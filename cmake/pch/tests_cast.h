// Precompiled for tests/cast and tests/remote: the tests' own, CAF with its deterministic
// scheduler, and the stage on which the cast plays.
#include "cmake/pch/tests.h"

#include "tests/cast/play.h"
