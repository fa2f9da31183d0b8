// What happens once a step, or when something fails: a state is made and unmade, a step is aborted
// and finished. The loop that runs nodes is in step_state.cc.
#include <algorithm>

#include "actors/executor/step_state.h"
#include "actors/executor/tensor_bits.h"
#include "actors/executor/turn.h"
#include "graph/core/guarded.h"
#include "kernels/run_kernel.h"
#include "kernels/state/variable_access.h"

namespace troupe {

StepState::StepState(std::shared_ptr<const CompiledPart> part, StepHost* host)
    : part_(std::move(part)),
      nodes_(part_->nodes.data()),
      edges_(part_->edges.data()),
      controls_(part_->controls.data()),
      ordering_(part_->ordering.empty() ? nullptr : part_->ordering.data()),
      host_(host),
      kernel_context_(nullptr, nullptr, nullptr, nullptr, this),
      frames_(*part_, constants_),
      mailroom_(&host->edges()) {
  const CompiledPart& p = *part_;
  root_.frame = &root_frame_;
  MakeStores(p, 0, &root_);
  root_frame_.iterations.assign(1, &root_);
  out_.resize(p.max_outputs);
  // One place more than nodes: see DeliverControl.
  if (!p.has_control_flow) stack_ = std::make_unique<uint32_t[]>(p.nodes.size() + 1);
  if (ordering_ != nullptr) ordering_queue_ = std::make_unique<uint32_t[]>(p.nodes.size() + 1);
  // A header of this executor's own over the part's bytes: counting uses touches no line that
  // another thread counts on.
  for (const Tensor& t : p.constants) {
    Buffer* b = Buffer::Slice(t.buffer(), 0, t.buffer()->size());
    constants_.push_back(b == nullptr ? t : Tensor(t.dtype(), t.shape(), b));
  }
  for (const Tensor& t : constants_) bits::AddBias(t);
  frames_.PinConstants(0, &root_);
}

StepState::~StepState() {
  for (Arrival* a = arrivals_.exchange(nullptr); a != nullptr;) {
    Arrival* next = a->next;
    delete a;
    a = next;
  }
  ForgetCalls();
  if (active_) {
    Forsake(absl::CancelledError("the executor ended"));
    (void)Finish();
  }
  FreeFrames(&root_frame_);
  frames_.Unpin(0, &root_);
  frames_.Clear();
  for (const Tensor& t : constants_) bits::RemoveBias(t);
}

void StepState::KernelFailed(uint32_t node, Iteration* it, const absl::Status& status) {
  absl::Status s = status;
  if (KernelWaits(kernel_context_, nullptr, &s)) {
    return WaitFor(node, it, kernel_context_.is_dead(), -1, Hold(kernel_context_.TakeWait(), input_.context.get()));
  }
  const absl::Status with_holders = WithMemoryHolders(node, s);  // its inputs are held yet
  ConsumeInputs(nodes_[node], it->slots + nodes_[node].first_slot);
  Fail(node, with_holders);
}

// A user's kernels are held against what their nodes promise in every run, the library's in the
// first steps of an executor and now and then: its own tests run each of them under the same rule
// (EvaluateKernel).
absl::Status StepState::CheckOutputs(uint32_t node, const Tensor* out, bool dead) const {
  return dead ? absl::OkStatus() : CheckKernelOutputs(part_->info[node], out, part_->ShapesOf(node));
}

// False after a failure, and when the node must wait.
bool StepState::ReadReferences(uint32_t node, Iteration* it, bool dead) {
  const KernelNode& n = part_->info[node];
  Tensor* const in = it->slots + nodes_[node].first_slot;
  for (size_t i = 0; i < n.input_types.size(); ++i) {
    if (!in[i].valid() || !IsRef(in[i].dtype()) || IsRef(n.input_types[i])) continue;
    auto* slot = static_cast<const ResourceHandle*>(in[i].raw())->As<VariableSlot>();
    if (slot == nullptr) {
      Fail(node, InvalidArgument("input ", i, " is a reference to nothing"));
      return false;
    }
    absl::StatusOr<Tensor> value = absl::UnknownError("");
    if (!slot->TryRead(&value)) [[unlikely]] {
      WaitFor(node, it, dead, static_cast<int>(i),
              Hold(std::make_unique<state::SnapshotWait>(slot), input_.context.get()));
      return false;
    }
    if (!value.ok()) {
      Fail(node, value.status());
      return false;
    }
    in[i] = *std::move(value);
  }
  return true;
}

// A node that the executor runs without a call stands in the step's statistics, too.
void StepState::RecordInstant(uint32_t node) {
  const int64_t now = Now();
  input_.timings->push_back({node, 0, now, now});
}

void StepState::Fail(uint32_t node, const absl::Status& status) {
  if (!active_ || aborting_) return;
  const KernelNode& n = part_->info[node];
  absl::Status with_address = status;
  try {
    with_address = WithAddress(status, n.name, n.op, n.device->name(), n.location);
  } catch (const std::bad_alloc&) {
    // What there is must do.
  }
  Abort(with_address);
}

absl::Status StepState::StepException() { return ThrownStatus("the executor of the step"); }

void StepState::Abort(const absl::Status& status) {
  if (!active_ || aborting_) return;
  Turn turn(this);
  Forsake(status);
  // Ends what waits on behalf of the step, here and in other parts.
  host_->PartFails(status_);
  // Nobody wants the jobs that wait for a thread.
  if (has_jobs() && input_.context->cancelled.load(std::memory_order_relaxed)) {
    part_->device->threads()->DropJobs(input_.context.get());
  }
}

// What is ready and what waits within this part is given up.
void StepState::Forsake(const absl::Status& status) {
  Turn turn(this);
  aborting_ = true;
  aborted_step_.store(last_step_, std::memory_order_relaxed);
  in_flight_ -= static_cast<int64_t>(waiting_arguments_.size() + mailroom_.num_held() + waiting_.size());
  waiting_arguments_.clear();
  mailroom_.DropHeld();
  status_ = status;
  stack_size_ = ordering_head_ = ordering_tail_ = 0;
  queue_.head = queue_.tail;
  heavy_.clear();
  for (Tensor& t : out_) t = Tensor();
  GiveUpWaits();
  CancelReceives();
}

void StepState::AbortCancelled() { Abort(absl::CancelledError("the step was cancelled")); }

// What the device has been given to run has read and written the step's tensors until here.
void StepState::Sync() {
  absl::Status s = Guarded("the device's Sync", [&] { return part_->device->Sync(); });
  if (status_.ok() && !s.ok()) status_ = Annotate(s, StrCat("device ", part_->device->name()));
}

absl::Status StepState::Finish(StepInput* input) {
  if (part_->syncs) Sync();
  active_ = false;
  mailroom_.Clear();
  // After a step without error and without control flow every slot has been emptied by its
  // consumer.
  if (!status_.ok() || part_->has_control_flow) {
    FreeFrames(&root_frame_);
    ClearSlots(&root_);
  }
  for (const uint32_t i : part_->loaned_arguments) {
    if (!input_.partial || (i < held_arguments_.size() && held_arguments_[i].valid())) bits::RemoveBias(Argument(i));
  }
  held_arguments_.clear();
  // What the step kept in its context goes when the last part is done.
  if (input != nullptr) *input = std::move(input_);
  input_.context.reset();
  return std::move(status_);
}

void StepState::ReadyQueue::Grow() {
  const uint32_t size = tail - head, old = ring == nullptr ? 0 : mask + 1, capacity = std::max<uint32_t>(64, old * 2);
  auto bigger = std::make_unique<Ready[]>(capacity);
  for (uint32_t i = 0; i < size; ++i) bigger[i] = ring[(head + i) & mask];
  ring = std::move(bigger);
  mask = capacity - 1;
  head = 0;
  tail = size;
}

}  // namespace troupe
