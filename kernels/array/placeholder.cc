// Placeholder and its versions: values that come from outside. The two that must be fed refuse to
// run.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

class PlaceholderKernel {
 public:
  explicit PlaceholderKernel(KernelInit& init)
      : dtype_(init.output_type(0)), shape_(init.Attr<PartialTensorShape>("shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    return InvalidArgument("you must feed a value for placeholder tensor '", ctx.node().name, "' with dtype ",
                           Name(dtype_), " and shape ", shape_.DebugString());
  }

 private:
  DType dtype_;
  PartialTensorShape shape_;
};

absl::Status DefaultShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape shape, c.Attr<PartialTensorShape>("shape"));
  // A feed may have any shape that fits the attr; the default has to fit it too.
  TROUPE_RETURN_IF_ERROR(shape.MergeWith(c.input(0)).status());
  c.set_output(0, shape);
  return absl::OkStatus();
}

TROUPE_OP("Placeholder")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape = { unknown_rank: true }")
    .Trait(OpTrait::kPlaceholder)
    .Shape(shape_fn::FromShapeAttr)
    .NotDifferentiable("it has no inputs")
    .Doc(
        "A value that every step must feed; running it is an error. `shape` is what is known about the value's shape.");
TROUPE_KERNEL("Placeholder").Device("CPU").Class<PlaceholderKernel>();

TROUPE_OP("PlaceholderV2")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Trait(OpTrait::kPlaceholder)
    .Shape(shape_fn::FromShapeAttr)
    .NotDifferentiable("it has no inputs")
    .Deprecated(23, "Placeholder now behaves the same as PlaceholderV2.")
    .Doc("As Placeholder, with a shape that must be given.");
TROUPE_KERNEL("PlaceholderV2").Device("CPU").Class<PlaceholderKernel>();

// It has no kForwardsInput: gradients would look through it to its input.
TROUPE_OP("PlaceholderWithDefault")
    .Input("input: dtype")
    .Output("output: dtype")
    .Trait(OpTrait::kMayBeFed)
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Shape(DefaultShape)
    .Gradient(PassOnGradient)
    .Doc("`input`, unless the step feeds this output. `shape` is what a feed must fit.");
TROUPE_KERNEL("PlaceholderWithDefault").Device("CPU").Function<PassOn, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
