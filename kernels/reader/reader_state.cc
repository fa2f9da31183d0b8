// ReaderNumRecordsProduced, ReaderNumWorkUnitsCompleted, ReaderSerializeState, ReaderRestoreState,
// ReaderReset and their V2 forms: where a reader is, and to where it goes.
#include "kernels/reader/reader.h"
#include "troupe/shape_inference.h"

namespace troupe::reader {
namespace {

using Kind = ReaderRequest::Kind;

absl::StatusOr<ReaderRequestPtr> Ask(KernelContext& ctx, Kind kind, std::string state = {}) {
  return state::AskAs<Reader, ReaderRequest>(ctx, [&](const Reader&, ReaderRequest* request) {
    request->kind = kind;
    request->state = std::move(state);
    return absl::OkStatus();
  });
}

template <absl::Status (*compute)(KernelContext&)>
using Kernel = state::KernelOf<compute, Cost::kTrivial>;

template <int64_t ReaderRequest::*count>
absl::Status Count(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const ReaderRequestPtr r, Ask(ctx, Kind::kCounts));
  ctx.set_output(0, Tensor::Scalar((*r).*count));
  return absl::OkStatus();
}

absl::Status Serialize(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const ReaderRequestPtr r, Ask(ctx, Kind::kSerialize));
  ctx.set_output(0, Tensor::Scalar(std::move(r->state)));
  return absl::OkStatus();
}

absl::Status Restore(KernelContext& ctx) {
  if (ctx.input(1).rank() != 0)
    return InvalidArgument("state must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
  return Ask(ctx, Kind::kRestore, ctx.input(1).scalar<std::string>()).status();
}

absl::Status Reset(KernelContext& ctx) { return Ask(ctx, Kind::kReset).status(); }

const state::OpForms produced("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", state::OpForms::kUses,
                              [](OpBuilder& op, std::string_view handle) {
                                op.Input(StrCat("reader_handle: ", handle))
                                    .Output("records_produced: int64")
                                    .Shape(shape_fn::Scalar)
                                    .NotDifferentiable("it counts")
                                    .Doc("How many records the reader has given.");
                              });
const state::OpForms completed("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2", state::OpForms::kUses,
                               [](OpBuilder& op, std::string_view handle) {
                                 op.Input(StrCat("reader_handle: ", handle))
                                     .Output("units_completed: int64")
                                     .Shape(shape_fn::Scalar)
                                     .NotDifferentiable("it counts")
                                     .Doc("How many works the reader has read to their end.");
                               });
const state::OpForms serialize(
    "ReaderSerializeState", "ReaderSerializeStateV2", state::OpForms::kUses,
    [](OpBuilder& op, std::string_view handle) {
      op.Input(StrCat("reader_handle: ", handle))
          .Output("state: string")
          .Shape(shape_fn::Scalar)
          .NotDifferentiable("its value is text")
          .Doc(
              "Where the reader is, as bytes for ReaderRestoreState. Every kind of reader "
              "can tell; TensorFlow reads the states of IdentityReader and WholeFileReader.");
    });
const state::OpForms restore("ReaderRestoreState", "ReaderRestoreStateV2", state::OpForms::kUses,
                             [](OpBuilder& op, std::string_view handle) {
                               op.Input(StrCat("reader_handle: ", handle))
                                   .Input("state: string")
                                   .Shape([](InferenceContext& c) { return c.WithRank(1, 0).status(); })
                                   .NotDifferentiable("it has no outputs")
                                   .Doc("Puts the reader to where ReaderSerializeState found it.");
                             });
const state::OpForms reset("ReaderReset", "ReaderResetV2", state::OpForms::kUses,
                           [](OpBuilder& op, std::string_view handle) {
                             op.Input(StrCat("reader_handle: ", handle))
                                 .Shape(shape_fn::NoOutputs)
                                 .NotDifferentiable("it has no outputs")
                                 .Doc(
                                     "Makes the reader as it was when it was new: it forgets its work and its counts.");
                           });

const state::KernelForms<Kernel<Count<&ReaderRequest::produced>>> produced_kernel("ReaderNumRecordsProduced",
                                                                                  "ReaderNumRecordsProducedV2");
const state::KernelForms<Kernel<Count<&ReaderRequest::completed>>> completed_kernel("ReaderNumWorkUnitsCompleted",
                                                                                    "ReaderNumWorkUnitsCompletedV2");
const state::KernelForms<Kernel<Serialize>> serialize_kernel("ReaderSerializeState", "ReaderSerializeStateV2");
const state::KernelForms<Kernel<Restore>> restore_kernel("ReaderRestoreState", "ReaderRestoreStateV2");
const state::KernelForms<Kernel<Reset>> reset_kernel("ReaderReset", "ReaderResetV2");

}  // namespace
}  // namespace troupe::reader
