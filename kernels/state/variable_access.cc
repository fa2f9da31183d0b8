#include "kernels/state/variable_access.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "graph/core/guarded.h"
#include "kernels/device/same_entry.h"

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

// How one update of one variable is taken back.
struct VariableUpdate::Undo : std::enable_shared_from_this<Undo> {
  std::shared_ptr<VariableSlot::Change> change;
  // A share in the variable.
  std::shared_ptr<Resource> share;
  // The entry that Destroy removed; null containers: none.
  ResourceContainers* containers = nullptr;
  std::string container, name;

  VariableSlot* slot() const { return static_cast<VariableSlot*>(share.get()); }
  void Run();
  void PutIntoContainer();
};

namespace {

// Calls `f` when the slot is its caller's.
void WithSlot(VariableSlot* slot, std::function<void()> f) {
  const std::shared_ptr<SlotTicket> ticket = SlotTicket::ForUpdate(&slot, 1);
  try {
    ticket->WhenAdmitted([ticket, slot, f = std::move(f)] {
      ticket->Take();
      f();
      slot->End();
    });
  } catch (...) {
    // Without memory for the function: f throws nothing. The slot would stay the ticket's.
    ticket->GiveUp();
    throw;
  }
}

}  // namespace

void VariableUpdate::Undo::Run() {
  // Without memory.
  if (containers == nullptr && slot()->TryBegin()) {
    slot()->TakeBack(change.get());
    return slot()->End();
  }
  WithSlot(slot(), [this, keep = shared_from_this()] {
    slot()->TakeBack(change.get());
    if (containers == nullptr) return;
    // Perhaps where another update ends, to which nothing may be thrown. Without memory for the
    // entry the name stays without a variable, as the step left it.
    (void)Guarded("taking back a destroyed variable", [this] { PutIntoContainer(); });
  });
}

void VariableUpdate::Undo::PutIntoContainer() {
  const auto mine = std::static_pointer_cast<VariableSlot>(share);
  const auto found = containers->LookUpOrCreate<VariableSlot>(container, name, [&mine] { return mine; });
  if (!found.ok() || *found == mine) return;
  // Somebody has asked for the name since, and so made a variable.
  WithSlot(found->get(), [this, keep = shared_from_this(), other = *found] {
    if (!other->untouched()) return;
    (void)Guarded("taking back a destroyed variable",
                  [&] { return ReplaceIfSame(containers, container, name, other.get(), share); });
  });
}

absl::Status VariableUpdate::Write() {
  TROUPE_RETURN_IF_ERROR(LogAll());
  for (int i = 0; i < n_; ++i) TROUPE_RETURN_IF_ERROR(slots_[i]->MakeUnique());
  BeginWriting();
  return absl::OkStatus();
}

absl::Status VariableUpdate::WriteInPieces() {
  TROUPE_RETURN_IF_ERROR(LogAll());
  for (int i = 0; i < n_; ++i) {
    if (slots_[i]->value().BufferUnique()) [[likely]]
      continue;
    TROUPE_ASSIGN_OR_RETURN(Tensor own, slots_[i]->Another());
    if (!from_.has_value()) from_.emplace();
    (*from_)[static_cast<size_t>(i)] = std::move(own);
  }
  for (int i = 0; from_.has_value() && i < n_; ++i) {
    if (Tensor& own = (*from_)[static_cast<size_t>(i)]; own.valid()) slots_[i]->value().Swap(own);
  }
  BeginWriting();
  return absl::OkStatus();
}

void VariableUpdate::BringOver(int64_t begin, int64_t end) const {
  for (int i = 0; i < n_; ++i) {
    const Tensor& from = (*from_)[static_cast<size_t>(i)];
    if (!from.valid()) continue;
    const size_t size = SizeOf(from.dtype()), at = static_cast<size_t>(begin) * size;
    std::memcpy(static_cast<char*>(slots_[i]->value().raw()) + at, static_cast<const char*>(from.raw()) + at,
                static_cast<size_t>(end - begin) * size);
  }
}

absl::Status VariableUpdate::LogAll() {
  if (CurrentNumericsCheck() != nullptr) [[unlikely]] {
    for (int i = 0; i < n_; ++i) TROUPE_RETURN_IF_ERROR(Log(i));
  }
  return absl::OkStatus();
}

