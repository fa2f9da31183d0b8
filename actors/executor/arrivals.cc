// What does not run in the executor's turn: jobs and asynchronous kernels, and everything that
// others post.
#include <algorithm>

#include "actors/executor/async_call.h"
#include "actors/executor/run_rows.h"
#include "actors/executor/tokens.h"
#include "actors/executor/turn.h"
#include "graph/core/log.h"
#include "kernels/numerics_check.h"
#include "kernels/run_kernel.h"

namespace troupe {

uint32_t rows::OfThisThread() {
  static std::atomic<uint32_t> last{kTurn};
  thread_local const uint32_t own = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return own;
}

void StepState::RunAsyncKernel(uint32_t node, Iteration* it, bool dead) {
  const CompiledNode& n = nodes_[node];
  if (n.deref && !ReadReferences(node, it, dead)) return;
  const Answer answer(Call(node, it, false));
  AsyncCall* const call = answer.call();
  call->context.set_dead(dead);
  current_.store(node, std::memory_order_relaxed);
  asking_ = call;
  try {
    absl::Status checked;
    if (call->numerics != nullptr) [[unlikely]]
      checked = CheckUpdateInputs(node, call->held_inputs);
    if (checked.ok()) {
      part_->async[node](call->context, answer);
    } else {
      call->Give(std::move(checked));
    }
  } catch (...) {
    // The copy that the kernel had is gone, this one is not: the exception is the answer, not the
    // lost `done`.
    if (!call->Give(KernelException())) AnsweredAgain(node);
  }
  asking_ = nullptr;
  if (n.flow == kInTurn) PassTurn(it->frame, n.index, it->number);
}

void StepState::RunAsJob(uint32_t node, Iteration* it) {
  const CompiledNode& n = nodes_[node];
  if (n.deref && !ReadReferences(node, it)) return;
  const Answer answer(Call(node, it, true));
  if (AsyncCall* const call = answer.call(); call->numerics != nullptr) [[unlikely]] {
    if (absl::Status s = CheckUpdateInputs(node, call->held_inputs); !s.ok()) return (void)call->Give(std::move(s));
  }
  part_->device->threads()->Schedule(
      [answer, compute = n.compute] {
        AsyncCall* const call = answer.call();
        const ComputeThreads::LoopOwner owner(call->step.get());
        const ComputeThreads::LoopCancellation loops(&call->step->cancelled);
        const int64_t start = call->state->Now();
        call->started.store(start, std::memory_order_relaxed);
        call->row = rows::OfThisThread();
        // It may have waited for its thread until after the step's answer.
        if (call->step->cancelled.load(std::memory_order_relaxed) || call->state->Aborted(call->step->step_id)) {
          call->Give(absl::CancelledError("the step ended"));
          return;
        }
        const NumericsScope numerics(call->numerics.get());
        absl::Status status;
        try {
          status = compute(call->context);
        } catch (...) {
          status = KernelException();
        }
        // What must wait does so in the turn, and needs its inputs again.
        if (KernelWaits(call->context, nullptr, &status)) {
          try {
            call->waits = Hold(call->context.TakeWait(), call->step.get());
          } catch (...) {
            status = KernelException();
          }
          call->Give(std::move(status));
          return;
        }
        call->end().nanos = call->state->Now() - start;
        call->end().start_nanos = start;
        call->inputs.clear();
        call->Give(std::move(status));
      },
      input_.context.get());
}

// A new call, which counts as running from here on. Whoever asks for it makes its first Answer.
AsyncCall* StepState::Call(uint32_t node, Iteration* it, bool job) {
  auto* call = new AsyncCall(this, node, it, job);
  call->before = last_call_;
  (last_call_ != nullptr ? last_call_->after : first_call_) = call;
  last_call_ = call;
  ++in_flight_;
  if (job) jobs_.fetch_add(1, std::memory_order_relaxed);
  return call;
}

void StepState::Forget(AsyncCall* call) {
  (call->before != nullptr ? call->before->after : first_call_) = call->after;
  (call->after != nullptr ? call->after->before : last_call_) = call->before;
  call->Release();
}

void StepState::ForgetCalls() {
  while (first_call_ != nullptr) Forget(first_call_);
}

// Made when the library is loaded, since memory may be lacking when they are needed.
static const absl::Status& kForgot =
    *new absl::Status(Internal("the kernel forgot to answer: it dropped `done` without calling it"));
static const absl::Status& kDropped = *new absl::Status(Cancelled("the step ended before the job began"));

void StepState::Answer::LastGone(AsyncCall* call) noexcept {
  if (!call->answered.load(std::memory_order_acquire)) call->Give(call->job ? kDropped : kForgot);
  // The step's state may go with it.
  const std::shared_ptr<void> keep = std::move(call->keep);
  call->Release();
}

// A kernel has the habit of it, or none: one line is enough.
void StepState::AnsweredAgain(uint32_t node) const {
  if (part_->answered_again.exchange(true, std::memory_order_relaxed)) return;
  const KernelNode& n = part_->info[node];
  LogWarning("node '", n.name, "' (", n.op, ") on ", n.device->name(),
             ": the kernel answered a second time, or threw after it had answered; only its first answer counts");
}

// In the turn the bell need not ring.
void StepState::PostEnd(Arrival* a) {
  if (step_in_turn == this) {
    local_arrivals_.Push(a);
  } else if (PostArrival(a)) {
    host_->RingDoorbell();
  }
}

bool StepState::PostArrival(Arrival* a) {
  Arrival* head = arrivals_.load(std::memory_order_relaxed);
  do {
    a->next = head;
  } while (!arrivals_.compare_exchange_weak(head, a, std::memory_order_acq_rel, std::memory_order_relaxed));
  return head == nullptr;
}

void StepState::TakeArrivals() {
  Turn turn(this);
  Arrival* list = arrivals_.exchange(nullptr, std::memory_order_acq_rel);
  Arrival* in_order = nullptr;
  while (list != nullptr) {
    Arrival* next = list->next;
    list->next = in_order;
    in_order = list;
    list = next;
  }
  while (in_order != nullptr) {
    std::unique_ptr<Arrival> a(in_order);
    in_order = in_order->next;
    HandleArrival(std::move(a));
  }
}

void StepState::HandleArrival(std::unique_ptr<Arrival> a) {
  if (const auto* q = std::get_if<question>(&a->message)) return Answered(*q);
  const int64_t step = a->step();
  try {
    if (step > last_step_) {
      absl::Status kept = mailroom_.KeepEarly(std::move(a));
      if (!kept.ok()) refused_ = {step, std::move(kept)};
      return;
    }
    if (!active_ || step != last_step_) {
      ++late_arrivals_;
      return;
    }
    std::visit([this](auto& m) { Handle(m); }, a->message);
  } catch (...) {
    Abort(StepException());
  }
}

// Whoever asks waits for an answer, also when a report cannot be made: for want of memory, say.
void StepState::Answered(const question& q) const {
  StepReport report;
  try {
    report = Report();
  } catch (...) {
    report.running = active_;
  }
  host_->Answer({q.number, std::move(report)});
}

// Of a partial run: the argument may come before or after its node is ready.
void StepState::Handle(argument& m) {
  const uint32_t index = m.index;
  if (aborting_ || index >= held_arguments_.size() || held_arguments_[index].valid()) return;
  held_arguments_[index] = std::move(m.value);
  const Tensor& value = held_arguments_[index];
  if (std::binary_search(part_->loaned_arguments.begin(), part_->loaned_arguments.end(), index)) bits::AddBias(value);
  const auto waiting = waiting_arguments_.find(index);
  if (waiting == waiting_arguments_.end()) return;
  const uint32_t node = waiting->second.node;
  waiting_arguments_.erase(waiting);
  --in_flight_;
  if (part_->has_control_flow) {
    FinishLoaned<true>(node, &root_, value);
  } else {
    FinishLoaned<false>(node, &root_, value);
  }
}

void StepState::Handle(node_end& m) {
  --in_flight_;
  AsyncCall* const call = m.call;
  std::shared_ptr<PendingWait> waits = std::move(call->waits);
  const std::vector<Tensor> inputs = std::move(call->held_inputs);
  const uint32_t row = call->row;
  const int64_t begun = call->begun;
  if (waits != nullptr) {
    jobs_.fetch_sub(1, std::memory_order_relaxed);
    if (aborting_) {
      GiveUp(*waits);  // before the inputs, which name what it waits for
    } else {
      call->PutInputsBack();
    }
    Forget(call);
    if (!aborting_) WaitFor(m.node, m.iteration, false, -1, std::move(waits));
    return;
  }
  Forget(call);
  if (m.job) {
    jobs_.fetch_sub(1, std::memory_order_relaxed);
    job_nanos_ += m.nanos;
    if (m.nanos != 0) part_->RecordCost(m.node, static_cast<uint64_t>(m.nanos), false);
    CountRun(1);
    if (input_.timings != nullptr) {
      input_.timings->push_back({m.node, row, m.start_nanos, m.start_nanos + m.nanos});
    }
  } else if (input_.timings != nullptr) {
    input_.timings->push_back({m.node, rows::kAsynchronous, begun, Now()});
  }
  if (aborting_) return;
  // A value that came from elsewhere may be of any type.
  if (m.status.ok()) m.status = CheckOutputs(m.node, m.outputs.data(), m.dead);
  if (input_.numerics != nullptr) [[unlikely]] {
    m.status = CheckArrived(m, inputs);
    // For the files of its inputs.
    if (KernelWaits(kernel_context_, nullptr, &m.status))
      return WaitFor(m.node, m.iteration, false, -1, Hold(kernel_context_.TakeWait(), input_.context.get()));
  }
  if (!m.status.ok()) return Fail(m.node, WithMemoryHolders(m.node, m.status));
  FinishArrived(m.node, m.iteration, m.outputs.data(), m.dead);
}

void StepState::FinishArrived(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  if (part_->has_control_flow) {
    FinishNode<true>(node, it, out, dead);
  } else {
    FinishNode<false>(node, it, out, false);
  }
}

}  // namespace troupe
