// MutableDenseHashTable, MutableDenseHashTableV2: a mutable table with two keys that it never has.
#include "kernels/table/table.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::table {
namespace {

constexpr char kKind[] = "MutableDenseHashTable";
const ResourceKind saved(kKind, MakeSavedTable);

struct Dense : TableKind {
  explicit Dense(KernelInit& init) : TableKind(init, kKind) {}
};

const state::OpForms op(kKind, "MutableDenseHashTableV2", state::OpForms::kMakes,
                        [](OpBuilder& op, std::string_view handle) {
                          op.Input("empty_key: key_dtype");
                          if (handle == "resource") op.Input("deleted_key: key_dtype");
                          op.Output(StrCat("table_handle: ", handle))
                              .Attr("container: string = ''")
                              .Attr("shared_name: string = ''")
                              .Attr("use_node_name_sharing: bool = false")
                              .Attr("key_dtype: type")
                              .Attr("value_dtype: type")
                              .Attr("value_shape: shape = {}")
                              .Attr("initial_num_buckets: int = 131072")
                              .Attr("max_load_factor: float = 0.8")
                              .Trait(OpTrait::kTableHandle)
                              .Shape(shape_fn::Scalar)
                              .NotDifferentiable("its value is a handle")
                              .Doc(
                                  "MutableHashTableV2 whose keys have the shape of `empty_key` and whose values have "
                                  "`value_shape`. It never holds `empty_key` and `deleted_key`. The attrs of its "
                                  "buckets are checked, and change nothing.");
                        });
const state::KernelForms<state::HandleOf<Dense>> kernel(kKind, "MutableDenseHashTableV2");

}  // namespace
}  // namespace troupe::table
