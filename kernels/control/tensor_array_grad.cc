// TensorArrayGradV3: the array of an array's gradients.
#include "kernels/control/tensor_array.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("TensorArrayGradV3")
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("grad_handle: resource")
    .Output("flow_out: float")
    .Attr("source: string")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .Gradient([](GradientContext& g) {
      // What was written to the array before, and what was read, is as it was: the order of what
      // happens runs through.
      if (g.HasGrad(1)) g.Set(1, g.Grad(1));
      return g.status();
    })
    .Doc(
        "The array that holds the gradients of the elements of an array: made at the first call in a step with this "
        "`source`, with the size, and elements of the shapes, that the array then has; "
        "the same one afterwards. Writes to one of its elements add up.");

class TensorArrayGradKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit TensorArrayGradKernel(KernelInit& init) : source_(init.Attr<std::string>("source")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
    std::string key = StrCat(static_cast<const ResourceHandle*>(ctx.input(0).raw())->name(), "@", source_);
    TROUPE_ASSIGN_OR_RETURN(
        auto grad, ctx.step()->resources.LookUpOrCreate<control::TensorArray>(control::kTensorArrays, key, [&] {
          return std::make_shared<control::TensorArray>(StrCat(array->name(), "@", source_), *array);
        }));
    control::SetArrayOutputs(ctx, std::move(key), std::move(grad));
    return absl::OkStatus();
  }

 private:
  const std::string source_;
};
TROUPE_KERNEL("TensorArrayGradV3").Device("CPU").Class<TensorArrayGradKernel>();

}  // namespace
}  // namespace troupe
