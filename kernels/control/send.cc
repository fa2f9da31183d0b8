// _Send, _HostSend: a value to another part.
#include "troupe/graph/ir/shape_inference.h"
#include "troupe/kernels/control/edge_key.h"
#include "troupe/kernels/kernel.h"

namespace troupe {
namespace {

TROUPE_OP("_Send")
    .Input("tensor: T")
    .Attr("T: type")
    .Attr("tensor_name: string")
    .Attr("send_device: string")
    .Attr("send_device_incarnation: int")
    .Attr("recv_device: string")
    .Attr("client_terminated: bool = false")
    .Stateful()
    .Trait(OpTrait::kSend)
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it is made when a graph is cut into parts, after gradients were built")
    .Doc("Hands its input, dead or alive, to the `_Recv` with the same names in another part of the step.");

TROUPE_OP("_HostSend")
    .Input("tensor: T")
    .Attr("T: type")
    .Attr("tensor_name: string")
    .Attr("send_device: string")
    .Attr("send_device_incarnation: int")
    .Attr("recv_device: string")
    .Attr("client_terminated: bool = false")
    .Stateful()
    .Trait(OpTrait::kSend)
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it is made when a graph is cut into parts, after gradients were built")
    .Doc("_Send of a tensor in host memory, on whatever device the node is.");

class SendKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit SendKernel(KernelInit& init) {
    absl::StatusOr<std::string> key = EdgeKey(init.node());
    if (key.ok()) {
      key_ = *std::move(key);
    } else {
      init.Fail(key.status());
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.exchange() == nullptr) return FailedPrecondition("there is no exchange to send '", key_, "' by");
    const bool dead = ctx.is_dead();
    return ctx.exchange()->Send(key_, ctx.frame_iter(), dead ? Tensor() : ctx.TakeInput(0), dead);
  }

 private:
  std::string key_;
};
TROUPE_KERNEL("_Send").Device("CPU").Class<SendKernel>();
TROUPE_KERNEL("_HostSend").Device("CPU").Class<SendKernel>();
TROUPE_KERNEL("_HostSend").Device("GPU").HostMemory("tensor").Class<SendKernel>();

}  // namespace
}  // namespace troupe
