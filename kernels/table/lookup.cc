// LookupTableFind, Insert, Remove, Size, Export, Import, InitializeTable and their V2 forms.
#include "kernels/table/table.h"
#include "troupe/shape_inference.h"

namespace troupe::table {
namespace {

using Kind = TableRequest::Kind;

template <class F>
absl::StatusOr<TableRequestPtr> Ask(KernelContext& ctx, Kind kind, F&& fill) {
  return state::AskAs<Table, TableRequest>(ctx, [&](const Table& table, TableRequest* request) {
    request->kind = kind;
    return fill(table.spec(), request);
  });
}

absl::Status Find(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(
      const TableRequestPtr r, Ask(ctx, Kind::kFind, [&](const TableSpec& spec, TableRequest* q) {
        q->keys = ctx.input(1);
        q->values = ctx.input(2);
        return [&]() -> absl::Status {
          TROUPE_ASSIGN_OR_RETURN(const TensorShape rows, spec.CheckKeys(q->keys));
          if (q->values.dtype() != spec.value_type) return spec.CheckValues(rows, q->values);
          if (q->values.shape() != spec.value_shape && q->values.shape() != Joined(rows, spec.value_shape)) {
            return InvalidArgument("the default value for ", spec.What(), " must have shape ",
                                   spec.value_shape.DebugString(), " or ", Joined(rows, spec.value_shape).DebugString(),
                                   ", but has ", q->values.shape().DebugString());
          }
          TROUPE_ASSIGN_OR_RETURN(q->found, ctx.AllocateTemp(spec.value_type, Joined(rows, spec.value_shape)));
          return absl::OkStatus();
        }();
      }));
  ctx.set_output(0, std::move(r->found));
  return absl::OkStatus();
}

// Of keys in input 1 and values in input 2.
template <Kind kind>
absl::Status PutIn(KernelContext& ctx) {
  return Ask(ctx, kind,
             [&](const TableSpec& spec, TableRequest* q) -> absl::Status {
               q->keys = ctx.input(1);
               q->values = ctx.input(2);
               TROUPE_ASSIGN_OR_RETURN(const TensorShape rows, spec.CheckKeys(q->keys));
               return spec.CheckValues(rows, q->values);
             })
      .status();
}

absl::Status Remove(KernelContext& ctx) {
  return Ask(ctx, Kind::kRemove,
             [&](const TableSpec& spec, TableRequest* q) {
               q->keys = ctx.input(1);
               return spec.CheckKeys(q->keys).status();
             })
      .status();
}

absl::Status Size(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const TableRequestPtr r,
                          Ask(ctx, Kind::kSize, [](const TableSpec&, TableRequest*) { return absl::OkStatus(); }));
  ctx.set_output(0, Tensor::Scalar(r->size));
  return absl::OkStatus();
}

absl::Status Export(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const TableRequestPtr r,
                          Ask(ctx, Kind::kExport, [&](const TableSpec& spec, TableRequest*) -> absl::Status {
                            if (ctx.output_type(0) == spec.key_type && ctx.output_type(1) == spec.value_type)
                              return absl::OkStatus();
                            return InvalidArgument(spec.What(), " has keys of ", Name(spec.key_type), " and values of ",
                                                   Name(spec.value_type), ", not of ", Name(ctx.output_type(0)),
                                                   " and ", Name(ctx.output_type(1)));
                          }));
  ctx.set_output(0, std::move(r->keys));
  ctx.set_output(1, std::move(r->found));
  return absl::OkStatus();
}

// Keys and values of a table that are put in together: as many of both.
absl::Status PutInShape(InferenceContext& c) {
  const PartialTensorShape &keys = c.input(1), &values = c.input(2);
  for (int d = 0; keys.known_rank() && values.known_rank() && d < std::min(keys.rank(), values.rank()); ++d) {
    if (keys.dim(d) >= 0 && values.dim(d) >= 0 && keys.rank() <= values.rank() && keys.dim(d) != values.dim(d)) {
      return InvalidArgument("there are keys of shape ", keys.DebugString(), " and values of shape ",
                             values.DebugString());
    }
  }
  return absl::OkStatus();
}

absl::Status InitializeShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  return c.input(1).MergeWith(c.input(2)).status();
}

// Known where each key has one number or text as its value: the table's op has no attr for the
// shape of a value then.
absl::Status FindShape(InferenceContext& c) {
  const Node* const table = state::HandleNode(c, 0);
  const bool scalars =
      table != nullptr && table->op().Has(OpTrait::kTableHandle) && table->op().FindAttr("value_shape") == nullptr;
  c.set_output(0, scalars ? c.input(1) : PartialTensorShape());
  return absl::OkStatus();
}

