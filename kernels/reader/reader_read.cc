// ReaderRead, ReaderReadUpTo and their V2 forms: records of a reader.
#include "kernels/reader/reader.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

constexpr char kNoGradient[] = "its outputs are text";

// Asks the reader behind input 0 for `n` records of works from the queue behind input 1.
absl::StatusOr<ReaderRequestPtr> AskToRead(KernelContext& ctx, int64_t n) {
  return state::AskAs<Reader, ReaderRequest>(ctx, [&](const Reader&, ReaderRequest* request) -> absl::Status {
    TROUPE_ASSIGN_OR_RETURN(const queue::Queue* const queue, ctx.resource<queue::Queue>(1));
    const DType string = DType::kString;
    TROUPE_RETURN_IF_ERROR(queue->spec().CheckTypes({&string, 1}));
    if (queue->spec().has_shapes() && !queue->spec().shapes[0].IsCompatibleWith(TensorShape())) {
      return InvalidArgument("a reader needs a queue of scalars, but the elements of ", queue->spec().What(),
                             " have shape ", queue->spec().shapes[0].DebugString());
    }
    request->wanted = n;
    request->queue = std::static_pointer_cast<const queue::Queue>(std::dynamic_pointer_cast<const queue::Queue>(
        static_cast<const ResourceHandle*>(ctx.input(1).raw())->object()));
    return absl::OkStatus();
  });
}

absl::Status Read(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const ReaderRequestPtr r, AskToRead(ctx, 1));
  ctx.set_output(0, Tensor::Scalar(std::move(r->records[0].first)));
  ctx.set_output(1, Tensor::Scalar(std::move(r->records[0].second)));
  return absl::OkStatus();
}

absl::Status ReadUpTo(KernelContext& ctx) {
  if (ctx.input(2).rank() != 0)
    return InvalidArgument("num_records must be a scalar, but has shape ", ctx.input(2).shape().DebugString());
  const int64_t n = ctx.input(2).scalar<int64_t>();
  if (n < 0) return InvalidArgument("num_records must be at least 0, got ", n);
  ReaderRequestPtr r;
  if (n > 0) {
    TROUPE_ASSIGN_OR_RETURN(r, AskToRead(ctx, n));
  }
  const int64_t got = r == nullptr ? 0 : static_cast<int64_t>(r->records.size());
  TROUPE_ASSIGN_OR_RETURN(Tensor * keys, ctx.AllocateOutput(0, TensorShape({got})));
  TROUPE_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(1, TensorShape({got})));
  for (int64_t i = 0; i < got; ++i) {
    keys->data<std::string>()[i] = std::move(r->records[static_cast<size_t>(i)].first);
    values->data<std::string>()[i] = std::move(r->records[static_cast<size_t>(i)].second);
  }
  return absl::OkStatus();
}

struct ReadKernel {
  static constexpr Cost kCost = Cost::kTrivial;
  explicit ReadKernel(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) { return Read(ctx); }
};
struct ReadUpToKernel {
  static constexpr Cost kCost = Cost::kTrivial;
  explicit ReadUpToKernel(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) { return ReadUpTo(ctx); }
};

const state::OpForms read("ReaderRead", "ReaderReadV2", state::OpForms::kUses,
                          [](OpBuilder& op, std::string_view handle) {
                            op.Input(StrCat("reader_handle: ", handle))
                                .Input(StrCat("queue_handle: ", handle))
                                .Output("key: string")
                                .Output("value: string")
                                .Shape(shape_fn::Scalar)
                                .NotDifferentiable(kNoGradient)
                                .Doc(
                                    "The next record of the reader. When its work is over, the name of the next one "
                                    "is taken from the queue, which holds scalars of text; OUT_OF_RANGE when that is "
                                    "closed and empty.");
                          });
const state::OpForms read_up_to("ReaderReadUpTo", "ReaderReadUpToV2", state::OpForms::kUses,
                                [](OpBuilder& op, std::string_view handle) {
                                  op.Input(StrCat("reader_handle: ", handle))
                                      .Input(StrCat("queue_handle: ", handle))
                                      .Input("num_records: int64")
                                      .Output("keys: string")
                                      .Output("values: string")
                                      .Shape([](InferenceContext& c) -> absl::Status {
                                        TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
                                        c.set_output(0, PartialTensorShape{-1});
                                        c.set_output(1, PartialTensorShape{-1});
                                        return absl::OkStatus();
                                      })
                                      .NotDifferentiable(kNoGradient)
                                      .Doc(
                                          "Up to `num_records` of the next records, all of one work: fewer where the "
                                          "work ends, at least one unless `num_records` is 0.");
                                });
const state::KernelForms<ReadKernel> read_kernel("ReaderRead", "ReaderReadV2");
const state::KernelForms<ReadUpToKernel> read_up_to_kernel("ReaderReadUpTo", "ReaderReadUpToV2");

}  // namespace
}  // namespace troupe::reader
