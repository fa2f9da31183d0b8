// Adding a whole tensor to a variable, or subtracting it.
#ifndef TROUPE_KERNELS_STATE_DENSE_UPDATE_H_
#define TROUPE_KERNELS_STATE_DENSE_UPDATE_H_

#include "troupe/kernels/kernel.h"
#include "troupe/kernels/state/variable_slot.h"

namespace troupe::state {

enum class DenseOp { kAdd, kSub };

// slot += delta or slot -= delta, element by element, in place when no snapshot is out. INVALID_ARGUMENT when the shapes differ,
// UNIMPLEMENTED for types without arithmetic.
absl::Status UpdateDense(KernelContext& ctx, VariableSlot* slot, const Tensor& delta, DenseOp op);

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_DENSE_UPDATE_H_
