// CountUpTo, ResourceCountUpTo: a counter with an end.
#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"

namespace troupe {
namespace {

absl::Status CountUpToShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(state::NamedShape(c).MergeWith(PartialTensorShape(TensorShape())).status());
  return shape_fn::Scalar(c);
}

TROUPE_OP("CountUpTo")
    .Input("ref: Ref(T)")
    .Output("output: T")
    .Attr("limit: int")
    .Attr("T: {int32, int64}")
    .Shape(CountUpToShape)
    .NotDifferentiable("its value is an integer")
    .Doc("The value of the scalar variable, which is then one more; OUT_OF_RANGE when it has reached `limit`.");

TROUPE_OP("ResourceCountUpTo")
    .Input("resource: resource")
    .Output("output: T")
    .Attr("limit: int")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape(CountUpToShape)
    .NotDifferentiable("its value is an integer")
    .Doc("CountUpTo of a variable that is named by handle.");

class CountUpToKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit CountUpToKernel(KernelInit& init) : limit_(init.Attr<int64_t>("limit")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0, ctx.output_type(0)));
    state::VariableUpdate update(ctx);
    TROUPE_RETURN_IF_ERROR(update.Begin(slot));
    TROUPE_RETURN_IF_ERROR(update.CheckReadable());
    Tensor& value = update.value();
    if (value.rank() != 0) {
      return InvalidArgument("variable '", slot->name(), "' must be a scalar, but has shape ",
                             value.shape().DebugString());
    }
    const bool wide = value.dtype() == DType::kInt64;
    const int64_t before = wide ? *value.data<int64_t>() : *value.data<int32_t>();
    if (before >= limit_) return OutOfRange("reached limit of ", limit_);
    TROUPE_RETURN_IF_ERROR(update.Write());
    if (wide) {
      *value.data<int64_t>() = before + 1;
    } else {
      *value.data<int32_t>() = static_cast<int32_t>(before + 1);
    }
    TROUPE_RETURN_IF_ERROR(update.Commit());
    ctx.set_output(0, ctx.output_type(0) == DType::kInt64 ? Tensor::Scalar<int64_t>(before)
                                                          : Tensor::Scalar<int32_t>(static_cast<int32_t>(before)));
    return absl::OkStatus();
  }

 private:
  const int64_t limit_;
};
TROUPE_KERNEL("CountUpTo").Device("CPU").Class<CountUpToKernel>();
TROUPE_KERNEL("ResourceCountUpTo").Device("CPU").Class<CountUpToKernel>();

}  // namespace
}  // namespace troupe
