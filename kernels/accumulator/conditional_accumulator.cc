// ConditionalAccumulator, SparseConditionalAccumulator, and the ops on them, in the forms that
// TensorFlow has: the dense ones also with a resource.
#include "kernels/accumulator/accumulator.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::accumulator {
namespace {

using Kind = AccumulatorRequest::Kind;
using state::OpForms;

constexpr char kDense[] = "ConditionalAccumulator", kSparse[] = "SparseConditionalAccumulator";
constexpr char kDtype[] =
    "dtype: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
    "quint16, uint16, complex128, half, uint32, uint64}";
constexpr char kNoOutputs[] = "it has no outputs";
constexpr char kOfAnotherStep[] = "what is accumulated was computed by other steps";
const ResourceKind saved_dense(kDense, MakeSavedAccumulator), saved_sparse(kSparse, MakeSavedAccumulator);

struct Dense : AccumulatorKind {
  explicit Dense(KernelInit& init) : AccumulatorKind(init, kDense) {}
};
struct Sparse : AccumulatorKind {
  explicit Sparse(KernelInit& init) : AccumulatorKind(init, kSparse) {}
};

absl::Status WrongKind(const AccumulatorSpec& spec, bool sparse) {
  if (spec.sparse() == sparse) return absl::OkStatus();
  return InvalidArgument(spec.What(), " is asked by an op for a ", sparse ? kSparse : kDense);
}

template <class F>
absl::StatusOr<AccumulatorRequestPtr> Ask(KernelContext& ctx, Kind kind, F&& fill) {
  return state::AskAs<Accumulator, AccumulatorRequest>(ctx, [&](const Accumulator& a, AccumulatorRequest* r) {
    r->kind = kind;
    return fill(a.spec(), r);
  });
}

absl::StatusOr<int64_t> Step(const KernelContext& ctx, std::string_view what) {
  if (ctx.input(1).rank() != 0)
    return InvalidArgument(what, " must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
  return ctx.input(1).scalar<int64_t>();
}

absl::Status CheckType(const AccumulatorSpec& spec, DType type) {
  if (type == spec.dtype) return absl::OkStatus();
  return InvalidArgument(spec.What(), " accumulates ", Name(spec.dtype), ", not ", Name(type));
}

absl::Status Apply(KernelContext& ctx) {
  return Ask(ctx, Kind::kApply,
             [&](const AccumulatorSpec& spec, AccumulatorRequest* r) -> absl::Status {
               TROUPE_RETURN_IF_ERROR(WrongKind(spec, /*sparse=*/false));
               TROUPE_RETURN_IF_ERROR(CheckType(spec, ctx.input(2).dtype()));
               TROUPE_ASSIGN_OR_RETURN(r->step, Step(ctx, "local_step"));
               r->values = ctx.input(2);
               return absl::OkStatus();
             })
      .status();
}

class ApplyRowsKernel {
 public:
  explicit ApplyRowsKernel(KernelInit& init) : has_shape_(init.Attr<bool>("has_known_shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    return Ask(ctx, Kind::kApply,
               [&](const AccumulatorSpec& spec, AccumulatorRequest* r) -> absl::Status {
                 TROUPE_RETURN_IF_ERROR(WrongKind(spec, /*sparse=*/true));
                 TROUPE_RETURN_IF_ERROR(CheckType(spec, ctx.input(3).dtype()));
                 TROUPE_ASSIGN_OR_RETURN(r->step, Step(ctx, "local_step"));
                 if (ctx.input(2).rank() != 1) {
                   return InvalidArgument("gradient_indices must be a vector, but has shape ",
                                          ctx.input(2).shape().DebugString());
                 }
                 r->indices = ctx.input(2);
                 r->values = ctx.input(3);
                 if (!has_shape_) return absl::OkStatus();
                 if (ctx.input(4).rank() != 1) {
                   return InvalidArgument("gradient_shape must be a vector, but has shape ",
                                          ctx.input(4).shape().DebugString());
                 }
                 TROUPE_ASSIGN_OR_RETURN(r->shape, PartialTensorShape::Make(ctx.input(4).flat<int64_t>()));
                 return absl::OkStatus();
               })
        .status();
  }

 private:
  const bool has_shape_;
};

template <bool sparse>
absl::Status Take(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(
      const AccumulatorRequestPtr r,
      Ask(ctx, Kind::kTake, [&](const AccumulatorSpec& spec, AccumulatorRequest* q) -> absl::Status {
        TROUPE_RETURN_IF_ERROR(WrongKind(spec, sparse));
        TROUPE_RETURN_IF_ERROR(CheckType(spec, ctx.output_type(sparse ? 1 : 0)));
        if (ctx.input(1).rank() != 0)
          return InvalidArgument("num_required must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
        q->required = ctx.input(1).scalar<int32_t>();
        if (q->required < 1) return InvalidArgument("num_required must be at least 1, got ", q->required);
        return absl::OkStatus();
      }));
  if (!sparse) {
    ctx.set_output(0, std::move(r->values));
    return absl::OkStatus();
  }
  ctx.set_output(0, std::move(r->indices));
  ctx.set_output(1, std::move(r->values));
  TROUPE_ASSIGN_OR_RETURN(Tensor * shape, ctx.AllocateOutput(2, TensorShape({r->shape.rank()})));
  for (int d = 0; d < r->shape.rank(); ++d) shape->data<int64_t>()[d] = r->shape.dim(d);
  return absl::OkStatus();
}

absl::Status Count(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(
      const AccumulatorRequestPtr r,
      Ask(ctx, Kind::kCount, [](const AccumulatorSpec&, AccumulatorRequest*) { return absl::OkStatus(); }));
  ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(r->count)));
  return absl::OkStatus();
}

absl::Status SetStep(KernelContext& ctx) {
  return Ask(ctx, Kind::kSetStep,
             [&](const AccumulatorSpec&, AccumulatorRequest* r) -> absl::Status {
               TROUPE_ASSIGN_OR_RETURN(r->step, Step(ctx, "new_global_step"));
               return absl::OkStatus();
             })
      .status();
}

// Inputs 1 and on are scalars as far as `scalars` says.
template <int scalars>
absl::Status NoOutputsShape(InferenceContext& c) {
  for (int i = 1; i <= scalars; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  return absl::OkStatus();
}

absl::Status TakeShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  const Node* const accumulator = state::HandleNode(c, 0);
  absl::StatusOr<PartialTensorShape> shape = PartialTensorShape();
  if (accumulator != nullptr && accumulator->attrs().Has("shape"))
    shape = accumulator->Attr<PartialTensorShape>("shape");
  c.set_output(0, shape.value_or(PartialTensorShape()));
  return absl::OkStatus();
}

absl::Status TakeRowsShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  c.set_output(0, PartialTensorShape{-1});
  c.set_output(1, PartialTensorShape());
  c.set_output(2, PartialTensorShape{-1});
  return absl::OkStatus();
}

