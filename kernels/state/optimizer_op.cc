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

absl::Status CheckRowGradients(const KernelContext& ctx, int i, const Tensor& var) {
  const Tensor &grad = ctx.input(i), &indices = ctx.input(i + 1);
  if (var.rank() < 1) return InvalidArgument("the variable must have at least one dimension, but is a scalar");
  if (indices.rank() != 1)
    return InvalidArgument("the indices must be a vector, but have shape ", indices.shape().DebugString());
  TensorShape expected = var.shape();
  expected.set_dim(0, indices.dim(0));
  if (grad.HasShape(expected)) return absl::OkStatus();
  return InvalidArgument("the gradient has shape ", grad.shape().DebugString(), ", but must have shape ",
                         expected.DebugString(), " for ", indices.dim(0), " rows of a variable of shape ",
                         var.shape().DebugString());
}

}  // namespace troupe::state
