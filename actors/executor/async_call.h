// A kernel that runs outside of the executor's turn: a job on a compute thread, or an asynchronous
// kernel. For the executor's own files.
//
// A call has two holders: the step's list, until the node's end is handled in the turn, and the
// copies of its Answer. An asynchronous kernel's `done` is an Answer; a job keeps one, too. The
// first answer is posted as the node's end; later ones are ignored. If the last copy is destroyed
// and none was called, the node's end is posted as INTERNAL: so a kernel that drops its `done`, or
// throws with it, fails its step instead of holding it up. A job that its step no longer wants
// answers without computing, or is dropped before it begins. The message of the node's end is
// allocated with the call, so that an answer needs no memory.
//
//   open      answer                 1 post the node's end                                  answered
//   open      the last copy goes     2 post INTERNAL; of a job, CANCELLED                   answered
//   answered  answer                 3 ignored, and logged once a part                      answered
//   answered  the last copy goes     4 the kernel's context and executor are let go         gone, when the end was handled
//
// The executor, its part and its step's context live as long as a copy of the Answer, so a kernel
// may go on after it has answered.
//
// Thread rule: Answers may be called, copied and dropped on any thread; the list belongs to the
// turn.
//
// Tests of the edges, tests/actors/misbehaved_kernels_test.cc:
//   1, 3  only_the_first_answer_counts
//   2     an_answer_that_is_dropped_fails_its_step
//   4     an_answer_may_outlive_its_executor
// and tests/actors/cut_off_test.cc:
//   2     jobs_of_a_step_that_ended_do_not_begin
#ifndef TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_
#define TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_

#include <vector>

#include "actors/executor/step_state.h"
#include "actors/executor/tensor_bits.h"
#include "actors/executor/turn.h"

namespace troupe {

// Does not move: the kernel has pointers to its inputs, outputs and context.
struct AsyncCall {
  std::vector<Tensor> inputs, outputs;
  std::unique_ptr<Arrival> arrival;  // the node's end, until it is posted
  KernelContext context;
  const uint32_t node;
  Iteration* const iteration;
  const int64_t begun;
  std::atomic<int64_t> started{0};  // of a job: when a thread took it,
  uint32_t row = 0;                 // and the thread's row in statistics
  const bool job;
  std::shared_ptr<PendingWait> waits;  // of a job whose kernel must wait
  // Of a step that checks itself for NaN and infinities. A share, since a job may run when its
  // executor is dead and the step is over.
  const std::shared_ptr<const NumericsCheck> numerics;
  std::vector<Tensor> held_inputs;  // for that check: the kernel may move its own inputs away
  StepState* const state;
  AsyncCall *before = nullptr, *after = nullptr;  // in the step's list
  // Of the answers.
  std::shared_ptr<void> keep;
  const std::shared_ptr<StepContext> step;
  std::atomic<bool> answered{false};
  std::atomic<uint32_t> answers{0};  // copies that are left
  std::atomic<uint8_t> holders{2};

  AsyncCall(StepState* state, uint32_t number, Iteration* it, bool job)
      : inputs(state->nodes_[number].num_inputs),
        outputs(state->nodes_[number].num_outputs),
        arrival(std::make_unique<Arrival>(node_end())),
        context(&state->part_->info[number], inputs.data(), outputs.data(), state->input_.context.get(), state),
        node(number),
        iteration(it),
        begun(state->Now()),
        job(job),
        numerics(state->input_.numerics),
        state(state),
        keep(state->host_->KeepAlive()),
        step(state->input_.context) {
    const CompiledNode& n = state->nodes_[number];
    for (uint32_t i = 0; i < n.num_inputs; ++i) {
      Tensor& in = it->slots[n.first_slot + i];
      if (i >= kMaxLoanedInputs || !(n.loaned >> i & 1)) {
        inputs[i] = std::move(in);
      } else {
        inputs[i] = in;
        if (!(n.pinned >> i & 1)) bits::GiveBack(&in);
      }
    }
    if (numerics != nullptr) [[unlikely]]
      held_inputs = inputs;
    context.set_state(n.state);
    context.set_frame_iter(it->id);
    node_end& e = end();
    e.step = step->step_id;
    e.call = this;
    e.node = node;
    e.iteration = it;
    e.job = job;
  }
  // REQUIRES: it has not been posted.
  node_end& end() { return std::get<node_end>(arrival->message); }
  // To where the constructor took them from. In the turn.
  void PutInputsBack() {
    const CompiledNode& n = state->nodes_[node];
    for (uint32_t i = 0; i < n.num_inputs; ++i) {
      Tensor& in = iteration->slots[n.first_slot + i];
      if (i >= kMaxLoanedInputs || !(n.loaned >> i & 1)) {
        in = std::move(inputs[i]);
      } else if (!(n.pinned >> i & 1)) {
        bits::CopyBits(state->OwnerOf(n.first_slot + i), &in);
      }
    }
  }
  void Release() noexcept {
    if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  // Posts the node's end. False when the call has been answered before.
  bool Give(absl::Status status) noexcept {
    if (answered.exchange(true, std::memory_order_acq_rel)) return false;
    node_end& e = end();
    e.status = std::move(status);
    e.outputs = std::move(outputs);
    e.dead = context.output_dead();
    state->PostEnd(arrival.release());
    return true;
  }
};

// The `done` of a kernel: a copyable function object.
class StepState::Answer {
 public:
  // The first of the call's.
  explicit Answer(AsyncCall* call) noexcept : call_(call) { call->answers.store(1, std::memory_order_relaxed); }
  Answer(const Answer& other) noexcept : call_(other.call_) {
    if (call_ != nullptr) call_->answers.fetch_add(1, std::memory_order_relaxed);
  }
  Answer(Answer&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Answer& operator=(Answer) = delete;
  ~Answer() {
    if (call_ != nullptr && call_->answers.fetch_sub(1, std::memory_order_acq_rel) == 1) LastGone(call_);
  }
  void operator()(absl::Status status) const {
    if (!call_->Give(std::move(status))) call_->state->AnsweredAgain(call_->node);
  }
  AsyncCall* call() const { return call_; }

 private:
  static void LastGone(AsyncCall* call) noexcept;

  AsyncCall* call_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_ASYNC_CALL_H_