void Make(OpBuilder& op, std::string_view handle, std::string_view doc) {
  op.Output(StrCat("handle: ", handle))
      .Attr(kDtype)
      .Attr("shape: shape")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("reduction_type: {'MEAN', 'SUM'} = 'MEAN'")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc(doc);
}

const OpForms dense(kDense, "ResourceConditionalAccumulator", OpForms::kMakesElements,
                    [](OpBuilder& op, std::string_view handle) {
                      Make(op, handle,
                           "Gathers gradients of several steps, and gives their mean or sum when there are enough. "
                           "Gradients that are older than its step are dropped.");
                    });
const OpForms sparse(kSparse, "", OpForms::kMakesElements, [](OpBuilder& op, std::string_view handle) {
  Make(op, handle,
       "A ConditionalAccumulator of gradients that name a few rows. The mean of a row is over the gradients that have "
       "it.");
});
const OpForms apply("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient", OpForms::kUses,
                    [](OpBuilder& op, std::string_view handle) {
                      op.Input(StrCat("handle: ", handle))
                          .Input("local_step: int64")
                          .Input("gradient: dtype")
                          .Attr(kDtype)
                          .Shape(NoOutputsShape<1>)
                          .Trait(OpTrait::kPutsElements)
                          .Trait(OpTrait::kNeverWaits)
                          .NotDifferentiable(kNoOutputs)
                          .Doc(
                              "Adds a gradient that was computed at `local_step`, unless the accumulator's step is "
                              "later.");
                    });
