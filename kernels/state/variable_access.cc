#include "kernels/state/variable_access.h"

#include <algorithm>

namespace troupe::state {
namespace {

class UpdateWait : public KernelWait {
 public:
  UpdateWait(VariableSlot* const* slots, int n, const SlotHolder& asker)
      : ticket_(SlotTicket::ForUpdate(slots, n, asker)) {}
  ~UpdateWait() override { ticket_->GiveUp(); }
  void Await(std::function<void()> go_on) override { ticket_->WhenAdmitted(std::move(go_on)); }
  std::string What() const override { return ticket_->What(); }
  bool admitted() const { return ticket_->admitted(); }
  void Take(const SlotHolder* holder) { ticket_->Take(holder); }

 private:
  const std::shared_ptr<SlotTicket> ticket_;
};

}  // namespace

absl::StatusOr<Tensor> ReadVariable(KernelContext& ctx, VariableSlot* slot) {
  if (ctx.wait() != nullptr) [[unlikely]]
    return static_cast<SnapshotWait*>(ctx.TakeWait().get())->Take();
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  if (slot->TryRead(&value)) [[likely]]
    return value;
  return ctx.WaitFor(std::make_unique<SnapshotWait>(slot));
}

absl::Status VariableUpdate::Begin(VariableSlot* const* slots, int n) {
  for (int i = 1; i < n; ++i) {
    if (std::find(slots, slots + i, slots[i]) != slots + i) {
      return InvalidArgument("variable '", slots[i]->name(), "' is given twice: a variable and its slots must differ");
    }
  }
  if (ctx_.wait() == nullptr) [[likely]] {
    while (n_ < n && slots[n_]->TryBegin()) {
      slots_[n_] = slots[n_];
      slots[n_++]->SetHolder(&holder_);
    }
    if (n_ == n) [[likely]]
      return absl::OkStatus();
    // It holds none while it waits for another, unless it is the next one for that.
    while (n_ > 0) slots_[--n_]->End();
  }
  return BeginLate(slots, n);
}

// Not at the first attempt.
absl::Status VariableUpdate::BeginLate(VariableSlot* const* slots, int n) {
  std::unique_ptr<KernelWait> wait = ctx_.TakeWait();
  if (wait == nullptr) {
    auto ticket = std::make_unique<UpdateWait>(slots, n, holder_);
    if (!ticket->admitted()) return ctx_.WaitFor(std::move(ticket));
    wait = std::move(ticket);
  }
  static_cast<UpdateWait*>(wait.get())->Take(&holder_);
  for (n_ = 0; n_ < n; ++n_) slots_[n_] = slots[n_];
  return absl::OkStatus();
}

absl::Status VariableUpdate::CheckReadable() const {
  for (int i = 0; i < n_; ++i) TROUPE_RETURN_IF_ERROR(slots_[i]->CheckReadable());
  return absl::OkStatus();
}

absl::Status VariableUpdate::Write() {
  for (int i = 0; i < n_; ++i) TROUPE_RETURN_IF_ERROR(slots_[i]->MakeUnique());
  for (int i = 0; i < n_; ++i) slots_[i]->BeginWriting();
  whole_.emplace(static_cast<const std::atomic<bool>*>(nullptr));
  if (auto* probe = update_probe.load(std::memory_order_relaxed)) [[unlikely]]
    probe(ctx_.node());
  return absl::OkStatus();
}

void VariableUpdate::Commit() {
  for (int i = 0; i < n_; ++i) slots_[i]->Commit();
}

}  // namespace troupe::state
