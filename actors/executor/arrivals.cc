// What does not run in the executor's turn: jobs and asynchronous kernels, and everything that others post.
#include <algorithm>

#include "troupe/actors/executor/async_call.h"
#include "troupe/actors/executor/tokens.h"
#include "troupe/actors/executor/turn.h"

namespace troupe {

void StepState::RunAsync(uint32_t node, Iteration* it, bool dead) {
  const CompiledNode& n = nodes_[node];
  if (n.deref && !ReadReferences(node, it->slots + n.first_slot)) return;
  auto* call = new AsyncCall(*part_, node, it, it->slots, input_.context.get(), this, false);
  call->context.set_dead(dead);
  calls_.push_back(call);
  ++in_flight_;
  current_.store(node, std::memory_order_relaxed);
  current_inputs_ = nullptr;
  const int64_t step = input_.context->step_id;
  part_->async[node](call->context,
                     [this, call, step, keep = host_->KeepAlive(), context = input_.context](absl::Status s) {
                       auto* a = new Arrival;
                       a->step_id = step;
                       a->node = call->node;
                       a->iteration = call->iteration;
                       a->status = std::move(s);
                       a->outputs = std::move(call->outputs);
                       a->dead = call->context.output_dead();
                       if (step_in_turn == this) {
                         local_arrivals_.emplace_back(a);
                       } else if (PostArrival(a)) {
                         host_->RingDoorbell();
                       }
                     });
}

void StepState::RunAsJob(uint32_t node, Iteration* it) {
  const CompiledNode& n = nodes_[node];
  if (n.deref && !ReadReferences(node, it->slots + n.first_slot)) return;
  auto* call = new AsyncCall(*part_, node, it, it->slots, input_.context.get(), this, true);
  calls_.push_back(call);
  ++in_flight_;
  jobs_.fetch_add(1, std::memory_order_relaxed);
  const int64_t step = input_.context->step_id;
  part_->device->threads()->Schedule(
      [this, call, step, compute = n.compute, keep = host_->KeepAlive(), context = input_.context] {
        auto* a = new Arrival;
        const ComputeThreads::LoopOwner owner(context.get());
        const int64_t start = NowNanos();
        call->started.store(start, std::memory_order_relaxed);
        try {
          a->status = compute(call->context);
        } catch (const std::exception& e) {
          a->status = Internal("the kernel threw an exception: ", e.what());
        } catch (...) {
          a->status = Internal("the kernel threw something that is no std::exception");
        }
        a->job = true;
        a->nanos = static_cast<uint64_t>(NowNanos() - start);
        a->tag = static_cast<uint64_t>(start);
        call->inputs.clear();
        a->step_id = step;
        a->node = call->node;
        a->iteration = call->iteration;
        a->outputs = std::move(call->outputs);
        if (PostArrival(a)) host_->RingDoorbell();
      },
      input_.context.get());
}

bool StepState::PostArrival(Arrival* a) {
  Arrival* head = arrivals_.load(std::memory_order_relaxed);
  do {
    a->next = head;
  } while (!arrivals_.compare_exchange_weak(head, a, std::memory_order_release, std::memory_order_relaxed));
  return head == nullptr;
}

void StepState::TakeArrivals() {
  Turn turn(this);
  Arrival* list = arrivals_.exchange(nullptr, std::memory_order_acquire);
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
  if (a->kind == Arrival::Kind::kReport) return a->report(Report());
  if (a->step_id > last_step_) return early_arrivals_.push_back(std::move(a));
  if (!active_ || a->step_id != last_step_) {
    ++late_arrivals_;
    return;
  }
  switch (a->kind) {
    case Arrival::Kind::kReport:
      return;  // answered above
    case Arrival::Kind::kAbort:
      return Abort(a->status);
    case Arrival::Kind::kArgument:
      return HandleArgument(*a);
    case Arrival::Kind::kNodeDone:
      return HandleNodeDone(*a);
    case Arrival::Kind::kTensor:
      if (!aborting_) TensorCame(a.get());
      return;
    case Arrival::Kind::kGrant:
      if (!aborting_) Granted(*a);
      return;
  }
}

// Of a partial run: the argument may come before or after its node is ready.
void StepState::HandleArgument(Arrival& a) {
  const auto index = static_cast<uint32_t>(a.tag);
  if (aborting_ || index >= held_arguments_.size() || held_arguments_[index].valid()) return;
  held_arguments_[index] = std::move(a.outputs[0]);
  const Tensor& value = held_arguments_[index];
  if (std::count(part_->lent_arguments.begin(), part_->lent_arguments.end(), index) > 0) bits::AddBias(value);
  const auto waiting = std::find_if(waiting_arguments_.begin(), waiting_arguments_.end(),
                                    [&](const auto& w) { return w.index == index; });
  if (waiting == waiting_arguments_.end()) return;
  const uint32_t node = waiting->node;
  waiting_arguments_.erase(waiting);
  --in_flight_;
  if (part_->has_control_flow) {
    FinishLender<true>(node, &root_, value);
  } else {
    FinishLender<false>(node, &root_, value);
  }
}

void StepState::HandleNodeDone(Arrival& a) {
  --in_flight_;
  std::erase_if(calls_, [&](AsyncCall* c) {
    if (c->node != a.node || c->iteration != a.iteration) return false;
    delete c;
    return true;
  });
  if (a.job) {
    jobs_.fetch_sub(1, std::memory_order_relaxed);
    part_->RecordCost(a.node, a.nanos, false);
    CountRun(1);
    if (input_.timings != nullptr) {
      const auto start = static_cast<int64_t>(a.tag);
      input_.timings->push_back({a.node, 1, start, start + static_cast<int64_t>(a.nanos)});
    }
  }
  if (aborting_) return;
  if (!a.status.ok()) return Fail(a.node, a.status);
  // A value that came from elsewhere may be of any type.
  const CompiledNode& n = nodes_[a.node];
  for (int i = 0; i < n.num_outputs && n.step == Step::kAsyncKernel; ++i) {
    const Tensor& t = a.outputs[i];
    const DType want = part_->info[a.node].output_types[i];
    if (t.valid() && t.dtype() != want) {
      return Fail(a.node, Internal("output ", i, " came as ", t.TypeAndShape(), ", but is ", Name(want)));
    }
  }
  FinishArrived(a.node, a.iteration, a.outputs.data(), a.dead);
}

void StepState::FinishArrived(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  if (part_->has_control_flow) {
    FinishNode<true>(node, it, out, dead);
  } else {
    FinishNode<false>(node, it, out, false);
  }
}

void StepState::ForgetCalls() {
  for (AsyncCall* c : calls_) delete c;
  calls_.clear();
}

}  // namespace troupe
