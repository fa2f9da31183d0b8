// The op RemoteHeld of these tests.
#include "tests/remote/held_op.h"

#include <utility>

#include "troupe/registration.h"

namespace troupe {
namespace {

TROUPE_OP("RemoteHeld")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it never ends")
    .Doc("Waits for the test.");
class HeldKernel {
 public:
  explicit HeldKernel(KernelInit&) {}
  void ComputeAsync(KernelContext&, DoneFn done) { HeldCalls().push_back(std::move(done)); }
};
TROUPE_KERNEL("RemoteHeld").Device("CPU").Class<HeldKernel>();

}  // namespace

std::vector<DoneFn>& HeldCalls() {
  static std::vector<DoneFn> calls;
  return calls;
}

void LetGo() { std::exchange(HeldCalls(), {}).at(0)(absl::OkStatus()); }

}  // namespace troupe
