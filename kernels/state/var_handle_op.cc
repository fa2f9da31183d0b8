// VarHandleOp: a handle of a variable.
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("VarHandleOp")
    .Output("resource: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("debug_name: string = ''")
    .Attr("dtype: type")
    .Attr("shape: shape")
    .Attr("allowed_devices: list(string) = []")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Trait(OpTrait::kVariable)
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const DType dtype, c.Attr<DType>("dtype"));
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.Attr<PartialTensorShape>("shape"));
      c.set_output(0, PartialTensorShape(TensorShape()));
      c.set_output_handle(0, {dtype, std::move(shape)});
      return absl::OkStatus();
    })
    .NotDifferentiable("it has no inputs")
    .Doc("A handle of the variable `shared_name` (or the node's name) of `container` on the node's device.");

// A variable with this shared name is nobody else's: each run of the node makes one.
constexpr char kAnonymous[] = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";

class VarHandleKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit VarHandleKernel(KernelInit& init)
      : anonymous_(init.Attr<std::string>("shared_name") == kAnonymous),
        owner_(init, DType::kResource, init.Attr<DType>("dtype"), init.Attr<PartialTensorShape>("shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    if (anonymous_) {
      ctx.set_output(0, owner_.AnonymousHandle(ctx.device()));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor handle, owner_.Handle(ctx.device()));
    ctx.set_output(0, std::move(handle));
    return absl::OkStatus();
  }

 private:
  const bool anonymous_;
  state::VariableOwner owner_;
};
TROUPE_KERNEL("VarHandleOp").Device("CPU").Class<VarHandleKernel>();

}  // namespace
}  // namespace troupe
