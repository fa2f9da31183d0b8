#include "kernels/state/variable_slot.h"

#include "troupe/kernel.h"

namespace troupe {

absl::Status VariableSlot::Join(DType dtype, const PartialTensorShape& shape) {
  if (dtype != dtype_) return InvalidArgument("variable '", name_, "' holds ", Name(dtype_), ", not ", Name(dtype));
  std::lock_guard<std::mutex> lock(mu_);
  if (shape == shape_) return absl::OkStatus();
  absl::StatusOr<PartialTensorShape> both = shape_.MergeWith(shape);
  if (!both.ok()) {
    return InvalidArgument("variable '", name_, "' has shape ", shape_.DebugString(), ", not ", shape.DebugString());
  }
  if (*both == shape_) return absl::OkStatus();
  if (value_.valid() && !both->IsCompatibleWith(value_.shape())) {
    return InvalidArgument("variable '", name_, "' has a value of shape ", value_.shape().DebugString(),
                           ", which does not fit shape ", shape.DebugString());
  }
  shape_ = *std::move(both);
  return absl::OkStatus();
}

VariableSlot* KernelContext::ref(int i) const {
  return static_cast<const ResourceHandle*>(inputs_[i].raw())->As<VariableSlot>();
}

}  // namespace troupe
