#include "kernels/state/optimizer_op.h"

#include <algorithm>
#include <functional>

namespace troupe::state {

LockedSlots::~LockedSlots() {
  while (num_held_ > 0) held_[--num_held_]->mu().unlock();
}

absl::Status LockedSlots::Lock(const KernelContext& ctx, int n, DType dtype) {
  VariableSlot* order[kMaxSlots];
  for (n_ = 0; n_ < n; ++n_) {
    TROUPE_ASSIGN_OR_RETURN(slots_[n_], Slot(ctx, n_, dtype));
    order[n_] = slots_[n_];
  }
  std::sort(order, order + n, std::less<VariableSlot*>());
  if (VariableSlot** twice = std::adjacent_find(order, order + n); twice != order + n) {
    return InvalidArgument("variable '", (*twice)->name(), "' is given twice: a variable and its slots must differ");
  }
  for (int i = 0; i < n; ++i) {
    order[i]->mu().lock();
    held_[num_held_++] = order[i];
  }
  for (int i = 0; i < n; ++i) {
    TROUPE_RETURN_IF_ERROR(slots_[i]->CheckReadable());
    if (!value(i).SameShape(value(0))) {
      return InvalidArgument("variables '", slots_[0]->name(), "' and '", slots_[i]->name(),
                             "' do not have the same shape: ", value(0).shape().DebugString(), " and ",
                             value(i).shape().DebugString());
    }
  }
  for (int i = 0; i < n; ++i) TROUPE_RETURN_IF_ERROR(slots_[i]->MakeUniqueLocked());
  return absl::OkStatus();
}

void LockedSlots::Commit() {
  for (int i = 0; i < n_; ++i) slots_[i]->CommitLocked();
}

absl::Status CheckScalar(const KernelContext& ctx, int i) {
  if (ctx.input(i).rank() == 0) return absl::OkStatus();
  return InvalidArgument("input ", i, " must be a scalar, but has shape ", ctx.input(i).shape().DebugString());
}

absl::Status CheckGradient(const KernelContext& ctx, int i, const Tensor& var) {
  if (ctx.input(i).SameShape(var)) return absl::OkStatus();
  return InvalidArgument("the variable and its gradient do not have the same shape: ", var.shape().DebugString(),
                         " and ", ctx.input(i).shape().DebugString());
}

}  // namespace troupe::state
