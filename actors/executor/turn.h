// The turn of an executor: the time during which a thread runs its step. For the executor's own
// files, and for lend.cc, which lends no thread that is in one.
//
// Thread rule: step_in_turn is thread-local; a Turn belongs to the thread that makes it.
#ifndef TROUPE_ACTORS_EXECUTOR_TURN_H_
#define TROUPE_ACTORS_EXECUTOR_TURN_H_

#include "graph/core/clock.h"

namespace troupe {

class StepState;

// The step whose turn runs on this thread. Arrivals that its kernels post need no doorbell.
inline thread_local StepState* step_in_turn = nullptr;

struct Turn {
  explicit Turn(StepState* s) : before(step_in_turn) { step_in_turn = s; }
  ~Turn() { step_in_turn = before; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  StepState* const before;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_TURN_H_
