// The actor that makes one call of a node to an actor of the program's (troupe/open_cast.h), so
// that no thread waits for the answer. It sends actor_call, and ends with what comes first:
//
//   state    event                                              action                      next
//   calling  actor_answer that fits the node                  1 outputs, done OK            (ended)
//   calling  actor_answer with an error, or that does not fit 2 done with it                (ended)
//   calling  another answer, or a refusal                     3 done FAILED_PRECONDITION    (ended)
//   calling  the actor is dead, or dies                       4 done UNAVAILABLE            (ended)
//   calling  no answer in time                                5 done DEADLINE_EXCEEDED      (ended)
//   calling  end_call: the step was told to end               6 done CANCELLED              (ended)
//   calling  it is killed                                     7 done ABORTED                (ended)
//   (ended)  whatever comes                                   8 nothing: nobody is there
//
// Thread rule: StartCall may be called from any thread; `done` is called once, in a turn of the
// actor or within StartCall.
//
// Tests of the edges, tests/calls/calls_test.cc:
//   1        edge_1_the_answer_is_the_output
//   2        edge_2_errors_and_answers_that_do_not_fit
//   3        edge_3_actors_that_do_not_understand
//   4        edge_4_a_dead_actor
//   5        edges_5_and_8_no_answer_in_time
//   6        edge_6_a_step_that_ends_waits_for_nobody
//   7        edge_7_the_caller_is_killed
//   8        edges_5_and_8_no_answer_in_time
#ifndef TROUPE_ACTORS_CALL_CALLER_H_
#define TROUPE_ACTORS_CALL_CALLER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "actors/call/named_actors.h"
#include "troupe/kernel.h"
#include "troupe/open_cast.h"

namespace troupe {

// REQUIRES: `ctx` lives until `done` is called. `take` looks at the tensors of an answer and sets
// the outputs.
void StartCall(KernelContext& ctx, std::shared_ptr<NamedActor> who, std::chrono::milliseconds timeout,
               actor_call&& message, std::function<absl::Status(std::vector<Tensor>&&)> take, DoneFn done);

}  // namespace troupe

#endif  // TROUPE_ACTORS_CALL_CALLER_H_
