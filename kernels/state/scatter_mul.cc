// ScatterMul, ResourceScatterMul: rows of a variable, ref[indices[i]] *= updates[i].
#include "kernels/state/scatter_rows.h"

namespace troupe {
namespace {

TROUPE_OP("ScatterMul")
    .Input("ref: Ref(T)")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc(
        "ref[indices[i]] *= updates[i] for each i, one after another where an index comes twice; a scalar update "
        "stands for every element.");

TROUPE_OP("ResourceScatterMul")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Input("updates: dtype")
    .Attr("dtype: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc("ScatterMul of a variable that is named by handle.");

TROUPE_KERNEL("ScatterMul").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kMul>>();
TROUPE_KERNEL("ResourceScatterMul").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kMul>>();

}  // namespace
}  // namespace troupe
