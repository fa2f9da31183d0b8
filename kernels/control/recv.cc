// _Recv, _HostRecv: a value from another part, in host memory (send.cc).
#include "kernels/control/edge_key.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

OpBuilder ReceivingOp(std::string_view name) {
  return EdgeEnd(OpBuilder(name).Output("tensor: tensor_type").Attr("tensor_type: type"))
      .Trait(OpTrait::kRecv)
      .Shape(shape_fn::Unknown);
}
const OpRegistrar op =
    ReceivingOp("_Recv").Doc("The value that the `_Send` with the same names in another part of the step hands over.");
const OpRegistrar host_op =
    ReceivingOp("_HostRecv").Doc("_Recv of a tensor into host memory, on whatever device the node is.");

class RecvKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit RecvKernel(KernelInit& init) : key_(EdgeKey(init)), type_(init.output_type(0)) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    if (ctx.exchange() == nullptr) return done(FailedPrecondition("there is no exchange to receive '", key_, "' by"));
    ctx.exchange()->Recv(
        key_, ctx.frame_iter(), [this, &ctx, done = std::move(done)](absl::Status s, Tensor value, bool dead) {
          if (!s.ok()) return done(s);
          if (dead) {
            ctx.set_output_dead();
            return done(absl::OkStatus());
          }
          // What comes from another process is checked before kernels trust it.
          if (value.dtype() != type_ && BaseType(value.dtype()) != type_) {
            return done(InvalidArgument("received ", Name(value.dtype()), " for '", key_, "', which is ", Name(type_)));
          }
          ctx.set_output(0, std::move(value));
          done(absl::OkStatus());
        });
  }

 private:
  const std::string key_;
  const DType type_;
};
TROUPE_KERNEL("_Recv").Device("CPU").Class<RecvKernel>();
TROUPE_KERNEL("_HostRecv").Device("CPU").Class<RecvKernel>();
TROUPE_KERNEL("_Recv").Device("*").HostMemory("tensor").Class<RecvKernel>();
TROUPE_KERNEL("_HostRecv").Device("*").HostMemory("tensor").Class<RecvKernel>();

}  // namespace
}  // namespace troupe
