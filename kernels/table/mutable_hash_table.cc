// MutableHashTable, MutableHashTableOfTensors and their V2 forms: tables that change.
#include "kernels/table/table.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::table {
namespace {

constexpr char kScalars[] = "MutableHashTable", kTensors[] = "MutableHashTableOfTensors";
const ResourceKind saved_scalars(kScalars, MakeSavedTable), saved_tensors(kTensors, MakeSavedTable);

struct OfScalars : TableKind {
  explicit OfScalars(KernelInit& init) : TableKind(init, kScalars) {}
};
struct OfTensors : TableKind {
  explicit OfTensors(KernelInit& init) : TableKind(init, kTensors) {}
};

OpBuilder& Attrs(OpBuilder& op, std::string_view handle) {
  return op.Output(StrCat("table_handle: ", handle))
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Attr("use_node_name_sharing: bool = false")
      .Attr("key_dtype: type")
      .Attr("value_dtype: type")
      .Trait(OpTrait::kTableHandle)
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle");
}

const state::OpForms scalars(kScalars, "MutableHashTableV2", state::OpForms::kMakes,
                             [](OpBuilder& op, std::string_view handle) {
                               Attrs(op, handle)
                                   .Doc(
                                       "A table of one value for each key, empty at first. It changes by "
                                       "LookupTableInsertV2, LookupTableRemoveV2 and LookupTableImportV2.");
                             });
const state::OpForms tensors(kTensors, "MutableHashTableOfTensorsV2", state::OpForms::kMakes,
                             [](OpBuilder& op, std::string_view handle) {
                               Attrs(op, handle)
                                   .Attr("value_shape: shape = {}")
                                   .Doc("MutableHashTableV2, whose values are vectors of `value_shape`.");
                             });
const state::KernelForms<state::HandleOf<OfScalars>> scalars_kernel(kScalars, "MutableHashTableV2");
const state::KernelForms<state::HandleOf<OfTensors>> tensors_kernel(kTensors, "MutableHashTableOfTensorsV2");

}  // namespace
}  // namespace troupe::table
