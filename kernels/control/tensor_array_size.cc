// TensorArraySizeV3 and TensorArrayCloseV3.
#include "kernels/control/tensor_array.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("TensorArraySizeV3")
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("size: int32")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a number of elements")
    .Doc("The number of elements of the array.");

TROUPE_OP("TensorArrayCloseV3")
    .Input("handle: resource")
    .Stateful()
    .NotDifferentiable("it has no output")
    .Doc("Drops the array's elements at once, instead of when the step ends. The array cannot be used afterwards.");

absl::Status Size(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
  ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(array->size())));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArraySizeV3").Device("CPU").Function<Size, Cost::kTrivial>();

absl::Status Close(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
  array->Close();
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayCloseV3").Device("CPU").Function<Close, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
