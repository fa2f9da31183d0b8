// TemporaryVariable, DestroyTemporaryVariable: a variable that lives within one step.
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("TemporaryVariable")
    .Output("ref: Ref(dtype)")
    .Attr("shape: shape")
    .Attr("dtype: type")
    .Attr("var_name: string = ''")
    .Stateful()
    .Shape(shape_fn::FromShapeAttr)
    .NotDifferentiable("it has no inputs")
    .Doc(
        "A reference to a new variable of zeros for this step (and iteration), which DestroyTemporaryVariable takes "
        "away.");

TROUPE_OP("DestroyTemporaryVariable")
    .Input("ref: Ref(T)")
    .Output("value: T")
    .Attr("T: type")
    .Attr("var_name: string")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it ends a variable")
    .Doc("The last value of the temporary variable `var_name`, which is gone after it.");

constexpr char kContainer[] = "temporary variables";
// An iteration is told by its number among those of its device's part of the step.
std::string Key(const std::string& name, const KernelContext& ctx) {
  return StrCat(name, "@", ctx.device()->name(), "@", ctx.frame_iter());
}

class TemporaryVariableKernel {
 public:
  explicit TemporaryVariableKernel(KernelInit& init)
      : name_(init.Attr<std::string>("var_name")),
        dtype_(init.Attr<DType>("dtype")),
        shape_(init.Attr<PartialTensorShape>("shape")) {
    if (name_.empty()) name_ = init.node().name();
    if (init.status().ok() && !shape_.IsFullyDefined()) {
      init.Fail(InvalidArgument("the shape ", shape_.DebugString(), " of a temporary variable must be fully known"));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    Tensor value(ctx.allocator(), dtype_, shape_.AsTensorShape());
    if (!value.valid())
      return ResourceExhausted("no memory for temporary variable '", name_, "' ", shape_.DebugString());
    if (IsPlainBytes(dtype_)) std::memset(value.raw(), 0, value.bytes());
    bool made = false;
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<VariableSlot> slot,
                            ctx.step()->resources.LookUpOrCreate<VariableSlot>(kContainer, Key(name_, ctx), [&] {
                              made = true;
                              return std::make_shared<VariableSlot>(name_, dtype_, shape_);
                            }));
    if (!made) return AlreadyExists("temporary variable '", name_, "' exists already in this step");
    TROUPE_RETURN_IF_ERROR(slot->Assign(std::move(value)));
    ctx.set_output(0, state::MakeHandle(MakeRef(dtype_),
                                        ResourceHandle(ctx.device()->name(), kContainer, name_, std::move(slot))));
    return absl::OkStatus();
  }

 private:
  std::string name_;
  const DType dtype_;
  const PartialTensorShape shape_;
};
TROUPE_KERNEL("TemporaryVariable").Device("CPU").Class<TemporaryVariableKernel>();

class DestroyTemporaryVariableKernel {
 public:
  explicit DestroyTemporaryVariableKernel(KernelInit& init) : name_(init.Attr<std::string>("var_name")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0, ctx.output_type(0)));
    state::VariableUpdate update(ctx);
    TROUPE_RETURN_IF_ERROR(update.Begin(slot));
    TROUPE_RETURN_IF_ERROR(update.CheckReadable());
    Tensor value = update.Forget();
    TROUPE_RETURN_IF_ERROR(ctx.step()->resources.Delete(kContainer, Key(name_, ctx)));
    ctx.set_output(0, std::move(value));
    return absl::OkStatus();
  }

 private:
  const std::string name_;
};
TROUPE_KERNEL("DestroyTemporaryVariable").Device("CPU").Class<DestroyTemporaryVariableKernel>();

}  // namespace
}  // namespace troupe
