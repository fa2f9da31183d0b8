// What ops that name a variable share: finding the slot once and handing out one handle tensor for
// it.
//
// The slot lives in its device's containers, so every executor and step that has the node finds the
// same one; the handle tensor is made once and its copies share one buffer. When a container was
// cleared, the next run makes a new, uninitialised slot.
//
// Thread rule: Handle may be called from any thread.
#ifndef TROUPE_KERNELS_STATE_VARIABLE_OWNER_H_
#define TROUPE_KERNELS_STATE_VARIABLE_OWNER_H_

#include <mutex>
#include <string>
#include <utility>

#include "kernels/state/variable_slot.h"
#include "troupe/kernel.h"

namespace troupe::state {

class VariableOwner {
 public:
  // `handle_type` is resource or the reference type of `dtype`.
  VariableOwner(KernelInit& init, DType handle_type, DType dtype, PartialTensorShape shape);
  // A scalar of the handle type. INVALID_ARGUMENT when the name is taken by another kind of
  // resource or a variable of another type or shape.
  absl::StatusOr<Tensor> Handle(Device* device);
  // A handle of a new variable that no container knows.
  Tensor AnonymousHandle(Device* device) const;

 private:
  const DType handle_type_, dtype_;
  const PartialTensorShape shape_;
  std::pair<std::string, std::string> key_;
  std::mutex mu_;
  Tensor handle_;
  int64_t epoch_ = -1;
};

// A scalar handle tensor of type `handle_type`.
Tensor MakeHandle(DType handle_type, ResourceHandle handle);

// The variable behind input `i`, a reference or a resource. INVALID_ARGUMENT when the handle names
// something else, or (for `dtype` other than kInvalid) a variable of another type.
absl::StatusOr<VariableSlot*> Slot(const KernelContext& ctx, int i, DType dtype = DType::kInvalid);

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_VARIABLE_OWNER_H_
