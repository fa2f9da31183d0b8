// AssignSub, AssignSubVariableOp: subtract a whole tensor from a variable.
#include "kernels/state/dense_update.h"
#include "kernels/state/handle_shapes.h"

namespace troupe {
namespace {

TROUPE_OP("AssignSub")
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Shape(shape_fn::MergeAll)
    .NotDifferentiable("an update is not a value")
    .Doc("Subtracts `value` from the variable and passes its reference on.");

TROUPE_OP("AssignSubVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape([](InferenceContext& c) { return state::ValueFitsHandle(c, 1); })
    .NotDifferentiable("an update is not a value")
    .Doc("Subtracts `value` from the variable.");

TROUPE_KERNEL("AssignSub").Device("CPU").Function<state::ComputeDenseUpdate<state::DenseOp::kSub>>();
TROUPE_KERNEL("AssignSubVariableOp").Device("CPU").Function<state::ComputeDenseUpdate<state::DenseOp::kSub>>();

}  // namespace
}  // namespace troupe
