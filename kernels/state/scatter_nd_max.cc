// ScatterNdMax, ResourceScatterNdMax: slices of a variable, slice(indices[i]) = max(slice,
// updates[i]).
#include "kernels/state/scatter_rows.h"

namespace troupe {
namespace {

TROUPE_OP("ScatterNdMax")
    .Input("ref: Ref(T)")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .Attr("bad_indices_policy: string = ''")
    .Shape(state::ScatterNdShape)
    .NotDifferentiable("an update is not a value")
    .Doc(
        "slice = max(slice, updates[i]) for the slice ref[indices[i, 0], ..., indices[i, K-1]], for each i, one after "
        "another where a slice comes twice.");

TROUPE_OP("ResourceScatterNdMax")
    .Input("ref: resource")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Attr("T: type")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = true")
    .Attr("bad_indices_policy: string = ''")
    .Stateful()
    .Shape(state::ScatterNdShape)
    .NotDifferentiable("an update is not a value")
    .Doc("ScatterNdMax of a variable that is named by handle.");

TROUPE_KERNEL("ScatterNdMax").Device("CPU").Class<state::ScatterNdKernel<state::ScatterOp::kMax>>();
TROUPE_KERNEL("ResourceScatterNdMax").Device("CPU").Class<state::ScatterNdKernel<state::ScatterOp::kMax>>();

}  // namespace
}  // namespace troupe
