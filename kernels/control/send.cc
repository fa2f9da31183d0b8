// _Send, _HostSend: a value to another part. What crosses is in host memory, since it may leave the
// process: on a device with memory of its own a copy stands before the _Send
// (graph/passes/memory_copies.h).
#include "kernels/control/edge_key.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

OpBuilder SendingOp(std::string_view name) {
  return EdgeEnd(OpBuilder(name).Input("tensor: T").Attr("T: type")).Trait(OpTrait::kSend).Shape(shape_fn::NoOutputs);
}
const OpRegistrar op = SendingOp("_Send").Doc(
    "Hands its input, dead or alive, to the `_Recv` with the same names in another part of the step.");
const OpRegistrar host_op =
    SendingOp("_HostSend").Doc("_Send of a tensor in host memory, on whatever device the node is.");

class SendKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit SendKernel(KernelInit& init) : key_(EdgeKey(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.exchange() == nullptr) return FailedPrecondition("there is no exchange to send '", key_, "' by");
    const bool dead = ctx.is_dead();
    return ctx.exchange()->Send(key_, ctx.frame_iter(), dead ? Tensor() : ctx.TakeInput(0), dead);
  }

 private:
  const std::string key_;
};
TROUPE_KERNEL("_Send").Device("CPU").Class<SendKernel>();
TROUPE_KERNEL("_HostSend").Device("CPU").Class<SendKernel>();
TROUPE_KERNEL("_Send").Device("*").HostMemory("tensor").Class<SendKernel>();
TROUPE_KERNEL("_HostSend").Device("*").HostMemory("tensor").Class<SendKernel>();

}  // namespace
}  // namespace troupe
