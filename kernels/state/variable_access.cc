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
  if (CurrentNumericsCheck() != nullptr) [[unlikely]] {
    before_ = std::make_unique<Before>();
    for (int i = 0; i < n_; ++i) before_->values[i] = slots_[i]->value();
  }
  for (int i = 0; i < n_; ++i) TROUPE_RETURN_IF_ERROR(slots_[i]->MakeUnique());
  for (int i = 0; i < n_; ++i) slots_[i]->BeginWriting();
  whole_.emplace(static_cast<const std::atomic<bool>*>(nullptr));
  if (auto* probe = update_probe.load(std::memory_order_relaxed)) [[unlikely]]
    probe(ctx_.node());
  return absl::OkStatus();
}

absl::Status VariableUpdate::Commit() {
  if (before_ != nullptr) [[unlikely]] {
    absl::Status finite;
    for (int i = 0; i < n_ && finite.ok(); ++i) finite = CheckNew(slots_[i]->value(), i);
    for (int i = 0; i < n_; ++i) {
      if (!finite.ok()) {
        slots_[i]->PutBack(std::move(before_->values[i]), slots_[i]->version());
      } else {
        Log(i, std::move(before_->values[i]), slots_[i]->version());
      }
    }
    TROUPE_RETURN_IF_ERROR(finite);
  }
  for (int i = 0; i < n_; ++i) slots_[i]->Commit();
  return absl::OkStatus();
}

absl::Status VariableUpdate::Set(Tensor value) {
  if (CurrentNumericsCheck() != nullptr) [[unlikely]] {
    TROUPE_RETURN_IF_ERROR(CheckNew(value, 0));
    Log(0, slots_[0]->value(), slots_[0]->version());
  }
  old_ = slots_[0]->Exchange(std::move(value));
  return absl::OkStatus();
}

absl::Status VariableUpdate::CheckNew(const Tensor& value, int i) const {
  const NonFinite found = CountNonFinite(value);
  if (!found.any()) return absl::OkStatus();
  return NotFiniteError(StrCat("the new value of variable '", slots_[i]->name(), "' (", value.TypeAndShape(), ") has ",
                               NonFiniteText(found, value), "; the variable keeps the value that it had"));
}

// Notes how the update of variable `i`, whose version is `version` before it, is taken back.
void VariableUpdate::Log(int i, Tensor before, uint64_t version) {
  VariableSlot* const slot = slots_[i];
  // A share in the variable: that of the handle by which the kernel knows it.
  std::shared_ptr<Resource> share;
  for (int k = 0; k < ctx_.num_inputs() && share == nullptr; ++k) {
    const DType type = ctx_.node().input_types[k];
    if ((type != DType::kResource && !IsRef(type)) || !ctx_.has_input(k)) continue;
    const auto& handle = *static_cast<const ResourceHandle*>(ctx_.input(k).raw());
    if (handle.As<VariableSlot>() == slot) share = handle.object();
  }
  if (share == nullptr) return;
  CurrentNumericsCheck()->log->Add([share, slot, version, before = std::move(before)] {
    VariableSlot* slots[] = {slot};
    const std::shared_ptr<SlotTicket> ticket = SlotTicket::ForUpdate(slots, 1);
    ticket->WhenAdmitted([ticket, share, slot, version, before] {
      ticket->Take();
      // What another step has made of it since stays.
      if (slot->version() == version + 1) slot->PutBack(before, version);
      slot->End();
    });
  });
}

}  // namespace troupe::state
