// The op CastNever of these tests, whose kernel waits until its step ends.
#include "tests/cast/play.h"

namespace troupe {
namespace {

TROUPE_OP("CastNever")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it never ends")
    .Doc("Waits for the step's end.");
class NeverKernel {
 public:
  explicit NeverKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.step()->cancellations.Register([done] { done(absl::CancelledError("the step ended")); });
  }
};
TROUPE_KERNEL("CastNever").Device("CPU").Class<NeverKernel>();

}  // namespace
}  // namespace troupe
