// Abort: ends the step.
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("Abort")
    .Attr("error_msg: string = ''")
    .Attr("exit_without_error: bool = false")
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no values")
    .Doc(
        "Fails the step with ABORTED and `error_msg`, or, with `exit_without_error`, ends it with CANCELLED. The "
        "process lives on.");

class AbortKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit AbortKernel(KernelInit& init)
      : message_(init.Attr<std::string>("error_msg")), without_error_(init.Attr<bool>("exit_without_error")) {}
  absl::Status Compute(KernelContext&) {
    if (without_error_) return Cancelled("the graph ended the step", message_.empty() ? "" : ": ", message_);
    return Aborted(message_.empty() ? std::string("the graph aborted the step") : message_);
  }

 private:
  const std::string message_;
  const bool without_error_;
};
TROUPE_KERNEL("Abort").Device("CPU").Class<AbortKernel>();

}  // namespace
}  // namespace troupe
