// The op TraceSleep: hands its input on after a while. Of the tests, and a library for --load.
#include <chrono>
#include <thread>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("TraceSleep")
    .Input("x: float")
    .Output("y: float")
    .Attr("ms: int")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it computes nothing")
    .Doc("Its input, after `ms` milliseconds.");

class SleepKernel {
 public:
  explicit SleepKernel(KernelInit& init) : ms_(init.Attr<int64_t>("ms")) {}
  absl::Status Compute(KernelContext& ctx) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms_));
    ctx.set_output(0, ctx.input(0));
    return absl::OkStatus();
  }

 private:
  const int64_t ms_;
};
TROUPE_KERNEL("TraceSleep").Device("CPU").Class<SleepKernel>();

}  // namespace
}  // namespace troupe
