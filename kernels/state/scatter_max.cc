// ScatterMax, ResourceScatterMax: rows of a variable, ref[indices[i]] = max(ref[indices[i]],
// updates[i]).
#include "kernels/state/scatter_rows.h"

namespace troupe {
namespace {

TROUPE_OP("ScatterMax")
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
        "ref[indices[i]] = max(ref[indices[i]], updates[i]) for each i, one after another where an index comes twice; "
        "a scalar update stands for every element.");

TROUPE_OP("ResourceScatterMax")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Input("updates: dtype")
    .Attr("dtype: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc("ScatterMax of a variable that is named by handle.");

TROUPE_KERNEL("ScatterMax").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kMax>>();
TROUPE_KERNEL("ResourceScatterMax").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kMax>>();

}  // namespace
}  // namespace troupe
