// Which run made which run ready, found after the step.
//
// While a step runs, nothing is kept of which input of a node came last: that would cost every step
// of everybody. It follows from when the runs were and from the part's edges: of the producers of a
// node's inputs, control edges included, the one whose run ended last before the node ran. Nodes
// that leave no run (those that only order others, constants, arguments) are looked through, except
// in loops. A loop's nodes run once an iteration: where two nodes of one loop ran equally often,
// run k of the one belongs to run k of the other; else it is the last run that ended in time.
//
// Clocks may be coarse: of a node that began when others ended, those are earlier that stand before
// it among the runs. An executor writes a run down before what it makes ready can run, so this is
// the order of what waits for what, and no run is its own cause by way of others.
//
// Thread rule: pure functions.
#ifndef TROUPE_ACTORS_TRACE_RUN_CAUSES_H_
#define TROUPE_ACTORS_TRACE_RUN_CAUSES_H_

#include <cstdint>
#include <vector>

#include "actors/executor/compiled_part.h"
#include "actors/wire/part_messages.h"

namespace troupe {

// Of a run: since when it could have begun, and by which run's end.
struct RunCause {
  int64_t after = -1;       // a place among the runs; -1: none
  int64_t ready_nanos = 0;  // that one's end; without one, `begin` below
};

// By run; `runs` in the order in which the executor wrote them down. `begin`: when the part began
// its step.
std::vector<RunCause> CausesOf(const CompiledPart& part, const std::vector<node_run>& runs, int64_t begin);

}  // namespace troupe

#endif  // TROUPE_ACTORS_TRACE_RUN_CAUSES_H_
