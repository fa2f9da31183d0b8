#include "kernels/state/variable_owner.h"

namespace troupe::state {

Tensor MakeHandle(DType handle_type, ResourceHandle handle) {
  Tensor t(handle_type, TensorShape());
  if (t.valid()) *static_cast<ResourceHandle*>(t.raw()) = std::move(handle);
  return t;
}

VariableOwner::VariableOwner(KernelInit& init, DType handle_type, DType dtype, PartialTensorShape shape)
    : handle_type_(handle_type),
      dtype_(dtype),
      shape_(std::move(shape)),
      key_(init.ResourceKey(/*per_session=*/false)) {}

absl::StatusOr<Tensor> VariableOwner::Handle(Device* device) {
  ResourceContainers* const containers = device->containers();
  std::lock_guard<std::mutex> lock(mu_);
  const int64_t epoch = containers->epoch();
  if (handle_.valid() && epoch == epoch_) return handle_;
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<VariableSlot> slot,
                          containers->LookUpOrCreate<VariableSlot>(key_.first, key_.second, [this] {
                            return std::make_shared<VariableSlot>(key_.second, dtype_, shape_);
                          }));
  TROUPE_RETURN_IF_ERROR(slot->Join(dtype_, shape_));
  handle_ = MakeHandle(handle_type_, ResourceHandle(device->name(), key_.first, key_.second, std::move(slot)));
  if (!handle_.valid()) return ResourceExhausted("no memory for a handle of variable '", key_.second, "'");
  epoch_ = epoch;
  return handle_;
}

Tensor VariableOwner::AnonymousHandle(Device* device) const {
  return MakeHandle(handle_type_, ResourceHandle(device->name(), "", "<anonymous>",
                                                 std::make_shared<VariableSlot>("<anonymous>", dtype_, shape_)));
}

absl::StatusOr<VariableSlot*> Slot(const KernelContext& ctx, int i, DType dtype) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, ctx.resource<VariableSlot>(i));
  if (dtype != DType::kInvalid && slot->dtype() != dtype) {
    return InvalidArgument("variable '", slot->name(), "' holds ", Name(slot->dtype()), ", not ", Name(dtype));
  }
  return slot;
}

}  // namespace troupe::state
