#include "actors/step/local_transport.h"

#include "actors/runtime/runtime_impl.h"
#include "actors/step/cancel_later.h"
#include "actors/threads/no_memory.h"
#include "kernels/numerics_check.h"

namespace troupe {
namespace {

// What the message is replaced by when it cannot be sent.
step_message NotSent(const step_message& message, const absl::Status& why) {
  struct Instead {
    const absl::Status& why;
    step_message operator()(const part_done& m) const {
      part_done end;
      end.step = m.step;
      end.status = m.status.ok() ? why : m.status;
      return end;
    }
    step_message operator()(const part_failed& m) const { return m; }
    step_message operator()(const result& m) const { return part_failed{m.step, why}; }
    step_message operator()(const stall_report& m) const { return stall_report{m.number, {}}; }
  };
  return std::visit(Instead{why}, message);
}

}  // namespace

LocalTransport::LocalTransport(caf::actor_system* system, bool through_bytes, const Runtime* runtime,
                               const EdgeTable* edges, const std::vector<std::shared_ptr<Executor>>* executors,
                               StepListener* step, uint32_t first)
    : system_(*system),
      through_bytes_(through_bytes),
      runtime_(runtime),
      edges_(*edges),
      executors_(*executors),
      step_(*step),
      first_(first) {}

void LocalTransport::LinkTo(std::shared_ptr<RemoteLink> link) {
  std::lock_guard<std::mutex> lock(mu_);
  link_.swap(link);
}

std::vector<RemoteLink::Part> LocalTransport::RemoteParts() const {
  const std::shared_ptr<RemoteLink> others = link();
  return others != nullptr ? others->Parts() : std::vector<RemoteLink::Part>();
}

std::shared_ptr<RemoteLink> LocalTransport::link() const {
  std::lock_guard<std::mutex> lock(mu_);
  return link_;
}

void LocalTransport::Bind(Tensor* value) const {
  BindResources(value, [this](const std::string& name) -> ResourceContainers* {
    for (const auto& d : runtime_->impl()->devices) {
      if (d->name() == name) return d->containers();
    }
    return nullptr;
  });
}

absl::Status LocalTransport::Prepare(PartAddress to, run_step&& message) {
  const uint32_t index = to.part - first_;
  Executor& executor = *executors_[index];
  if (through_bytes_) [[unlikely]] {
    // The updates of all parts are taken back together, so they are noted in one place.
    const auto updates = message.input.numerics != nullptr ? message.input.numerics->log : nullptr;
    const std::shared_ptr<StepContext> whole = message.input.context;
    TROUPE_ASSIGN_OR_RETURN(message, wire::ThroughBytes(system_, message));
    for (Tensor& t : message.arguments) Bind(&t);
    MakeMemory(&message, executor.state().part().num_results, updates);
    std::lock_guard<std::mutex> lock(mu_);
    contexts_.resize(executors_.size());
    contexts_[index] = message.input.context;
    // Who told the step to end since the bytes were written did not find the context.
    if (whole->cancelled.load(std::memory_order_relaxed)) message.input.context->cancelled.store(true);
  }
  executor.Prepare(std::move(message));
  return absl::OkStatus();
}

absl::Status LocalTransport::Deliver(PartAddress to, part_message message) {
  // A part before the first has a number that is too big.
  const uint32_t index = to.part - first_;
  if (index >= executors_.size() || executors_[index]->address() != to) [[unlikely]] {
    if (const std::shared_ptr<RemoteLink> others = link()) return others->ToPart(to, std::move(message));
    return NotFound("the step has no part ", to.part, " on task ", to.task);
  }
  if (through_bytes_) [[unlikely]] {
    TROUPE_ASSIGN_OR_RETURN(message, ThroughBytes(system_, std::move(message)));
    if (auto* m = std::get_if<tensor_to_part>(&message)) Bind(&m->value);
    if (auto* m = std::get_if<argument>(&message)) Bind(&m->value);
    if (auto* m = std::get_if<abort_step>(&message)) {
      const int64_t step = m->step;
      executors_[index]->Receive(std::move(message));
      CancelOwn(to.part, step);
      return absl::OkStatus();
    }
  }
  TROUPE_RETURN_IF_ERROR(edges_.Refuse(message));
  executors_[index]->Receive(std::move(message));
  return absl::OkStatus();
}

void LocalTransport::AbortParts(uint32_t but, int64_t step_id, const absl::Status& status) noexcept {
  for (uint32_t i = 0; i < executors_.size(); ++i) {
    const uint32_t part = first_ + i;
    if (part == but) continue;
    if (through_bytes_) [[unlikely]] {
      try {
        if (Deliver(executors_[i]->address(), abort_step{step_id, status}).ok()) continue;
      } catch (const std::bad_alloc&) {
        // Then without the bytes.
      }
      CancelOwn(part, step_id);
    }
    executors_[i]->Abort(step_id, status);
  }
  if (const std::shared_ptr<RemoteLink> others = link()) others->Abort(but, step_id, status);
}

void LocalTransport::ToStep(PartAddress from, step_message&& message) noexcept {
  if (!through_bytes_) [[likely]]
    return Hear(from, message);
  if (const auto* m = std::get_if<part_failed>(&message)) CancelOwn(from.part, m->step);
  const bool done = std::holds_alternative<part_done>(message);
  if (done) ForgetOwn(from.part);
  absl::Status why;
  try {
    absl::StatusOr<step_message> copy = ThroughBytes(system_, message);
    if (copy.ok()) {
      if (auto* m = std::get_if<result>(&*copy)) Bind(&m->value);
      if (auto* m = std::get_if<part_done>(&*copy)) {
        for (auto& [index, value] : m->results) Bind(&value);
      }
      return Hear(from, *copy);
    }
    why = copy.status();
  } catch (const std::bad_alloc&) {
    why = kNoMemory;
  }
  // The part that made a result has not failed, and must end as well.
  if (std::holds_alternative<result>(message)) return step_.PartFails(kAll, why);
  step_message instead = NotSent(message, why);
  Hear(from, instead);
}

void LocalTransport::Hear(PartAddress from, step_message& message) {
  const uint32_t part = from.part;
  if (auto* done = std::get_if<part_done>(&message)) [[likely]]
    return step_.PartDone(part, *done);
  if (auto* failed = std::get_if<part_failed>(&message)) return step_.PartFails(part, failed->status);
  if (auto* r = std::get_if<result>(&message)) return step_.ResultCame(r->index, std::move(r->value));
  auto& report = std::get<stall_report>(message);
  if (const std::shared_ptr<RemoteLink> others = link(); others != nullptr && others->Report(from, report)) return;
  questions_.Answered(report.number, part - first_, std::move(report.report));
}

void LocalTransport::CancelOwn(uint32_t part, int64_t step_id) const {
  std::shared_ptr<StepContext> own;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const uint32_t i = part - first_;
    if (i < contexts_.size() && contexts_[i] != nullptr && contexts_[i]->step_id == step_id) own = contexts_[i];
  }
  if (own != nullptr) CancelLater::Cancel(std::move(own));
}

void LocalTransport::ForgetOwn(uint32_t part) {
  std::shared_ptr<StepContext> own;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (part - first_ < contexts_.size()) own = std::move(contexts_[part - first_]);
  }
  if (own == nullptr) return;
  own->cancellations.Clear();
  own->cancellations.Cancel();  // a kernel that is left hears that it comes too late
}

void LocalTransport::AddContexts(std::vector<const void*>* contexts) const {
  if (!through_bytes_) return;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& own : contexts_) contexts->push_back(own.get());
}

}  // namespace troupe
