// ScatterUpdate, ResourceScatterUpdate: rows of a variable, ref[indices[i]] = updates[i].
#include "kernels/state/scatter_rows.h"

namespace troupe {
namespace {

TROUPE_OP("ScatterUpdate")
    .Input("ref: Ref(T)")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: type")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = true")
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc(
        "ref[indices[i]] = updates[i] for each i, one after another where an index comes twice; a scalar update stands "
        "for every element.");

TROUPE_OP("ResourceScatterUpdate")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Input("updates: dtype")
    .Attr("dtype: type")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Shape(state::ScatterShape)
    .NotDifferentiable("an update is not a value")
    .Doc("ScatterUpdate of a variable that is named by handle.");

TROUPE_KERNEL("ScatterUpdate").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kUpdate>>();
TROUPE_KERNEL("ResourceScatterUpdate").Device("CPU").Function<state::ComputeScatter<state::ScatterOp::kUpdate>>();

}  // namespace
}  // namespace troupe
