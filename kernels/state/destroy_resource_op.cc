// DestroyResourceOp: removes a resource from its container.
#include "kernels/device/same_entry.h"
#include "kernels/state/variable_access.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("DestroyResourceOp")
    .Input("resource: resource")
    .Attr("ignore_lookup_error: bool = true")
    .Stateful()
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no outputs")
    .Doc(
        "Removes the resource from its container, and its value with it. NOT_FOUND when it is not there, or another "
        "one has been put there since, unless `ignore_lookup_error`.");

class DestroyResourceKernel {
 public:
  explicit DestroyResourceKernel(KernelInit& init) : ignore_(init.Attr<bool>("ignore_lookup_error")) {}
  absl::Status Compute(KernelContext& ctx) {
    const ResourceHandle& handle = *static_cast<const ResourceHandle*>(ctx.input(0).raw());
    ResourceContainers* const containers = ctx.device()->containers();
    // Whoever still holds a handle must see that the value is gone.
    if (auto* slot = handle.As<VariableSlot>()) {
      state::VariableUpdate update(ctx);
      TROUPE_RETURN_IF_ERROR(update.Begin(slot));
      return Ignored(update.Destroy(handle, containers));
    }
    return Ignored(DeleteIfSame(containers, handle.container(), handle.name(), handle.object().get()));
  }

 private:
  absl::Status Ignored(absl::Status s) const { return ignore_ && absl::IsNotFound(s) ? absl::OkStatus() : s; }
  const bool ignore_;
};
TROUPE_KERNEL("DestroyResourceOp").Device("CPU").Class<DestroyResourceKernel>();

}  // namespace
}  // namespace troupe
