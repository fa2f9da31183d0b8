// A kernel of a step that runs outside of the executor's turn: a job on a compute thread, or an asynchronous kernel. For the executor's own files.
#ifndef TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_
#define TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_

#include <vector>

#include "troupe/actors/executor/step_state.h"
#include "troupe/actors/executor/tensor_bits.h"
#include "troupe/actors/executor/turn.h"

namespace troupe {

// Its inputs, outputs and context must stay where they are.
struct StepState::AsyncCall {
  std::vector<Tensor> inputs, outputs;
  KernelContext context;
  uint32_t node;
  Iteration* iteration;
  const int64_t begun = NowNanos();
  std::atomic<int64_t> started{0};  // of a job: when a thread took it
  const bool job;
  AsyncCall(const CompiledPart& part, uint32_t number, Iteration* it, Tensor* slots, StepContext* step,
            TensorExchange* exchange, bool job)
      : inputs(part.nodes[number].num_inputs),
        outputs(part.nodes[number].num_outputs),
        context(&part.info[number], inputs.data(), outputs.data(), step, exchange),
        node(number),
        iteration(it),
        job(job) {
    const CompiledNode& n = part.nodes[number];
    for (uint32_t i = 0; i < n.num_inputs; ++i) {
      Tensor& in = slots[n.first_slot + i];
      if (i >= kMaxLentInputs || !(n.lent >> i & 1)) {
        inputs[i] = std::move(in);
      } else {
        inputs[i] = in;
        if (!(n.pinned >> i & 1)) bits::GiveBack(&in);
      }
    }
    context.set_state(part.nodes[number].state);
    context.set_frame_iter(it->tag);
  }
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_
