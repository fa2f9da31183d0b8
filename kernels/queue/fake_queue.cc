// FakeQueue: the handle of a queue as old graphs have it, for their readers.
#include "kernels/queue/queue_handle.h"
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

class FakeQueue {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit FakeQueue(KernelInit& init) : type_(init.node().output_type(0)) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_RETURN_IF_ERROR(QueueOf(ctx).status());
    const auto& handle = *static_cast<const ResourceHandle*>(ctx.input(0).raw());
    Tensor reference = state::MakeHandle(type_, handle);
    if (!reference.valid()) return ResourceExhausted("no memory for a handle");
    ctx.set_output(0, std::move(reference));
    return absl::OkStatus();
  }

 private:
  const DType type_;
};

TROUPE_OP("FakeQueue")
    .Input("resource: resource")
    .Output("handle: Ref(string)")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Trait(OpTrait::kElementsHandle)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a handle")
    .Doc("The queue behind `resource`, as a reference.");
TROUPE_KERNEL("FakeQueue").Device("CPU").Class<FakeQueue>();

}  // namespace
}  // namespace troupe::queue
