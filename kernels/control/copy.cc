// _CopyToHost, _CopyToDevice: a value in the other memory, on a device that has memory of its own
// (graph/passes/memory_copies.h).
#include "kernels/control/flow_op.h"
#include "troupe/kernel.h"

namespace troupe::control {
namespace {

OpBuilder CopyOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: T")
      .Output("output: T")
      .Attr("T: type")
      .Shape(shape_fn::Unchanged)
      .NotDifferentiable("it stands in compiled parts only");
}
const OpRegistrar to_host = CopyOp("_CopyToHost").Doc("Its input, copied from the device's memory into the host's.");
const OpRegistrar to_device =
    CopyOp("_CopyToDevice").Doc("Its input, copied from the host's memory into the device's.");

template <MemoryKind kTo>
class CopyKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit CopyKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    if (ctx.input(0).memory() == kTo) {
      ctx.set_output(0, ctx.TakeInput(0));
      return done(absl::OkStatus());
    }
    ctx.device()->Copy(ctx.input(0), kTo, [&ctx, done = std::move(done)](absl::StatusOr<Tensor> copy) {
      if (!copy.ok()) return done(copy.status());
      if (copy->memory() != kTo) return done(Internal("the device's copy is in the memory that it was to leave"));
      ctx.set_output(0, *std::move(copy));
      done(absl::OkStatus());
    });
  }
};
TROUPE_KERNEL("_CopyToHost").Device("*").HostMemory("output").Class<CopyKernel<MemoryKind::kHost>>();
TROUPE_KERNEL("_CopyToDevice").Device("*").HostMemory("input").Class<CopyKernel<MemoryKind::kDevice>>();

}  // namespace
}  // namespace troupe::control
