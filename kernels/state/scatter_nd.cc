// Updates of slices of a variable, slice(indices[i]) op= updates[i]: ScatterNdUpdate, ScatterNdAdd,
// ScatterNdSub, ScatterNdMin and ScatterNdMax, which name the variable by reference, and their
// Resource forms, which name it by handle.
#include <string_view>

#include "kernels/state/scatter_rows.h"
#include "troupe/op_def.h"

namespace troupe::state {
namespace {

// `update`: what becomes of a slice.
OpBuilder RefOp(std::string_view name, std::string_view update, std::string_view types = "numbertype",
                bool use_locking = false) {
  return OpBuilder(name)
      .Input("ref: Ref(T)")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output_ref: Ref(T)")
      .Attr(StrCat("T: ", types))
      .Attr("Tindices: {int32, int64}")
      .Attr(use_locking ? "use_locking: bool = true" : "use_locking: bool = false")
      .Attr(kBadIndicesAttr)
      .Shape(ScatterNdShape)
      .NotDifferentiable("an update is not a value")
      .Doc(StrCat(update,
                  " for the slice ref[indices[i, 0], ..., indices[i, K-1]], for each i, one after another where a "
                  "slice comes twice."));
}
// The Resource form of the op `of`.
OpBuilder HandleOp(std::string_view of) {
  return OpBuilder(StrCat("Resource", of))
      .Input("ref: resource")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Attr("T: type")
      .Attr("Tindices: {int32, int64}")
      .Attr("use_locking: bool = true")
      .Attr(kBadIndicesAttr)
      .Stateful()
      .Shape(ScatterNdShape)
      .NotDifferentiable("an update is not a value")
      .Doc(StrCat(of, " of a variable that is named by handle."));
}

const OpRegistrar update = RefOp("ScatterNdUpdate", "slice = updates[i]", "type", /*use_locking=*/true);
const OpRegistrar resource_update = HandleOp("ScatterNdUpdate");
TROUPE_KERNEL("ScatterNdUpdate").Device("CPU").Class<ScatterNdKernel<ScatterOp::kUpdate>>();
TROUPE_KERNEL("ResourceScatterNdUpdate").Device("CPU").Class<ScatterNdKernel<ScatterOp::kUpdate>>();

const OpRegistrar add = RefOp("ScatterNdAdd", "slice += updates[i]");
const OpRegistrar resource_add = HandleOp("ScatterNdAdd");
TROUPE_KERNEL("ScatterNdAdd").Device("CPU").Class<ScatterNdKernel<ScatterOp::kAdd>>();
TROUPE_KERNEL("ResourceScatterNdAdd").Device("CPU").Class<ScatterNdKernel<ScatterOp::kAdd>>();

const OpRegistrar sub = RefOp("ScatterNdSub", "slice -= updates[i]");
const OpRegistrar resource_sub = HandleOp("ScatterNdSub");
TROUPE_KERNEL("ScatterNdSub").Device("CPU").Class<ScatterNdKernel<ScatterOp::kSub>>();
TROUPE_KERNEL("ResourceScatterNdSub").Device("CPU").Class<ScatterNdKernel<ScatterOp::kSub>>();

const OpRegistrar min = RefOp("ScatterNdMin", "slice = min(slice, updates[i])");
const OpRegistrar resource_min = HandleOp("ScatterNdMin");
TROUPE_KERNEL("ScatterNdMin").Device("CPU").Class<ScatterNdKernel<ScatterOp::kMin>>();
TROUPE_KERNEL("ResourceScatterNdMin").Device("CPU").Class<ScatterNdKernel<ScatterOp::kMin>>();

const OpRegistrar max = RefOp("ScatterNdMax", "slice = max(slice, updates[i])");
const OpRegistrar resource_max = HandleOp("ScatterNdMax");
TROUPE_KERNEL("ScatterNdMax").Device("CPU").Class<ScatterNdKernel<ScatterOp::kMax>>();
TROUPE_KERNEL("ResourceScatterNdMax").Device("CPU").Class<ScatterNdKernel<ScatterOp::kMax>>();

}  // namespace
}  // namespace troupe::state
