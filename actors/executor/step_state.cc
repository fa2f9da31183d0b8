// Beginning a step and running its nodes: what is hot. Tokens are in tokens.h, loops in frames.cc,
// what runs outside of the turn in arrivals.cc, what is rare in step_ends.cc.
#include "actors/executor/step_state.h"

#include <algorithm>

#include "actors/executor/tokens.h"
#include "actors/executor/turn.h"
#include "kernels/run_kernel.h"

namespace troupe {
namespace {

// Reading the clock twice costs more than a small kernel. So all kernels are timed in the first
// steps and then rarely; those that took long before, for which it does not matter, more often.
constexpr int64_t kTimedSteps = 3, kTimeAllEvery = 256, kTimeCostlyEvery = 16;
constexpr uint32_t kCostlyNanos = 4000;

// What a kernel throws is its status. Costs nothing until it does.
__attribute__((always_inline)) inline absl::Status Compute(ComputeFn compute, KernelContext& ctx) {
  try {
    return compute(ctx);
  } catch (...) {
    return KernelException();
  }
}

}  // namespace

void StepState::Begin(const StepInput& input) {
  Turn turn(this);
  const CompiledPart& p = *part_;
  input_ = input;
  active_ = true;
  aborting_ = false;
  status_ = absl::OkStatus();
  in_flight_ = tokens_out_ = job_nanos_ = 0;
  iterations_begun_ = 0;
  jobs_.store(0, std::memory_order_relaxed);
  const bool all = input.timings != nullptr || input.measure || steps_ < kTimedSteps || steps_ % kTimeAllEvery == 0;
  clock_ = all ? Clock::kAll : steps_ % kTimeCostlyEvery == 0 ? Clock::kCostly : Clock::kOff;
  if ((clock_ != Clock::kOff || steps_ == kTimedSteps) && p.has_heavy.load(std::memory_order_relaxed)) p.LookForHeavy();
  check_ = clock_ == Clock::kAll || input.check_kernels;
  watch_ = clock_ != Clock::kOff || p.has_user_kernels || input.check_kernels || input.numerics != nullptr ||
           p.has_heavy.load(std::memory_order_relaxed);
  ++steps_;
  kernel_context_ = KernelContext(nullptr, nullptr, out_.data(), input_.context.get(), this);
  if (!input.partial) {
    for (const uint32_t i : p.loaned_arguments) bits::AddBias(input.arguments[i]);
  }
  std::memcpy(root_.counts, p.counts.data(), p.frames[0].num_nodes * sizeof(uint32_t));
  ordering_head_ = ordering_tail_ = 0;
  root_.outstanding = root_.child_frames = 0;
  root_frame_.newest = 0;
  root_frame_.running = 1;
  last_step_ = input.context->step_id;
  try {
    if (input.partial) held_arguments_.resize(p.num_arguments);
    if (p.has_control_flow) {
      for (size_t i = p.roots.size(); i-- > 0;) Push(p.roots[i], &root_, false);
    } else {
      stack_size_ = p.roots.size();
      std::copy(p.roots.begin(), p.roots.end(), stack_.get());
    }
  } catch (...) {
    Abort(StepException());
  }
  if (mailroom_.has_early() || refused_.first == last_step_) [[unlikely]]
    TakeEarlyArrivals();
}

bool StepState::Drain(int64_t budget) {
  if (!active_) return false;
  Turn turn(this);
  const ComputeThreads::LoopCancellation loops(&input_.context->cancelled);
  for (;;) {
    try {
      if (part_->has_control_flow) {
        DrainLoop<true>(budget);
      } else {
        DrainLoop<false>(budget);
      }
      break;
    } catch (...) {
      Abort(StepException());
    }
  }
  // The last node of the turn may have granted another one its variable.
  return !NothingReady() || !local_arrivals_.empty();
}

// One path through all kinds of nodes, compiled into the loop that follows: what is rare is called,
// what every node does is not.
template <bool kFlow>
__attribute__((always_inline)) inline void StepState::RunNode(uint32_t node, Iteration* it, bool dead, bool heavy) {
  const CompiledNode& n = nodes_[node];
  Tensor* in = it->slots + n.first_slot;
  Tensor* out = out_.data();
  if (kFlow && dead && !n.dead_aware) [[unlikely]]
    return RunDead(node, it);
  switch (n.handling) {
    case Handling::kNothing:
      break;
    case Handling::kForward:
      if (n.deref || n.loans || input_.timings != nullptr) [[unlikely]] {
        if (!PrepareForward<kFlow>(node, it, in, dead)) return;
      }
      out = in;
      break;
    case Handling::kSwitch:
      if (n.deref || in[1].rank() != 0) [[unlikely]]
        goto kernel;
      if (input_.timings != nullptr) [[unlikely]]
        RecordInstant(node);
      bits::Move(&in[0], &out[*static_cast<const bool*>(in[1].raw()) ? 1 : 0]);
      bits::Consume(&in[1]);
      break;
    case Handling::kMerge: {
      uint32_t came = 0;
      while (came + 1 < n.num_inputs && !in[came].valid()) ++came;
      if (n.deref || !in[came].valid()) [[unlikely]]
        goto kernel;
      if (input_.timings != nullptr) [[unlikely]]
        RecordInstant(node);
      bits::Move(&in[came], &out[0]);
      if (n.uses_index) out[1] = Tensor::Scalar(static_cast<int32_t>(came));
      break;
    }
    case Handling::kConstant:
    case Handling::kArgument:
      return RunSource<kFlow>(node, it);
    case Handling::kResult:
      if (!TakeResult(node, it, in, dead)) return;
      break;
    case Handling::kAsyncKernel:
      if (CutOff()) [[unlikely]]
        return;
      return RunAsyncKernel(node, it, dead);
    case Handling::kKernel:
    kernel:
      // Before each kernel: nobody knows how long the last one took, and the call may have been
      // answered meanwhile.
      if (CutOff()) [[unlikely]]
        return;
      if (n.deref) [[unlikely]] {
        if (!ReadReferences(node, it, dead)) return;
      }
      current_.store(node, std::memory_order_relaxed);
      kernel_context_.Rebind(&part_->info[node], in, n.state);
      if constexpr (kFlow) {
        kernel_context_.set_frame_iter(it->id);
        running_ = it;
        kernel_context_.set_dead(dead);
      }
      if (watch_) [[unlikely]] {
        if (!RunWatched<kFlow>(node, it, heavy)) return;
      } else {
        const absl::Status s = Compute(n.compute, kernel_context_);
        if (!s.ok()) [[unlikely]]
          return KernelFailed(node, it, s);
      }
      if (n.loaned == 0) [[likely]] {
        for (Tensor *i = in, *end = in + n.num_inputs; i != end; ++i) bits::Consume(i);
      } else {
        ConsumeInputs(n, in);
      }
  }
  FinishNode<kFlow>(node, it, out, false);
}

// A node that has waited is run whatever it costs: others wait for what it has got.
template <bool kFlow>
__attribute__((noinline)) void StepState::RunAfterWait(uint32_t node, Iteration* it, bool dead) {
  RunNode<kFlow>(node, it, dead, true);
  kernel_context_.set_wait(nullptr);
}
template void StepState::RunAfterWait<false>(uint32_t, Iteration*, bool);
template void StepState::RunAfterWait<true>(uint32_t, Iteration*, bool);

template <bool kFlow>
__attribute__((noinline)) void StepState::RunHeavy(uint32_t node, Iteration* it) {
  RunNode<kFlow>(node, it, false, true);
}

// Runs up to `limit` of the ready nodes that only order others, first in, first out: which node
// comes next is then known long before its turn, and the processor reads the edges and counters of
// several at once. Off the stack, every node is what the one before it has just made ready, and its
// reads begin when that one's have ended (8.5 ns a node instead of 3). Only in parts without
// control flow.
int64_t StepState::RunOrdering(int64_t limit) {
  const uint32_t* const ordering = ordering_;
  const uint32_t* const controls = controls_;
  uint32_t* const counts = root_.counts;
  uint32_t* const queue = ordering_queue_.get();
  size_t head = ordering_head_, tail = ordering_tail_;
  for (; stack_size_ != 0 && (ordering[stack_[stack_size_ - 1]] & 1); ++tail) queue[tail] = stack_[--stack_size_];
  int64_t n = 0;
  while (head != tail && n < limit) {
    const uint32_t node = queue[head++];
    const uint32_t first = ordering[node];
    if (!(first & 1)) {
      stack_[stack_size_++] = node;
      continue;
    }
    ++n;
    for (uint32_t c = first >> 1, end = ordering[node + 1] >> 1; c != end; ++c) {
      // With a branch: the places in the queue are then known ahead, where a place that depends on
      // every counter before it would hold up the queue's reader (2.4 against 6.7 ns a node on a
      // graph sixteen nodes wide).
      const uint32_t dst = controls[c];
      if (--counts[dst] == 0) queue[tail++] = dst;
    }
  }
  if (head == tail) head = tail = 0;
  ordering_head_ = head;
  ordering_tail_ = tail;
  return n;
}

template <bool kFlow>
void StepState::DrainLoop(int64_t budget) {
  constexpr int64_t kBatch = 256;
  const bool orders = !kFlow && ordering_ != nullptr && !input_.token_messages;
  for (int64_t left = budget; left > 0;) {
    // Here for nodes without a kernel, and before each kernel (RunNode).
    CutOff();
    const int64_t batch = std::min(left, kBatch);
    int64_t n = 0;
    for (; n < batch; ++n) {
      if constexpr (kFlow) {
        if (queue_.empty()) break;
        const Ready r = queue_.ring[queue_.head++ & queue_.mask];
        RunNode<true>(r.node, r.iteration, r.dead, false);
      } else {
        if (orders &&
            (ordering_head_ != ordering_tail_ || (stack_size_ != 0 && (ordering_[stack_[stack_size_ - 1]] & 1)))) {
          n += RunOrdering(batch - n);
          if (n == batch) break;
        }
        if (stack_size_ == 0) break;
        RunNode<false>(stack_[--stack_size_], &root_, false, false);
      }
    }
    CountRun(n);
    left -= n;
    if (!local_arrivals_.empty()) {
      ArrivalList local;
      local.Swap(local_arrivals_);
      while (std::unique_ptr<Arrival> a = local.Pop()) HandleArrival(std::move(a));
      continue;
    }
    if (n == batch) continue;
    if (heavy_.empty()) return;
    // Only costly nodes are left: all but one go to the compute threads, as many as these are about
    // to take, the last runs here and may use all threads itself. A lane takes back what nobody has
    // begun when it has nothing else to do (ComputeThreads::Help). While a node waits for a
    // variable the turn stays free: others wait for what is granted to it.
    const Ready r = TakeHeavy();
    if ((!heavy_.empty() || !waiting_.empty()) && part_->device->threads()->WantsJobs()) {
      RunAsJob(r.node, r.iteration);
    } else {
      RunHeavy<kFlow>(r.node, r.iteration);
      CountRun(1);
      --left;
    }
  }
}

// The costly node to run next. What is sent goes first: it travels while the others run. Else what
// was made ready last.
StepState::Ready StepState::TakeHeavy() {
  size_t at = heavy_.size() - 1;
  for (size_t i = part_->sent.empty() ? 0 : heavy_.size(); i-- > 0;) {
    if (!part_->sent[heavy_[i].node]) continue;
    at = i;
    break;
  }
  const Ready r = heavy_[at];
  heavy_.erase(heavy_.begin() + static_cast<std::ptrdiff_t>(at));
  return r;
}

// What is special about a node that hands its input on. False when it is finished, one way or the
// other.
template <bool kFlow>
bool StepState::PrepareForward(uint32_t node, Iteration* it, Tensor* in, bool dead) {
  const CompiledNode& n = nodes_[node];
  if (n.deref && !ReadReferences(node, it, dead)) return false;
  if (input_.timings != nullptr) RecordInstant(node);
  if (!n.loans) return true;
  FinishLoaned<kFlow>(node, it, in[0]);
  if (n.pinned == 0) bits::GiveBack(&in[0]);
  return false;
}

// Constants and arguments.
template <bool kFlow>
void StepState::RunSource(uint32_t node, Iteration* it) {
  if (nodes_[node].handling == Handling::kConstant)
    return FinishLoaned<kFlow>(node, it, constants_[nodes_[node].index]);
  if (const Tensor* v = TakeArgument(node)) FinishLoaned<kFlow>(node, it, *v);
}

bool StepState::TakeResult(uint32_t node, Iteration* it, Tensor* in, bool dead) {
  const CompiledNode& n = nodes_[node];
  if (n.deref && !ReadReferences(node, it, dead)) return false;
  if (n.loaned != 0) {
    input_.results[n.index] = in[0];
    ForgetInputs(n, in);
  } else {
    input_.results[n.index] = std::move(in[0]);
  }
  if (input_.partial) host_->ResultReady(n.index, std::move(input_.results[n.index]));
  return true;
}

// Empties the inputs of a kernel that ran, some of them loaned.
void StepState::ConsumeInputs(const CompiledNode& n, Tensor* in) {
  uint32_t loaned = n.loaned, pinned = n.pinned;
  for (uint32_t i = 0; i < n.num_inputs; ++i, loaned >>= 1, pinned >>= 1) {
    if (!(loaned & 1)) {
      bits::Consume(&in[i]);
    } else if (!in[i].valid()) [[unlikely]] {
      // The kernel took it for its own: it has a reference now, and a pinned constant is put back.
      const Tensor& owner = OwnerOf(n.first_slot + i);
      owner.buffer()->Ref();
      if (pinned & 1) bits::CopyBits(owner, &in[i]);
    } else if (!(pinned & 1)) {
      bits::GiveBack(&in[i]);
    }
  }
}

// Empties the inputs of a node that does not run.
void StepState::ForgetInputs(const CompiledNode& n, Tensor* in) {
  uint32_t loaned = n.loaned, pinned = n.pinned;
  for (uint32_t i = 0; i < n.num_inputs; ++i, loaned >>= 1, pinned >>= 1) {
    if (!(loaned & 1)) {
      bits::Consume(&in[i]);
    } else if (!(pinned & 1)) {
      bits::GiveBack(&in[i]);
    }
  }
}

// Runs a kernel in a step in which kernels may be timed, checked or put off. False when it was put
// off or failed.
template <bool kFlow>
__attribute__((noinline)) bool StepState::RunWatched(uint32_t node, Iteration* it, bool heavy) {
  const CompiledNode& n = nodes_[node];
  const uint32_t cost = n.measured ? part_->cost[node].load(std::memory_order_relaxed) : 0;
  if (!heavy && cost > CompiledPart::kHeavyNanos) {
    heavy_.push_back({node, false, it});
    CountRun(-1);  // it is counted when it runs
    return false;
  }
  const bool timed = input_.timings != nullptr ||
                     (n.measured && (clock_ == Clock::kAll || (clock_ == Clock::kCostly && cost >= kCostlyNanos)));
  const int64_t start = timed ? Now() : 0;
  const KernelWait* const had = kernel_context_.wait();
  absl::Status s = input_.numerics == nullptr ? Compute(n.compute, kernel_context_) : ComputeChecked(node, it);
  if (s.ok() && kernel_context_.wait() != nullptr) [[unlikely]]
    KernelWaits(kernel_context_, had, &s);
  if (timed && kernel_context_.wait() == nullptr) {
    const int64_t end = Now();
    if (n.measured) part_->RecordCost(node, static_cast<uint64_t>(end - start), steps_ <= kTimedSteps);
    if (input_.timings != nullptr) input_.timings->push_back({node, 0, start, end});
  }
  if (s.ok() && (check_ || part_->IsUserKernel(node))) s = CheckOutputs(node, out_.data(), false);
  if (s.ok()) return true;
  KernelFailed(node, it, s);
  return false;
}

void StepState::RunDead(uint32_t node, Iteration* it) {
  const CompiledNode& n = nodes_[node];
  ForgetInputs(n, it->slots + n.first_slot);
  if (n.handling == Handling::kResult) {
    input_.results[n.index] = Tensor();
    if (input_.partial) host_->ResultReady(n.index, Tensor());
  }
  FinishNode<true>(node, it, out_.data(), true);
}

// Null when the argument is not there, yet or ever.
const Tensor* StepState::TakeArgument(uint32_t node) {
  const uint32_t index = nodes_[node].index;
  const Tensor& v = Argument(index);
  if (input_.partial && !v.valid()) {
    waiting_arguments_.try_emplace(index, WaitingArgument{node, Now()});
    ++in_flight_;
    return nullptr;
  }
  const DType want = BaseType(part_->info[node].output_types[0]);
  if (v.dtype() != want) {
    Fail(node, InvalidArgument("it is fed ", v.TypeAndShape(), ", but is ", Name(want)));
    return nullptr;
  }
  return &v;
}

}  // namespace troupe
