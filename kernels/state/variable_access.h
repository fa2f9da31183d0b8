// How kernels read and update variables: at once when nobody else has them, otherwise as nodes that
// wait (KernelContext::WaitFor), so that no thread does.
//
//   absl::Status Compute(KernelContext& ctx) {
//     VariableUpdate update(ctx);
//     TROUPE_RETURN_IF_ERROR(update.Begin(slot));    // the kernel may return here, and be run again
//     ... check everything ...
//     TROUPE_RETURN_IF_ERROR(update.Write());        // from here on the update must be finished
//     ... change update.value() ...
//     return update.Commit();
//   }
//
// Where a snapshot is out, Write copies the whole value first. An update that goes through all
// elements has WriteInPieces in its place: then InPieces brings each piece over just before it is
// changed, so that the value passes through the caches once, and each thread brings its own part.
//
// An update that ends between Write and Commit, by an error or an exception, has lost its
// variables: all of them, whether it worked in place or on copies, so that what is lost does not
// depend on who holds a snapshot. Before Write it leaves them as they were. Between the two nothing
// cuts its loops off: a step that is told to end waits for them.
//
// In a step that checks itself for NaN and infinities (kernels/numerics_check.h), Commit and Set
// refuse a value that has some: the variables keep the values that they had, all of an update. What
// its updates do, Forget and Destroy too, is logged there, so that it can be taken back.
//
// Thread rule: as for the kernel's context.
#ifndef TROUPE_KERNELS_STATE_VARIABLE_ACCESS_H_
#define TROUPE_KERNELS_STATE_VARIABLE_ACCESS_H_

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/numerics_check.h"
#include "kernels/state/variable_slot.h"
#include "troupe/kernel.h"
#include "troupe/resource_container.h"

namespace troupe::state {

// A snapshot of the variable. When it must wait for updates, the status of WaitFor.
absl::StatusOr<Tensor> ReadVariable(KernelContext& ctx, VariableSlot* slot);

// The wait for a snapshot, for whoever reads without a kernel.
class SnapshotWait : public KernelWait {
 public:
  explicit SnapshotWait(VariableSlot* slot) : ticket_(SlotTicket::ForRead(slot)) {}
  ~SnapshotWait() override { ticket_->GiveUp(); }
  void Await(std::function<void()> go_on) override { ticket_->WhenAdmitted(std::move(go_on)); }
  std::string What() const override { return ticket_->What(); }
  // REQUIRES: go_on has been called.
  absl::StatusOr<Tensor> Take() { return ticket_->TakeSnapshot(); }

 private:
  const std::shared_ptr<SlotTicket> ticket_;
};

class VariableUpdate {
 public:
  explicit VariableUpdate(KernelContext& ctx) : ctx_(ctx), holder_{&ctx.node(), ctx.step()->step_id} {}
  ~VariableUpdate() {
    for (int i = 0; i < n_; ++i) slots_[i]->End();
  }
  VariableUpdate(const VariableUpdate&) = delete;
  VariableUpdate& operator=(const VariableUpdate&) = delete;

  // Has the variable, or several, to itself from here on. Otherwise the status to return.
  // INVALID_ARGUMENT when one is given twice.
  absl::Status Begin(VariableSlot* slot) {
    if (ctx_.wait() == nullptr && slot->TryBegin()) [[likely]] {
      slots_[n_++] = slot;
      slot->SetHolder(&holder_);
      return absl::OkStatus();
    }
    return BeginLate(&slot, 1);
  }
  absl::Status Begin(VariableSlot* const* slots, int n);
  // REQUIRES, of all that follow: Begin was OK.
  VariableSlot& slot(int i = 0) { return *slots_[i]; }
  Tensor& value(int i = 0) { return slots_[i]->value(); }
  // FAILED_PRECONDITION or DATA_LOSS when a variable has no value.
  absl::Status CheckReadable() const;
  // Makes the buffers of all values unique, and begins to write.
  absl::Status Write();
  // Likewise, for an update of plain values that changes them by InPieces alone, and all of their
  // elements. RESOURCE_EXHAUSTED, and all values as they were, without memory for copies.
  absl::Status WriteInPieces();
  // f(b, e) for the elements from `begin` to `end` of all values, which have the same shape; in
  // pieces while they are being copied. From the threads of a loop, for parts that do not overlap.
  template <class F>
  void InPieces(int64_t begin, int64_t end, F&& f) const {
    if (!from_.has_value()) [[likely]]
      return f(begin, end);
    for (int64_t b = begin; b < end; b += kPiece) {
      const int64_t e = std::min(end, b + kPiece);
      BringOver(b, e);
      f(b, e);
    }
  }
  // INVALID_ARGUMENT in a step that checks itself, see above.
  absl::Status Commit();
  // Instead of Write and Commit: sets the value.
  absl::Status Set(Tensor value);
  // Leaves the variable without a value; the one that it had, if any.
  Tensor Forget();
  // Forgets the value, and removes the variable's entry (`handle` names it) from its container.
  // NOT_FOUND when there is none, or the name is by now another variable's; the value is gone all
  // the same. Taken back, the variable stands in its container again, unless the name is by then
  // that of another one that has been updated.
  absl::Status Destroy(const ResourceHandle& handle, ResourceContainers* containers);

 private:
  // Elements: of floats, of an optimizer with three values, what fits into the first cache.
  static constexpr int64_t kPiece = 2048;

  absl::Status BeginLate(VariableSlot* const* slots, int n);
  absl::Status LogAll();
  void BeginWriting();
  void BringOver(int64_t begin, int64_t end) const;
  // In a step that checks itself.
  struct Undo;
  absl::Status CheckNew(const Tensor& value, int i) const;
  absl::Status Log(int i);
  Tensor ForgetLogged();

  KernelContext& ctx_;
  const SlotHolder holder_;
  int n_ = 0;
  VariableSlot* slots_[SlotTicket::kMaxSlots];  // in the order of Begin
  std::optional<ComputeThreads::LoopCancellation> whole_;
  Tensor old_;                                                     // freed when nobody waits for it any more
  std::optional<std::array<Tensor, SlotTicket::kMaxSlots>> from_;  // likewise; the values that are brought over
  // Of each variable; null in a step that does not check itself.
  std::shared_ptr<Undo> undo_[SlotTicket::kMaxSlots];
};

// Called by each update when it begins to write: a test holds it there, or throws.
inline std::atomic<void (*)(const KernelNode&)> update_probe{nullptr};

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_VARIABLE_ACCESS_H_
