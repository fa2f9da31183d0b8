// QueueDequeue, QueueDequeueMany, QueueDequeueUpTo and their V2 forms: elements are taken from a
// queue.
#include "kernels/common/int_args.h"
#include "kernels/queue/queue_handle.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

void RefuseTimeout(KernelInit& init) {
  if (init.Attr<int64_t>("timeout_ms") != -1)
    init.Fail(InvalidArgument("timeout_ms is not supported: give the call a deadline"));
}

class DequeueKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit DequeueKernel(KernelInit& init) { RefuseTimeout(init); }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Queue* const queue, QueueOf(ctx));
    TROUPE_ASSIGN_OR_RETURN(const QueueRequestPtr r, AskState(ctx, 0, *queue, [&]() -> absl::StatusOr<QueueRequestPtr> {
                              TROUPE_RETURN_IF_ERROR(queue->spec().CheckTypes(ctx.node().output_types));
                              return std::make_shared<QueueRequest>(QueueRequest::Kind::kDequeue);
                            }));
    for (int c = 0; c < ctx.num_outputs(); ++c) ctx.set_output(c, std::move(r->elements[0][static_cast<size_t>(c)]));
    return absl::OkStatus();
  }
};

// The queue hands elements over; they are put together here, on the asker's thread.
template <QueueRequest::Kind kind>
class DequeueManyKernel {
 public:
  explicit DequeueManyKernel(KernelInit& init) { RefuseTimeout(init); }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Queue* const queue, QueueOf(ctx));
    const QueueSpec& spec = queue->spec();
    if (ctx.wait() == nullptr) {
      TROUPE_RETURN_IF_ERROR(spec.CheckTypes(ctx.node().output_types));
      if (!spec.has_shapes())
        return InvalidArgument("elements of ", spec.What(),
                               " cannot be dequeued together: its components have no shapes");
      if (ctx.input(1).rank() != 0)
        return InvalidArgument("n must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
    }
    const int64_t n = ctx.input(1).scalar<int32_t>();
    if (n < 0) return InvalidArgument("n must be at least 0, got ", n);
    QueueRequestPtr request;
    absl::Span<const Element> elements;
    if (n > 0) {
      TROUPE_ASSIGN_OR_RETURN(request, AskState(ctx, 0, *queue, [&]() -> absl::StatusOr<QueueRequestPtr> {
                                auto r = std::make_shared<QueueRequest>(kind);
                                r->wanted = n;
                                return r;
                              }));
      elements = request->elements;
    }
    const bool padded = spec.kind == "PaddingFIFOQueue";
    for (int c = 0; c < ctx.num_outputs(); ++c) {
      const auto i = static_cast<size_t>(c);
      TROUPE_ASSIGN_OR_RETURN(Tensor all, Stack(ctx, elements, i, spec.types[i], spec.shapes[i], padded));
      ctx.set_output(c, std::move(all));
    }
    return absl::OkStatus();
  }
};

const state::OpForms dequeue(
    "QueueDequeue", "QueueDequeueV2", state::OpForms::kUses, [](OpBuilder& op, std::string_view handle) {
      op.Input(StrCat("handle: ", handle))
          .Output("components: component_types")
          .Attr("component_types: list(type) >= 1")
          .Attr("timeout_ms: int = -1")
          .Shape(DequeueShape<Rows::kOne>)
          .NotDifferentiable("what is in a queue was computed by another step")
          .Doc("Takes one element from the queue, waiting for it; OUT_OF_RANGE when the queue is closed and empty.");
    });

const state::OpForms dequeue_many("QueueDequeueMany", "QueueDequeueManyV2", state::OpForms::kUses,
                                  [](OpBuilder& op, std::string_view handle) {
                                    op.Input(StrCat("handle: ", handle))
                                        .Input("n: int32")
                                        .Output("components: component_types")
                                        .Attr("component_types: list(type) >= 1")
                                        .Attr("timeout_ms: int = -1")
                                        .Shape(DequeueShape<Rows::kExactly>)
                                        .NotDifferentiable("what is in a queue was computed by another step")
                                        .Doc(
                                            "Takes `n` elements from the queue as they come, and stacks each "
                                            "component. OUT_OF_RANGE when the queue is "
                                            "closed with fewer, which then stay there.");
                                  });

const state::OpForms dequeue_up_to("QueueDequeueUpTo", "QueueDequeueUpToV2", state::OpForms::kUses,
                                   [](OpBuilder& op, std::string_view handle) {
                                     op.Input(StrCat("handle: ", handle))
                                         .Input("n: int32")
                                         .Output("components: component_types")
                                         .Attr("component_types: list(type) >= 1")
                                         .Attr("timeout_ms: int = -1")
                                         .Shape(DequeueShape<Rows::kUpTo>)
                                         .NotDifferentiable("what is in a queue was computed by another step")
                                         .Doc(
                                             "QueueDequeueManyV2, but once the queue is closed it gives what is left, "
                                             "if that is fewer than `n` elements; "
                                             "OUT_OF_RANGE when there are none.");
                                   });

const state::KernelForms<DequeueKernel> dequeue_kernel("QueueDequeue", "QueueDequeueV2");
const state::KernelForms<DequeueManyKernel<QueueRequest::Kind::kDequeue>> dequeue_many_kernel("QueueDequeueMany",
                                                                                              "QueueDequeueManyV2");
const state::KernelForms<DequeueManyKernel<QueueRequest::Kind::kDequeueUpTo>> dequeue_up_to_kernel(
    "QueueDequeueUpTo", "QueueDequeueUpToV2");

}  // namespace
}  // namespace troupe::queue
