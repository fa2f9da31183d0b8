// Updates of rows of a variable, ref[indices[i]] op= updates[i]: ScatterUpdate, ScatterAdd,
// ScatterSub, ScatterMul, ScatterDiv, ScatterMin and ScatterMax, which name the variable by
// reference, and their Resource forms, which name it by handle.
#include <string_view>

#include "kernels/state/scatter_rows.h"
#include "troupe/op_def.h"

namespace troupe::state {
namespace {

// `update`: what becomes of a row.
OpBuilder RefOp(std::string_view name, std::string_view types, std::string_view update, bool use_locking = false) {
  return OpBuilder(name)
      .Input("ref: Ref(T)")
      .Input("indices: Tindices")
      .Input("updates: T")
      .Output("output_ref: Ref(T)")
      .Attr(StrCat("T: ", types))
      .Attr("Tindices: {int32, int64}")
      .Attr(use_locking ? "use_locking: bool = true" : "use_locking: bool = false")
      .Shape(ScatterShape)
      .NotDifferentiable("an update is not a value")
      .Doc(StrCat(
          update,
          " for each i, one after another where an index comes twice; a scalar update stands for every element."));
}
// The Resource form of the op `of`.
OpBuilder HandleOp(std::string_view of, std::string_view types = "numbertype") {
  return OpBuilder(StrCat("Resource", of))
      .Input("resource: resource")
      .Input("indices: Tindices")
      .Input("updates: dtype")
      .Attr(StrCat("dtype: ", types))
      .Attr("Tindices: {int32, int64}")
      .Stateful()
      .Shape(ScatterShape)
      .NotDifferentiable("an update is not a value")
      .Doc(StrCat(of, " of a variable that is named by handle."));
}
constexpr std::string_view kOrdered = "{half, bfloat16, float, double, int32, int64}";

const OpRegistrar update = RefOp("ScatterUpdate", "type", "ref[indices[i]] = updates[i]", /*use_locking=*/true);
const OpRegistrar resource_update = HandleOp("ScatterUpdate", "type");
TROUPE_KERNEL("ScatterUpdate").Device("CPU").Function<ComputeScatter<ScatterOp::kUpdate>>();
TROUPE_KERNEL("ResourceScatterUpdate").Device("CPU").Function<ComputeScatter<ScatterOp::kUpdate>>();

const OpRegistrar add = RefOp("ScatterAdd", "numbertype", "ref[indices[i]] += updates[i]");
const OpRegistrar resource_add = HandleOp("ScatterAdd");
TROUPE_KERNEL("ScatterAdd").Device("CPU").Function<ComputeScatter<ScatterOp::kAdd>>();
TROUPE_KERNEL("ResourceScatterAdd").Device("CPU").Function<ComputeScatter<ScatterOp::kAdd>>();

const OpRegistrar sub = RefOp("ScatterSub", "numbertype", "ref[indices[i]] -= updates[i]");
const OpRegistrar resource_sub = HandleOp("ScatterSub");
TROUPE_KERNEL("ScatterSub").Device("CPU").Function<ComputeScatter<ScatterOp::kSub>>();
TROUPE_KERNEL("ResourceScatterSub").Device("CPU").Function<ComputeScatter<ScatterOp::kSub>>();

const OpRegistrar mul = RefOp("ScatterMul", "numbertype", "ref[indices[i]] *= updates[i]");
const OpRegistrar resource_mul = HandleOp("ScatterMul");
TROUPE_KERNEL("ScatterMul").Device("CPU").Function<ComputeScatter<ScatterOp::kMul>>();
TROUPE_KERNEL("ResourceScatterMul").Device("CPU").Function<ComputeScatter<ScatterOp::kMul>>();

const OpRegistrar div = RefOp("ScatterDiv", "numbertype", "ref[indices[i]] /= updates[i]");
const OpRegistrar resource_div = HandleOp("ScatterDiv");
TROUPE_KERNEL("ScatterDiv").Device("CPU").Function<ComputeScatter<ScatterOp::kDiv>>();
TROUPE_KERNEL("ResourceScatterDiv").Device("CPU").Function<ComputeScatter<ScatterOp::kDiv>>();

const OpRegistrar min = RefOp("ScatterMin", kOrdered, "ref[indices[i]] = min(ref[indices[i]], updates[i])");
const OpRegistrar resource_min = HandleOp("ScatterMin");
TROUPE_KERNEL("ScatterMin").Device("CPU").Function<ComputeScatter<ScatterOp::kMin>>();
TROUPE_KERNEL("ResourceScatterMin").Device("CPU").Function<ComputeScatter<ScatterOp::kMin>>();

const OpRegistrar max = RefOp("ScatterMax", kOrdered, "ref[indices[i]] = max(ref[indices[i]], updates[i])");
const OpRegistrar resource_max = HandleOp("ScatterMax");
TROUPE_KERNEL("ScatterMax").Device("CPU").Function<ComputeScatter<ScatterOp::kMax>>();
TROUPE_KERNEL("ResourceScatterMax").Device("CPU").Function<ComputeScatter<ScatterOp::kMax>>();

}  // namespace
}  // namespace troupe::state
