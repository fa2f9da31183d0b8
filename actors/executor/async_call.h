// A kernel of a step that runs outside of the executor's turn: a job on a compute thread, or an asynchronous kernel. For the executor's own files.
#ifndef TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_
#define TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_

#include <vector>

#include "troupe/actors/executor/step_state.h"

namespace troupe {

// Its inputs, outputs and context must stay where they are.
struct StepState::AsyncCall {
  std::vector<Tensor> inputs, outputs;
  KernelContext context;
  uint32_t node;
  Iteration* iteration;
  AsyncCall(const CompiledNode& n, uint32_t number, Iteration* it, Tensor* slots, StepContext* step, TensorExchange* exchange)
      : inputs(n.num_inputs), outputs(n.num_outputs), context(n.info, inputs.data(), outputs.data(), step, exchange),
        node(number), iteration(it) {
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = std::move(slots[n.first_slot + i]);
    context.set_state(n.state);
    context.set_frame_iter(it->tag);
  }
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_
