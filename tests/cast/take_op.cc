// The op CastTake of these tests.
#include "tests/cast/take_op.h"

#include <utility>

#include "troupe/kernel.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

int64_t taken = 0;

TROUPE_OP("CastTake")
    .Input("a: float")
    .Input("b: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it is a test's")
    .Doc("a + b, and counts.");
absl::Status Take(KernelContext& ctx) {
  Tensor a = ctx.input(0), y(DType::kFloat, a.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i)
    y.flat<float>()[i] = a.flat<float>()[i] + ctx.input(1).flat<float>()[i];
  ctx.set_output(0, std::move(y));
  ++taken;
  return absl::OkStatus();
}
TROUPE_KERNEL("CastTake").Device("CPU").Function<Take>();

}  // namespace

int64_t TimesTaken() { return taken; }

}  // namespace troupe
