// Adding a whole tensor to a variable, or subtracting it.
#ifndef TROUPE_KERNELS_STATE_DENSE_UPDATE_H_
#define TROUPE_KERNELS_STATE_DENSE_UPDATE_H_

#include "kernels/state/variable_owner.h"
#include "kernels/state/variable_slot.h"
#include "troupe/kernel.h"

namespace troupe::state {

enum class DenseOp { kAdd, kSub };

// slot += delta or slot -= delta, element by element, in place when no snapshot is out.
// INVALID_ARGUMENT when the shapes differ, UNIMPLEMENTED for types without arithmetic.
absl::Status UpdateDense(KernelContext& ctx, VariableSlot* slot, const Tensor& delta, DenseOp op);
// The kernel of an op with inputs (variable, delta), which passes a reference on.
template <DenseOp kOp>
absl::Status ComputeDenseUpdate(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, ctx.input(1).dtype()));
  TROUPE_RETURN_IF_ERROR(UpdateDense(ctx, slot, ctx.input(1), kOp));
  if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_DENSE_UPDATE_H_
