// HashTable, HashTableV2: a table that its initializer fills, and that never changes.
#include "kernels/table/table.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::table {
namespace {

constexpr char kKind[] = "HashTable";
const ResourceKind saved(kKind, MakeSavedTable);

struct Hash : TableKind {
  explicit Hash(KernelInit& init) : TableKind(init, kKind) {}
};

const state::OpForms op(kKind, "HashTableV2", state::OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
  op.Output(StrCat("table_handle: ", handle))
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("use_node_name_sharing: bool = false")
      .Attr("key_dtype: type")
      .Attr("value_dtype: type")
      .Trait(OpTrait::kTableHandle)
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle")
      .Doc(
          "A table of one value for each key. InitializeTableV2 or InitializeTableFromTextFileV2 fills it; look-ups "
          "before that are FAILED_PRECONDITION.");
});
const state::KernelForms<state::HandleOf<Hash>> kernel(kKind, "HashTableV2");

}  // namespace
}  // namespace troupe::table
