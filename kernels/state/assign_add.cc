// AssignAdd, AssignAddVariableOp: add a whole tensor to a variable.
#include "kernels/state/dense_update.h"
#include "kernels/state/handle_shapes.h"

namespace troupe {
namespace {

TROUPE_OP("AssignAdd")
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Shape(shape_fn::MergeAll)
    .NotDifferentiable("an update is not a value")
    .Doc("Adds `value` to the variable and passes its reference on.");

TROUPE_OP("AssignAddVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape([](InferenceContext& c) { return state::ValueFitsHandle(c, 1); })
    .NotDifferentiable("an update is not a value")
    .Doc("Adds `value` to the variable.");

TROUPE_KERNEL("AssignAdd").Device("CPU").Function<state::ComputeDenseUpdate<state::DenseOp::kAdd>>();
TROUPE_KERNEL("AssignAddVariableOp").Device("CPU").Function<state::ComputeDenseUpdate<state::DenseOp::kAdd>>();

}  // namespace
}  // namespace troupe
