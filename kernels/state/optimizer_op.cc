#include "kernels/state/optimizer_op.h"

namespace troupe::state {

absl::Status BeginApply(const KernelContext& ctx, int n, DType dtype, VariableUpdate* update) {
  VariableSlot* slots[SlotTicket::kMaxSlots];
  for (int i = 0; i < n; ++i) {
    TROUPE_ASSIGN_OR_RETURN(slots[i], Slot(ctx, i, dtype));
  }
  TROUPE_RETURN_IF_ERROR(update->Begin(slots, n));
  TROUPE_RETURN_IF_ERROR(update->CheckReadable());
  const Tensor& var = update->value(0);
  for (int i = 1; i < n; ++i) {
    if (!update->value(i).SameShape(var)) {
      return InvalidArgument("variables '", slots[0]->name(), "' and '", slots[i]->name(),
                             "' do not have the same shape: ", var.shape().DebugString(), " and ",
                             update->value(i).shape().DebugString());
    }
  }
  return absl::OkStatus();
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
