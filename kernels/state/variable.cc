// Variable, VariableV2: a reference to a variable.
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("VariableV2")
    .Output("ref: Ref(dtype)")
    .Attr("shape: shape")
    .Attr("dtype: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Trait(OpTrait::kVariable)
    .Shape(shape_fn::FromShapeAttr)
    .NotDifferentiable("it has no inputs")
    .Doc(
        "A reference to the variable `shared_name` (or the node's name) of `container` on the node's device. A step "
        "that reads it sees a snapshot, taken when the reader runs. A node that reads it through an Identity, and "
        "comes after an update that the Identity does not come after, is the reader itself.");

TROUPE_OP("Variable")
    .Output("ref: Ref(dtype)")
    .Attr("shape: shape")
    .Attr("dtype: type")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Trait(OpTrait::kVariable)
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.Attr<PartialTensorShape>("shape"));
      // Old graphs wrote an unknown shape as a scalar's.
      c.set_output(0, shape.rank() == 0 ? PartialTensorShape() : std::move(shape));
      return absl::OkStatus();
    })
    .NotDifferentiable("it has no inputs")
    .Doc("The form of VariableV2 that old graphs have, where the shape [] stands for an unknown one.");

// `scalar_is_unknown`: what the shape [] says.
template <bool scalar_is_unknown>
class VariableKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit VariableKernel(KernelInit& init)
      : owner_(init, MakeRef(init.Attr<DType>("dtype")), init.Attr<DType>("dtype"), ShapeOf(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(Tensor handle, owner_.Handle(ctx.device()));
    ctx.set_output(0, std::move(handle));
    return absl::OkStatus();
  }

 private:
  static PartialTensorShape ShapeOf(KernelInit& init) {
    PartialTensorShape shape = init.Attr<PartialTensorShape>("shape");
    return scalar_is_unknown && shape.rank() == 0 ? PartialTensorShape() : shape;
  }
  state::VariableOwner owner_;
};
TROUPE_KERNEL("VariableV2").Device("CPU").Class<VariableKernel<false>>();
TROUPE_KERNEL("Variable").Device("CPU").Class<VariableKernel<true>>();

}  // namespace
}  // namespace troupe
