// ScatterMin, ResourceScatterMin: rows of a variable, ref[indices[i]] = min(ref[indices[i]],
// updates[i]).
#include "kernels/state/scatter_rows.h"

namespace troupe {
namespace {

TROUPE_OP("ScatterMin")
    .Input("ref: Ref(T)")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc(
        "ref[indices[i]] = min(ref[indices[i]], updates[i]) for each i, one after another where an index comes twice; "
        "a scalar update stands for every element.");

TROUPE_OP("ResourceScatterMin")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Input("updates: dtype")
    .Attr("dtype: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc("ScatterMin of a variable that is named by handle.");

TROUPE_KERNEL("ScatterMin").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kMin>>();
TROUPE_KERNEL("ResourceScatterMin").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kMin>>();

}  // namespace
}  // namespace troupe