using state::OpForms;
constexpr OpForms::Role kUses = OpForms::kUses;
constexpr char kNoOutputs[] = "it has no outputs";

void DefinePutIn(OpBuilder& op, std::string_view handle, std::string_view doc) {
  op.Input(StrCat("table_handle: ", handle))
      .Input("keys: Tin")
      .Input("values: Tout")
      .Attr("Tin: type")
      .Attr("Tout: type")
      .Shape(PutInShape)
      .NotDifferentiable(kNoOutputs)
      .Doc(doc);
}

const OpForms find("LookupTableFind", "LookupTableFindV2", kUses, [](OpBuilder& op, std::string_view handle) {
  op.Input(StrCat("table_handle: ", handle))
      .Input("keys: Tin")
      .Input("default_value: Tout")
      .Output("values: Tout")
      .Attr("Tin: type")
      .Attr("Tout: type")
      .Shape(FindShape)
      .Trait(OpTrait::kNoEffect)
      .NotDifferentiable("what is in a table was computed by another step")
      .Doc(
          "The values of `keys` in the table. `default_value` stands for keys that it does not have: one value for "
          "all, or as many as there are keys.");
});
const OpForms insert("LookupTableInsert", "LookupTableInsertV2", kUses, [](OpBuilder& op, std::string_view handle) {
  DefinePutIn(op, handle,
              "Puts `values` into the table, one for each of the `keys`; what these had before is replaced. Others see "
              "all of them or none.");
});
const OpForms import("LookupTableImport", "LookupTableImportV2", kUses, [](OpBuilder& op, std::string_view handle) {
  DefinePutIn(op, handle, "Makes the table hold these `keys` and `values`, and nothing else.");
});
const OpForms initialize("InitializeTable", "InitializeTableV2", kUses, [](OpBuilder& op, std::string_view handle) {
  op.Input(StrCat("table_handle: ", handle))
      .Input("keys: Tkey")
      .Input("values: Tval")
      .Attr("Tkey: type")
      .Attr("Tval: type")
      .Shape(InitializeShape)
      .NotDifferentiable(kNoOutputs)
      .Doc(
          "Fills a HashTableV2. A key that comes twice with different values is FAILED_PRECONDITION. A table that is "
          "filled already stays as it is; another number of keys than it has is FAILED_PRECONDITION, too.");
});
const OpForms size("LookupTableSize", "LookupTableSizeV2", kUses, [](OpBuilder& op, std::string_view handle) {
  op.Input(StrCat("table_handle: ", handle))
      .Output("size: int64")
      .Shape(shape_fn::Scalar)
      .Trait(OpTrait::kNoEffect)
      .NotDifferentiable("it counts")
      .Doc("How many keys the table has.");
});
const OpForms export_all("LookupTableExport", "LookupTableExportV2", kUses, [](OpBuilder& op, std::string_view handle) {
  op.Input(StrCat("table_handle: ", handle))
      .Output("keys: Tkeys")
      .Output("values: Tvalues")
      .Attr("Tkeys: type")
      .Attr("Tvalues: type")
      .Shape([](InferenceContext& c) {
        c.set_output(0, PartialTensorShape());
        c.set_output(1, PartialTensorShape());
        return absl::OkStatus();
      })
      .Trait(OpTrait::kNoEffect)
      .NotDifferentiable("what is in a table was computed by another step")
      .Doc("All keys of the table, in the order in which they came until one is removed, and their values.");
});
TROUPE_OP("LookupTableRemoveV2")
    .Input("table_handle: resource")
    .Input("keys: Tin")
    .Attr("Tin: type")
    .Stateful()
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable(kNoOutputs)
    .Doc("Takes `keys` out of the table; those that it does not have are passed over.");

template <class K>
using Forms = state::KernelForms<K>;
const Forms<state::KernelOf<Find>> find_kernel("LookupTableFind", "LookupTableFindV2");
const Forms<state::KernelOf<PutIn<Kind::kInsert>>> insert_kernel("LookupTableInsert", "LookupTableInsertV2");
const Forms<state::KernelOf<PutIn<Kind::kImport>>> import_kernel("LookupTableImport", "LookupTableImportV2");
const Forms<state::KernelOf<PutIn<Kind::kInitialize>>> initialize_kernel("InitializeTable", "InitializeTableV2");
const Forms<state::KernelOf<Size, Cost::kTrivial>> size_kernel("LookupTableSize", "LookupTableSizeV2");
const Forms<state::KernelOf<Export>> export_kernel("LookupTableExport", "LookupTableExportV2");
TROUPE_KERNEL("LookupTableRemoveV2").Device("CPU").Class<state::KernelOf<Remove>>();

}  // namespace
}  // namespace troupe::table
