// TensorArrayWriteV3: one element.
#include "kernels/control/tensor_array.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status WriteShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  return shape_fn::Scalar(c);
}

TROUPE_OP("TensorArrayWriteV3")
    .Input("handle: resource")
    .Input("index: int32")
    .Input("value: T")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Stateful()
    .Shape(WriteShape)
    .Gradient([](GradientContext& g) {
      const control::GradientArray grad = control::GradientArrayOf(g, g.Grad(0));
      g.Set(2, g.Op("TensorArrayReadV3", {grad.handle, g.Input(1), grad.flow}, {{"dtype", g.input_type(2)}}));
      g.Set(3, g.Grad(0));
      return g.status();
    })
    .Doc("Sets element `index` of the array to `value`; an array of dynamic size grows to hold it.");

absl::Status Write(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
  TROUPE_ASSIGN_OR_RETURN(const int32_t index, control::ScalarInput(ctx, 1, "index"));
  TROUPE_RETURN_IF_ERROR(array->Write(index, ctx.TakeInput(2)));
  ctx.set_output(0, ctx.TakeInput(3));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayWriteV3").Device("CPU").Function<Write, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
