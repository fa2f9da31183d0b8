// Assert: ends the step unless a condition holds.
#include "kernels/control/summarize.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("Assert")
    .Input("condition: bool")
    .Input("data: T")
    .Attr("T: list(type) >= 1")
    .Attr("summarize: int = 3")
    .Stateful()
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no outputs")
    .Doc(
        "Fails the step with INVALID_ARGUMENT and the first `summarize` values of each of `data` unless `condition` "
        "holds.");

class AssertKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit AssertKernel(KernelInit& init) : summarize_(init.Attr<int64_t>("summarize")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& condition = ctx.input(0);
    if (condition.rank() != 0) {
      return InvalidArgument("the condition must be a scalar, but has shape ", condition.shape().DebugString());
    }
    if (condition.scalar<bool>()) return absl::OkStatus();
    std::string message = "assertion failed: ";
    for (int i = 1; i < ctx.num_inputs(); ++i) {
      StrAppend(&message, i > 1 ? " [" : "[", control::Summarize(ctx.input(i), summarize_), "]");
    }
    return InvalidArgument(message);
  }

 private:
  const int64_t summarize_;
};
TROUPE_KERNEL("Assert").Device("CPU").Class<AssertKernel>();

}  // namespace
}  // namespace troupe