const OpForms apply_rows("SparseAccumulatorApplyGradient", "", OpForms::kUses,
                         [](OpBuilder& op, std::string_view handle) {
                           op.Input(StrCat("handle: ", handle))
                               .Input("local_step: int64")
                               .Input("gradient_indices: int64")
                               .Input("gradient_values: dtype")
                               .Input("gradient_shape: int64")
                               .Attr(kDtype)
                               .Attr("has_known_shape: bool")
                               .Shape(NoOutputsShape<1>)
                               .Trait(OpTrait::kPutsElements)
                               .Trait(OpTrait::kNeverWaits)
                               .NotDifferentiable(kNoOutputs)
                               .Doc(
                                   "Adds the rows `gradient_values` at `gradient_indices`, computed at `local_step`. "
                                   "`gradient_shape` is the whole shape, if `has_known_shape`.");
                         });
const OpForms take("AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient", OpForms::kUses,
                   [](OpBuilder& op, std::string_view handle) {
                     op.Input(StrCat("handle: ", handle))
                         .Input("num_required: int32")
                         .Output("average: dtype")
                         .Attr(kDtype)
                         .Shape(TakeShape)
                         .NotDifferentiable(kOfAnotherStep)
                         .Doc(
                             "Waits for `num_required` gradients, gives the mean or sum of all that are there, and "
                             "empties the accumulator, whose step becomes greater by one.");
                   });
const OpForms take_rows("SparseAccumulatorTakeGradient", "", OpForms::kUses,
                        [](OpBuilder& op, std::string_view handle) {
                          op.Input(StrCat("handle: ", handle))
                              .Input("num_required: int32")
                              .Output("indices: int64")
                              .Output("values: dtype")
                              .Output("shape: int64")
                              .Attr(kDtype)
                              .Shape(TakeRowsShape)
                              .NotDifferentiable(kOfAnotherStep)
                              .Doc("AccumulatorTakeGradient of the rows, sorted by their indices.");
                        });
const OpForms count("AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated", OpForms::kUses,
                    [](OpBuilder& op, std::string_view handle) {
                      op.Input(StrCat("handle: ", handle))
                          .Output("num_accumulated: int32")
                          .Shape(shape_fn::Scalar)
                          .Trait(OpTrait::kNeverWaits)
                          .Trait(OpTrait::kNoEffect)
                          .NotDifferentiable("it counts")
                          .Doc("How many gradients are in the accumulator.");
                    });
const OpForms set_step("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", OpForms::kUses,
                       [](OpBuilder& op, std::string_view handle) {
                         op.Input(StrCat("handle: ", handle))
                             .Input("new_global_step: int64")
                             .Shape(NoOutputsShape<1>)
                             .Trait(OpTrait::kNeverWaits)
                             .NotDifferentiable(kNoOutputs)
                             .Doc("Sets the step of the accumulator.");
                       });

template <class K>
using Forms = state::KernelForms<K>;
const Forms<state::HandleOf<Dense>> dense_kernel(kDense, "ResourceConditionalAccumulator");
const Forms<state::HandleOf<Sparse>> sparse_kernel(kSparse, "");
const Forms<state::KernelOf<Apply>> apply_kernel("AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient");
const Forms<ApplyRowsKernel> apply_rows_kernel("SparseAccumulatorApplyGradient", "");
const Forms<state::KernelOf<Take<false>, Cost::kTrivial>> take_kernel("AccumulatorTakeGradient",
                                                                      "ResourceAccumulatorTakeGradient");
const Forms<state::KernelOf<Take<true>, Cost::kTrivial>> take_rows_kernel("SparseAccumulatorTakeGradient", "");
const Forms<state::KernelOf<Count, Cost::kTrivial>> count_kernel("AccumulatorNumAccumulated",
                                                                 "ResourceAccumulatorNumAccumulated");
const Forms<state::KernelOf<SetStep, Cost::kTrivial>> set_step_kernel("AccumulatorSetGlobalStep",
                                                                      "ResourceAccumulatorSetGlobalStep");

}  // namespace
}  // namespace troupe::accumulator
