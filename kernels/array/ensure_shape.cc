// EnsureShape: its input, or an error when its shape does not fit.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status EnsureShapeShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape shape, c.Attr<PartialTensorShape>("shape"));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape both, c.input(0).MergeWith(shape));
  c.set_output(0, std::move(both));
  return absl::OkStatus();
}

class EnsureShapeKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit EnsureShapeKernel(KernelInit& init) : shape_(init.Attr<PartialTensorShape>("shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    const TensorShape shape = ctx.input(0).shape();
    if (!shape_.IsCompatibleWith(shape)) {
      return InvalidArgument("shape of the input, ", shape.DebugString(), ", is not compatible with expected shape ",
                             shape_.DebugString());
    }
    return PassOn(ctx);
  }

 private:
  PartialTensorShape shape_;
};

TROUPE_OP("EnsureShape")
    .Input("input: T")
    .Output("output: T")
    .Attr("shape: shape")
    .Attr("T: type")
    .Shape(EnsureShapeShape)
    .Gradient(PassOnGradient)
    .Doc("`input`; INVALID_ARGUMENT when its shape is not one that `shape` describes.");
TROUPE_KERNEL("EnsureShape").Device("CPU").Class<EnsureShapeKernel>();

}  // namespace
}  // namespace troupe::array