void VariableUpdate::BeginWriting() {
  for (int i = 0; i < n_; ++i) {
    slots_[i]->BeginWriting();
    // If it breaks off, the lost value is what is taken back.
    if (undo_[i] != nullptr) [[unlikely]]
      slots_[i]->Close(undo_[i]->change.get());
  }
  whole_.emplace(static_cast<const std::atomic<bool>*>(nullptr));
  if (auto* probe = update_probe.load(std::memory_order_relaxed)) [[unlikely]]
    probe(ctx_.node());
}

absl::Status VariableUpdate::Commit() {
  if (undo_[0] != nullptr) [[unlikely]] {
    absl::Status finite;
    for (int i = 0; i < n_ && finite.ok(); ++i) finite = CheckNew(slots_[i]->value(), i);
    if (!finite.ok()) {
      for (int i = 0; i < n_; ++i) slots_[i]->TakeBack(undo_[i]->change.get());
      return finite;
    }
  }
  for (int i = 0; i < n_; ++i) {
    slots_[i]->Commit();
    if (undo_[i] != nullptr) [[unlikely]]
      slots_[i]->Close(undo_[i]->change.get());
  }
  return absl::OkStatus();
}

absl::Status VariableUpdate::Set(Tensor value) {
  if (CurrentNumericsCheck() != nullptr) [[unlikely]] {
    TROUPE_RETURN_IF_ERROR(CheckNew(value, 0));
    TROUPE_RETURN_IF_ERROR(Log(0));
  }
  old_ = slots_[0]->Exchange(std::move(value));
  if (undo_[0] != nullptr) [[unlikely]]
    slots_[0]->Close(undo_[0]->change.get());
  return absl::OkStatus();
}

Tensor VariableUpdate::Forget() {
  if (CurrentNumericsCheck() != nullptr) [[unlikely]]
    Log(0).IgnoreError();  // too late: nobody takes it back
  return ForgetLogged();
}

Tensor VariableUpdate::ForgetLogged() {
  Tensor value = slots_[0]->Forget();
  if (undo_[0] != nullptr) [[unlikely]]
    slots_[0]->Close(undo_[0]->change.get());
  return value;
}

absl::Status VariableUpdate::Destroy(const ResourceHandle& handle, ResourceContainers* containers) {
  if (CurrentNumericsCheck() != nullptr) [[unlikely]]
    TROUPE_RETURN_IF_ERROR(Log(0));
  old_ = ForgetLogged();
  std::string container = handle.container(), name = handle.name();
  // Another one that stands there by now is not this one's to delete.
  const absl::Status s = DeleteIfSame(containers, container, name, handle.object().get());
  if (s.ok() && undo_[0] != nullptr) [[unlikely]] {
    undo_[0]->containers = containers;
    undo_[0]->container = std::move(container);
    undo_[0]->name = std::move(name);
  }
  return s;
}

absl::Status VariableUpdate::CheckNew(const Tensor& value, int i) const {
  const NonFinite found = CountNonFinite(value);
  if (!found.any()) return absl::OkStatus();
  return NotFiniteError(StrCat("the new value of variable '", slots_[i]->name(), "' (", value.TypeAndShape(), ") has ",
                               NonFiniteText(found, value), "; the variable keeps the value that it had"));
}

// Notes variable `i` before its update. CANCELLED when the step's updates have been taken back.
absl::Status VariableUpdate::Log(int i) {
  auto undo = std::make_shared<Undo>();
  undo->change = slots_[i]->Note();
  // The share is that of the handle by which the kernel knows the variable.
  for (int k = 0; k < ctx_.num_inputs() && undo->share == nullptr; ++k) {
    const DType type = ctx_.node().input_types[k];
    if ((type != DType::kResource && !IsRef(type)) || !ctx_.has_input(k)) continue;
    const auto& handle = *static_cast<const ResourceHandle*>(ctx_.input(k).raw());
    if (handle.As<VariableSlot>() == slots_[i]) undo->share = handle.object();
  }
  if (undo->share != nullptr && !CurrentNumericsCheck()->log->Add([undo] { undo->Run(); }))
    return absl::CancelledError("the step is over, and its updates have been taken back");
  undo_[i] = std::move(undo);
  return absl::OkStatus();
}

}  // namespace troupe::state
