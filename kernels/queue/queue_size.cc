// QueueSize, QueueIsClosed and their V2 forms: what state a queue is in.
#include "kernels/queue/queue_handle.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

template <QueueRequest::Kind kind, class T>
absl::Status Number(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Queue* const queue, QueueOf(ctx));
  TROUPE_ASSIGN_OR_RETURN(const QueueRequestPtr r, AskState(ctx, 0, *queue, [&]() -> absl::StatusOr<QueueRequestPtr> {
                            return std::make_shared<QueueRequest>(kind);
                          }));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape()));
  *out->data<T>() = static_cast<T>(r->number);
  return absl::OkStatus();
}
constexpr auto Size = &Number<QueueRequest::Kind::kSize, int32_t>;
constexpr auto IsClosed = &Number<QueueRequest::Kind::kIsClosed, bool>;

const state::OpForms size(
    "QueueSize", "QueueSizeV2", state::OpForms::kUses, [](OpBuilder& op, std::string_view handle) {
      op.Input(StrCat("handle: ", handle))
          .Output("size: int32")
          .Shape(shape_fn::Scalar)
          .Trait(OpTrait::kNeverWaits)
          .Trait(OpTrait::kNoEffect)
          .NotDifferentiable("it counts")
          .Doc("The number of elements in the queue. What a dequeue that waits has taken already is not in it.");
    });

const state::OpForms is_closed("QueueIsClosed", "QueueIsClosedV2", state::OpForms::kUses,
                               [](OpBuilder& op, std::string_view handle) {
                                 op.Input(StrCat("handle: ", handle))
                                     .Output("is_closed: bool")
                                     .Shape(shape_fn::Scalar)
                                     .Trait(OpTrait::kNeverWaits)
                                     .Trait(OpTrait::kNoEffect)
                                     .NotDifferentiable("its value is a truth value")
                                     .Doc("Whether the queue is closed.");
                               });

TROUPE_KERNEL("QueueSizeV2").Device("CPU").Function<Size, Cost::kTrivial>();
TROUPE_KERNEL("QueueSize").Device("CPU").Function<Size, Cost::kTrivial>();
TROUPE_KERNEL("QueueIsClosedV2").Device("CPU").Function<IsClosed, Cost::kTrivial>();
TROUPE_KERNEL("QueueIsClosed").Device("CPU").Function<IsClosed, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::queue
