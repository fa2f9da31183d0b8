#include "troupe/actors/executor/step_state.h"

#include <algorithm>
#include <chrono>

#include "troupe/actors/executor/async_call.h"
#include "troupe/kernels/state/variable_slot.h"

namespace troupe {
namespace {

constexpr uint32_t kHeavyNanos = 50000;  // about one thread hop: from here on a node is worth a thread of its own

int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The step whose turn this thread has: what its kernels post needs no doorbell.
thread_local StepState* in_turn = nullptr;

struct Turn {
  explicit Turn(StepState* s) : before(in_turn) { in_turn = s; }
  ~Turn() { in_turn = before; }
  StepState* before;
};

}  // namespace

StepState::StepState(std::shared_ptr<const CompiledPart> part, StepHost* host) : part_(std::move(part)), host_(host) {
  const CompiledPart& p = *part_;
  root_.frame = &root_frame_;
  root_.count_store = std::make_unique<uint32_t[]>(p.frames[0].num_nodes);
  root_.slot_store = std::make_unique<Tensor[]>(p.frames[0].num_slots);
  root_.counts = root_.count_store.get();
  root_.slots = root_.slot_store.get();
  root_frame_.iterations.assign(1, &root_);
  out_.resize(p.max_outputs);
  if (!p.has_control_flow) flat_.resize(p.nodes.size());
  free_iterations_.resize(p.frames.size());
  // A header of this executor's own over the part's bytes: counting uses touches no line that another thread counts on.
  for (const Tensor& t : p.constants) {
    Buffer* b = Buffer::Slice(t.buffer(), 0, t.buffer()->size());
    constants_.push_back(b == nullptr ? t : Tensor(t.dtype(), t.shape(), b));
  }
}

StepState::~StepState() {
  for (Arrival* a = arrivals_.exchange(nullptr); a != nullptr;) {
    Arrival* next = a->next;
    delete a;
    a = next;
  }
  for (AsyncCall* c : calls_) delete c;
  FreeFrames(&root_frame_);
}

void StepState::Begin(const StepInput& input) {
  Turn turn(this);
  const CompiledPart& p = *part_;
  input_ = input;
  active_ = true;
  aborting_ = false;
  status_ = absl::OkStatus();
  in_flight_ = tokens_out_ = 0;
  timing_ = input.timings != nullptr || steps_ < 3 || steps_ % 16 == 0;
  ++steps_;
  std::memcpy(root_.counts, p.counts.data(), p.frames[0].num_nodes * sizeof(uint32_t));
  root_.outstanding = root_.child_frames = 0;
  root_frame_.newest = 0;
  root_frame_.running = 1;
  if (p.has_control_flow) {
    for (const uint32_t r : p.roots) Push(r, &root_, false);
  } else {
    flat_head_ = 0;
    flat_tail_ = p.roots.size();
    std::copy(p.roots.begin(), p.roots.end(), flat_.begin());
  }
}

bool StepState::Drain(int64_t budget) {
  if (!active_) return false;
  Turn turn(this);
  for (;;) {
    try {
      if (part_->has_control_flow) {
        DrainLoop<true>(budget);
      } else {
        DrainLoop<false>(budget);
      }
      break;
    } catch (const std::exception& e) {
      Fail(current_, Internal("the kernel threw an exception: ", e.what()));
    } catch (...) {
      Fail(current_, Internal("the kernel threw something that is no std::exception"));
    }
  }
  return !(flat_head_ == flat_tail_ && head_ == queue_.size() && heavy_.empty());
}

template <bool kFlow>
void StepState::DrainLoop(int64_t budget) {
  constexpr int64_t kBatch = 256;
  for (int64_t left = budget; left > 0;) {
    // Cancellation is looked at once a batch, not once a node.
    if (input_.context->cancelled.load(std::memory_order_relaxed) && !aborting_) {
      Abort(absl::CancelledError("the step was cancelled"));
    }
    const int64_t batch = std::min(left, kBatch);
    int64_t n = 0;
    for (; n < batch; ++n) {
      if constexpr (kFlow) {
        if (head_ == queue_.size()) {
          queue_.clear();
          head_ = 0;
          break;
        }
        const Ready r = queue_[head_++];
        RunNode<true>(r.node, r.iteration, r.dead, false);
      } else {
        if (flat_head_ == flat_tail_) break;
        RunNode<false>(flat_[flat_head_++], &root_, false, false);
      }
    }
    nodes_run_ += n;
    left -= n;
    if (!local_arrivals_.empty()) {
      std::vector<std::unique_ptr<Arrival>> local;
      local.swap(local_arrivals_);
      for (auto& a : local) HandleArrival(std::move(a));
      continue;
    }
    if (n == batch) continue;
    if (heavy_.empty()) return;
    // Only costly nodes are left: all but one go to idle threads, the last runs here and may use all threads itself.
    const Ready r = heavy_.back();
    heavy_.pop_back();
    if (!heavy_.empty() && part_->device->threads()->HasIdleWorker()) {
      RunAsJob(r.node, r.iteration);
    } else {
      RunNode<kFlow>(r.node, r.iteration, false, true);
      ++nodes_run_;
      --left;
    }
  }
}

template <bool kFlow>
void StepState::RunNode(uint32_t node, Iteration* it, bool dead, bool heavy) {
  const CompiledNode& n = part_->nodes[node];
  Tensor* in = it->slots + n.first_slot;
  Tensor* out = out_.data();
  if (kFlow && dead && !n.dead_aware) {
    for (int i = 0; i < n.num_inputs; ++i) in[i] = Tensor();
    if (n.step == Step::kResult) {
      input_.results[n.index] = Tensor();
      if (input_.partial) host_->ResultReady(n.index);
    }
    return FinishNode<kFlow>(node, it, out, true);
  }
  switch (n.step) {
    case Step::kNothing:
      break;
    case Step::kConstant:
      out[0] = constants_[n.index];
      break;
    case Step::kArgument: {
      const Tensor& v = input_.arguments[n.index];
      if (input_.partial) {
        const auto early = early_arguments_.find(n.index);
        if (early == early_arguments_.end()) {
          ++in_flight_;
          waiting_arguments_.emplace_back(n.index, node);
          return;
        }
        out[0] = std::move(early->second);
        break;
      }
      if (v.dtype() != BaseType(n.info->output_types[0])) {
        return Fail(node, InvalidArgument("it is fed ", v.TypeAndShape(), ", but is ", Name(n.info->output_types[0])));
      }
      out[0] = v;
      break;
    }
    case Step::kResult:
      if (n.deref) {
        if (absl::Status s = ReadReferences(n, in); !s.ok()) return Fail(node, s);
      }
      input_.results[n.index] = std::move(in[0]);
      if (input_.partial) host_->ResultReady(n.index);
      break;
    case Step::kAsyncKernel:
      return RunAsync(node, it, dead);
    case Step::kKernel: {
      if (n.measured && !heavy && part_->cost[node].load(std::memory_order_relaxed) > kHeavyNanos) {
        heavy_.push_back({node, false, it});
        return;
      }
      if (n.deref) {
        if (absl::Status s = ReadReferences(n, in); !s.ok()) return Fail(node, s);
      }
      current_ = node;
      KernelContext ctx(n.info, in, out, input_.context.get(), this);
      ctx.set_state(n.state);
      if constexpr (kFlow) {
        ctx.set_frame_iter(it->tag);
        ctx.set_dead(dead);
      }
      const bool timed = timing_ && (n.measured || input_.timings != nullptr);
      const int64_t start = timed ? NowNanos() : 0;
      absl::Status s = n.compute(ctx);
      if (timed) {
        const int64_t end = NowNanos();
        if (n.measured) part_->RecordCost(node, static_cast<uint64_t>(end - start));
        if (input_.timings != nullptr) input_.timings->push_back({node, 0, start, end});
      }
      if (!s.ok()) return Fail(node, s);
      break;
    }
  }
  for (int i = 0; i < n.num_inputs; ++i) {
    if (in[i].valid()) in[i] = Tensor();
  }
  FinishNode<kFlow>(node, it, out, false);
}

absl::Status StepState::ReadReferences(const CompiledNode& n, Tensor* in) {
  for (int i = 0; i < n.num_inputs; ++i) {
    if (!in[i].valid() || !IsRef(in[i].dtype()) || IsRef(n.info->input_types[i])) continue;
    const auto* slot = static_cast<const ResourceHandle*>(in[i].raw())->As<VariableSlot>();
    if (slot == nullptr) return InvalidArgument("input ", i, " is a reference to nothing");
    absl::StatusOr<Tensor> value = slot->Read();
    if (!value.ok()) return value.status();
    in[i] = *std::move(value);
  }
  return absl::OkStatus();
}

// Gives the node's outputs to where its op's kind of control flow sends them.
template <bool kFlow>
void StepState::FinishNode(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  if constexpr (!kFlow) {
    Propagate<false>(node, it, out, false);
  } else {
    const CompiledNode& n = part_->nodes[node];
    switch (n.flow) {
      case ControlFlow::kEnter:
        EnterFrame(node, it, out, dead);
        break;
      case ControlFlow::kExit:
        if (dead) {
          // Only of the last iteration does it mean anything: then the whole loop was dead.
          if (it->number == it->frame->newest) it->frame->dead_exits.push_back(node);
        } else {
          Propagate<true>(node, it->frame->parent_iteration, out, false);
        }
        break;
      case ControlFlow::kNextIteration:
        NextIteration(node, it, out, dead);
        break;
      default:
        Propagate<true>(node, it, out, dead);
    }
    NodeLeaves(it);
  }
}

template <bool kFlow>
void StepState::Propagate(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  const CompiledNode& n = part_->nodes[node];
  const OutEdge* e = part_->edges.data() + n.first_edge;
  const OutEdge* const end = part_->edges.data() + n.last_edge;
  if (input_.token_messages) {
    for (; e != end; ++e) {
      Token t;
      t.iteration = it;
      t.edge = *e;
      t.dead = dead;
      if (e->slot >= 0) {
        t.value = out[e->output];
        t.dead |= !t.value.valid();
      }
      ++tokens_out_;
      if (kFlow) ++it->outstanding;
      host_->PostToken(std::move(t));
    }
    for (int i = 0; i < n.num_outputs; ++i) out[i] = Tensor();
    return;
  }
  for (; e != end; ++e) DeliverTo<kFlow>(it, *e, e->slot >= 0 ? &out[e->output] : nullptr, dead);
  if (n.unused_outputs) {
    for (int i = 0; i < n.num_outputs; ++i) out[i] = Tensor();
  }
}

template <bool kFlow>
inline void StepState::DeliverTo(Iteration* it, const OutEdge& e, Tensor* value, bool dead) {
  uint32_t& count = it->counts[e.dst];
  if constexpr (!kFlow) {
    if (value != nullptr) {
      if (e.last) {
        it->slots[e.slot] = std::move(*value);
      } else {
        it->slots[e.slot] = *value;
      }
    }
    if (--count == 0) flat_[flat_tail_++] = e.dst;
  } else {
    const bool dead_token = dead || (value != nullptr && !value->valid());
    if (e.to_merge) {
      if (e.slot < 0) {
        count -= kMergeControlUnit;
      } else if (dead_token) {
        count -= kMergeDataUnit;
      } else if (!(count & kMergeLive)) {
        count |= kMergeLive;
        it->slots[e.slot] = e.last ? std::move(*value) : *value;
      }
      const bool ready = (count & kMergeControlMask) == 0 && ((count & kMergeLive) || (count & kMergeDataMask) == 0);
      if (ready && !(count & kMergeFired)) {
        count |= kMergeFired;
        Push(e.dst, it, !(count & kMergeLive));
      }
      return;
    }
    if (value != nullptr && !dead_token) it->slots[e.slot] = e.last ? std::move(*value) : *value;
    if (dead_token) count |= kDeadInput;
    if ((--count & ~kDeadInput) == 0) {
      const bool node_dead = (count & kDeadInput) && part_->nodes[e.dst].flow != ControlFlow::kControlTrigger;
      Push(e.dst, it, node_dead);
    }
  }
}

void StepState::Deliver(Token token) {
  Turn turn(this);
  --tokens_out_;
  if (aborting_) return;
  OutEdge e = token.edge;
  e.last = true;
  Tensor* value = e.slot >= 0 ? &token.value : nullptr;
  if (part_->has_control_flow) {
    DeliverTo<true>(token.iteration, e, value, token.dead);
    NodeLeaves(token.iteration);
  } else {
    DeliverTo<false>(token.iteration, e, value, token.dead);
  }
}

void StepState::RunAsync(uint32_t node, Iteration* it, bool dead) {
  const CompiledNode& n = part_->nodes[node];
  if (n.deref) {
    if (absl::Status s = ReadReferences(n, it->slots + n.first_slot); !s.ok()) return Fail(node, s);
  }
  auto* call = new AsyncCall(n, node, it, it->slots, input_.context.get(), this);
  call->context.set_dead(dead);
  calls_.push_back(call);
  ++in_flight_;
  current_ = node;
  const int64_t step = input_.context->step_id;
  part_->async[node](call->context, [this, call, step, keep = host_->KeepAlive(), context = input_.context](absl::Status s) {
    auto* a = new Arrival;
    a->step_id = step;
    a->node = call->node;
    a->iteration = call->iteration;
    a->status = std::move(s);
    a->outputs = std::move(call->outputs);
    a->dead = call->context.output_dead();
    if (in_turn == this) {
      local_arrivals_.emplace_back(a);
    } else if (PostArrival(a)) {
      host_->RingDoorbell();
    }
  });
}

void StepState::RunAsJob(uint32_t node, Iteration* it) {
  const CompiledNode& n = part_->nodes[node];
  if (n.deref) {
    if (absl::Status s = ReadReferences(n, it->slots + n.first_slot); !s.ok()) return Fail(node, s);
  }
  auto* call = new AsyncCall(n, node, it, it->slots, input_.context.get(), this);
  calls_.push_back(call);
  ++in_flight_;
  const int64_t step = input_.context->step_id;
  part_->device->threads()->Schedule([this, call, step, compute = n.compute, keep = host_->KeepAlive(), context = input_.context] {
    auto* a = new Arrival;
    const int64_t start = NowNanos();
    try {
      a->status = compute(call->context);
    } catch (const std::exception& e) {
      a->status = Internal("the kernel threw an exception: ", e.what());
    } catch (...) {
      a->status = Internal("the kernel threw something that is no std::exception");
    }
    a->nanos = static_cast<uint64_t>(NowNanos() - start);
    a->tag = static_cast<uint64_t>(start);
    call->inputs.clear();
    a->step_id = step;
    a->node = call->node;
    a->iteration = call->iteration;
    a->outputs = std::move(call->outputs);
    if (PostArrival(a)) host_->RingDoorbell();
  });
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
  if (a->kind == Arrival::Kind::kReport) return a->report({Waiting(40), nodes_run_});
  if (!active_ || a->step_id != input_.context->step_id) {
    ++late_arrivals_;
    return;
  }
  switch (a->kind) {
    case Arrival::Kind::kReport:
      return;  // answered above
    case Arrival::Kind::kAbort:
      return Abort(a->status);
    case Arrival::Kind::kArgument: {
      if (aborting_) return;
      const auto index = static_cast<uint32_t>(a->tag);
      const auto waiting = std::find_if(waiting_arguments_.begin(), waiting_arguments_.end(),
                                        [&](const auto& w) { return w.first == index; });
      if (waiting == waiting_arguments_.end()) {
        early_arguments_[index] = std::move(a->outputs[0]);
        return;
      }
      const uint32_t node = waiting->second;
      waiting_arguments_.erase(waiting);
      --in_flight_;
      if (part_->has_control_flow) {
        FinishNode<true>(node, &root_, a->outputs.data(), false);
      } else {
        FinishNode<false>(node, &root_, a->outputs.data(), false);
      }
      return;
    }
    case Arrival::Kind::kTensor: {
      if (aborting_) return;
      Mail& mail = mail_[{a->key, a->tag}];
      if (mail.waiting) {
        RecvDone done = std::move(mail.waiting);
        mail_.erase({a->key, a->tag});
        done(absl::OkStatus(), std::move(a->outputs[0]), a->dead);
      } else {
        mail.arrived = true;
        mail.dead = a->dead;
        mail.value = std::move(a->outputs[0]);
      }
      return;
    }
    case Arrival::Kind::kNodeDone: {
      --in_flight_;
      std::erase_if(calls_, [&](AsyncCall* c) {
        if (c->node != a->node || c->iteration != a->iteration) return false;
        delete c;
        return true;
      });
      if (a->nanos != 0) {
        part_->RecordCost(a->node, a->nanos);
        ++nodes_run_;
        if (input_.timings != nullptr) {
          const auto start = static_cast<int64_t>(a->tag);
          input_.timings->push_back({a->node, 1, start, start + static_cast<int64_t>(a->nanos)});
        }
      }
      if (aborting_) return;
      if (!a->status.ok()) return Fail(a->node, a->status);
      // A value that came from elsewhere may be of any type.
      const CompiledNode& n = part_->nodes[a->node];
      for (int i = 0; i < n.num_outputs && n.step == Step::kAsyncKernel; ++i) {
        const Tensor& t = a->outputs[i];
        if (t.valid() && t.dtype() != n.info->output_types[i]) {
          return Fail(a->node, Internal("output ", i, " came as ", t.TypeAndShape(), ", but is ", Name(n.info->output_types[i])));
        }
      }
      if (part_->has_control_flow) {
        FinishNode<true>(a->node, a->iteration, a->outputs.data(), a->dead);
      } else {
        FinishNode<false>(a->node, a->iteration, a->outputs.data(), false);
      }
      return;
    }
  }
}

void StepState::Fail(uint32_t node, const absl::Status& status) {
  const KernelNode& n = part_->info[node];
  Abort(WithAddress(status, n.name, n.op, n.device->name(), n.location));
}

void StepState::Abort(const absl::Status& status) {
  if (!active_ || aborting_) return;
  Turn turn(this);
  aborting_ = true;
  in_flight_ -= static_cast<int64_t>(waiting_arguments_.size());
  waiting_arguments_.clear();
  status_ = status;
  ClearQueues();
  CancelReceives();
}

void StepState::ClearQueues() {
  flat_head_ = flat_tail_ = 0;
  queue_.clear();
  head_ = 0;
  heavy_.clear();
  for (Tensor& t : out_) t = Tensor();
}

absl::Status StepState::Finish() {
  active_ = false;
  mail_.clear();
  early_arguments_.clear();
  // After a step without error and without loops every slot has been emptied by its consumer.
  if (!status_.ok() || part_->has_control_flow) {
    FreeFrames(&root_frame_);
    for (uint32_t i = 0; i < part_->frames[0].num_slots; ++i) root_.slots[i] = Tensor();
  }
  return std::move(status_);
}

template void StepState::Propagate<true>(uint32_t, Iteration*, Tensor*, bool);
template void StepState::DeliverTo<true>(Iteration*, const OutEdge&, Tensor*, bool);

}  // namespace troupe
