// CastTake: a + b on the CPU, as a node of its own that is neither fused nor folded away.
//
// Thread rule: the stage's thread.
#ifndef TROUPE_TESTS_CAST_TAKE_OP_H_
#define TROUPE_TESTS_CAST_TAKE_OP_H_

#include <cstdint>

namespace troupe {

// How often its kernel has run.
int64_t TimesTaken();

}  // namespace troupe

#endif  // TROUPE_TESTS_CAST_TAKE_OP_H_
