// QueueClose, QueueCloseV2: nothing more is put into a queue.
#include "kernels/queue/queue_handle.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

class CloseKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit CloseKernel(KernelInit& init)
      : kind_(init.Attr<bool>("cancel_pending_enqueues") ? QueueRequest::Kind::kCloseAndCancel
                                                         : QueueRequest::Kind::kClose) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Queue* const queue, QueueOf(ctx));
    return AskState(ctx, 0, *queue,
                    [&]() -> absl::StatusOr<QueueRequestPtr> { return std::make_shared<QueueRequest>(kind_); })
        .status();
  }

 private:
  const QueueRequest::Kind kind_;
};

const state::OpForms close("QueueClose", "QueueCloseV2", state::OpForms::kUses,
                           [](OpBuilder& op, std::string_view handle) {
                             op.Input(StrCat("handle: ", handle))
                                 .Attr("cancel_pending_enqueues: bool = false")
                                 .Shape(shape_fn::NoOutputs)
                                 .Trait(OpTrait::kPutsElements)
                                 .NotDifferentiable("it has no outputs")
                                 .Doc(
                                     "Closes the queue: later enqueues are CANCELLED, and dequeues give what is left, "
                                     "then OUT_OF_RANGE. Enqueues "
                                     "that wait are done before the queue is closed, or cancelled if "
                                     "`cancel_pending_enqueues`. Closing a closed "
                                     "queue is CANCELLED, too, unless it cancels.");
                           });

const state::KernelForms<CloseKernel> close_kernel("QueueClose", "QueueCloseV2");

}  // namespace
}  // namespace troupe::queue
