// TensorArrayReadV3: one element.
#include "kernels/control/tensor_array.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status ReadShape(InferenceContext& c) { return c.WithRank(1, 0).status(); }

TROUPE_OP("TensorArrayReadV3")
    .Input("handle: resource")
    .Input("index: int32")
    .Input("flow_in: float")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape(ReadShape)
    .Gradient([](GradientContext& g) {
      const control::GradientArray grad = control::GradientArrayOf(g, g.Input(2));
      g.Set(2, g.Op("TensorArrayWriteV3", {grad.handle, g.Input(1), g.Grad(0), grad.flow}));
      return g.status();
    })
    .Doc("Element `index` of the array; it cannot be read again when the array clears after reads.");

absl::Status Read(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
  if (array->dtype() != ctx.output_type(0)) {
    return InvalidArgument("TensorArray '", array->name(), "' holds ", Name(array->dtype()), ", not ",
                           Name(ctx.output_type(0)));
  }
  TROUPE_ASSIGN_OR_RETURN(const int32_t index, control::ScalarInput(ctx, 1, "index"));
  TROUPE_ASSIGN_OR_RETURN(Tensor value, array->Read(index));
  ctx.set_output(0, std::move(value));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayReadV3").Device("CPU").Function<Read, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
