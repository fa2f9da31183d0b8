// QueueEnqueue, QueueEnqueueMany and their V2 forms: elements are put into a queue.
#include "kernels/queue/queue_handle.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

class EnqueueKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit EnqueueKernel(KernelInit& init) {
    if (init.Attr<int64_t>("timeout_ms") != -1)
      init.Fail(InvalidArgument("timeout_ms is not supported: give the call a deadline"));
  }
  absl::Status Compute(KernelContext& ctx) { return Ask(ctx, &EnqueueKernel::One); }

 protected:
  using Components = absl::Span<const Tensor>;
  using Fill = absl::Status (*)(const Queue& queue, Components components, QueueRequest* request);
  static absl::Status Ask(KernelContext& ctx, Fill fill) {
    TROUPE_ASSIGN_OR_RETURN(const Queue* const queue, QueueOf(ctx));
    return AskState(ctx, 0, *queue,
                    [&]() -> absl::StatusOr<QueueRequestPtr> {
                      auto request = std::make_shared<QueueRequest>(QueueRequest::Kind::kEnqueue);
                      TROUPE_RETURN_IF_ERROR(
                          fill(*queue, {&ctx.input(0) + 1, static_cast<size_t>(ctx.num_inputs() - 1)}, request.get()));
                      return request;
                    })
        .status();
  }
  static absl::Status One(const Queue& queue, Components components, QueueRequest* request) {
    TROUPE_RETURN_IF_ERROR(queue.spec().CheckElement(components, /*many=*/false));
    request->elements.emplace_back(components.begin(), components.end());
    return absl::OkStatus();
  }
};

class EnqueueManyKernel : public EnqueueKernel {
 public:
  static constexpr Cost kCost = Cost::kMeasured;
  using EnqueueKernel::EnqueueKernel;
  absl::Status Compute(KernelContext& ctx) { return Ask(ctx, &EnqueueManyKernel::Rows); }

 private:
  // The rows are copied here, on the thread of the asker: the queue only keeps them.
  static absl::Status Rows(const Queue& queue, Components components, QueueRequest* request) {
    TROUPE_RETURN_IF_ERROR(queue.spec().CheckElement(components, /*many=*/true));
    const int64_t n = components[0].dim(0);
    request->elements.reserve(static_cast<size_t>(n));
    const RowCutter rows(components);
    for (int64_t i = 0; i < n; ++i) TROUPE_RETURN_IF_ERROR(rows.Cut(i, &request->elements.emplace_back()));
    return absl::OkStatus();
  }
};

const state::OpForms enqueue(
    "QueueEnqueue", "QueueEnqueueV2", state::OpForms::kUses, [](OpBuilder& op, std::string_view handle) {
      op.Input(StrCat("handle: ", handle))
          .Input("components: Tcomponents")
          .Attr("Tcomponents: list(type) >= 1")
          .Attr("timeout_ms: int = -1")
          .Shape(shape_fn::NoOutputs)
          .Trait(OpTrait::kPutsElements)
          .NotDifferentiable("it has no outputs")
          .Doc("Puts one element into the queue, waiting while it is full; CANCELLED when it is closed.");
    });

const state::OpForms enqueue_many("QueueEnqueueMany", "QueueEnqueueManyV2", state::OpForms::kUses,
                                  [](OpBuilder& op, std::string_view handle) {
                                    op.Input(StrCat("handle: ", handle))
                                        .Input("components: Tcomponents")
                                        .Attr("Tcomponents: list(type) >= 1")
                                        .Attr("timeout_ms: int = -1")
                                        .Shape(shape_fn::NoOutputs)
                                        .Trait(OpTrait::kPutsElements)
                                        .NotDifferentiable("it has no outputs")
                                        .Doc(
                                            "Puts one element into the queue for each row of the `components`, which "
                                            "must have as many rows; waits while "
                                            "the queue is full. If the queue is closed meanwhile, those that are in it "
                                            "stay, and the op is CANCELLED.");
                                  });

const state::KernelForms<EnqueueKernel> enqueue_kernel("QueueEnqueue", "QueueEnqueueV2");
const state::KernelForms<EnqueueManyKernel> enqueue_many_kernel("QueueEnqueueMany", "QueueEnqueueManyV2");

}  // namespace
}  // namespace troupe::queue
