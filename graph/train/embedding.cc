#include "troupe/train/embedding.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {
namespace {

// `number` in the type of the ids.
Output Like(const Scope& s, const Output& ids, int64_t number) { return Const(s, number, BaseType(ids.dtype())); }

}  // namespace

Output EmbeddingLookup(const ScopeAt& at, const Variable& table, const Output& ids) {
  const Scope s = at.Sub("embedding_lookup");
  if (!s.ok()) return {};
  // On the table's device: the rows travel, and not the table.
  const Scope there = s.ColocateWith(table.handle());
  if (table.is_resource()) {
    return Build(there, "ResourceGather", {table.handle(), ids}, {{"dtype", table.variable_dtype()}});
  }
  return Build(there, "GatherV2", {table.handle(), ids, 0});
}

Output EmbeddingLookup(const ScopeAt& at, const std::vector<Variable>& parts, const Output& ids, Parting parting) {
  const Scope s = at.Sub("embedding_lookup");
  if (!s.ok()) return {};
  if (parts.empty()) {
    at.Fail(InvalidArgument("EmbeddingLookup has no table to look into"));
    return {};
  }
  if (parts.size() == 1) return EmbeddingLookup(s, parts[0], ids);
  const auto k = static_cast<int64_t>(parts.size());
  const Output flat = Build(s, "Reshape", {ids, Const(s, {-1})});
  Output part, row;
  if (parting == Parting::kMod) {
    const Output count = Like(s, ids, k);
    part = Build(s, "FloorMod", {flat, count});
    row = Build(s, "FloorDiv", {flat, count});
  } else {
    int64_t rows = 0;
    for (const Variable& p : parts) {
      const PartialTensorShape& shape = p.variable_shape();
      if (!shape.known_rank() || shape.rank() < 1 || shape.dim(0) < 0) {
        at.Fail(InvalidArgument("the number of rows of '", p.variable_name(),
                                "' must be known for a lookup in runs of rows, but its shape is ",
                                shape.DebugString()));
        return {};
      }
      rows += shape.dim(0);
    }
    const int64_t each = rows / k, longer = rows % k;
    // The first `longer` parts have each + 1 rows; behind `edge` begin the others.
    const Output edge = Like(s, ids, longer * (each + 1)), length = Like(s, ids, each + 1);
    const Output rest = Build(s, "Sub", {flat, edge});
    const Output shorter = Like(s, ids, std::max<int64_t>(each, 1));
    const Output early = Build(s, "Less", {flat, edge});
    part = Build(s, "Select",
                 {early, Build(s, "FloorDiv", {flat, length}),
                  Build(s, "AddV2", {Build(s, "FloorDiv", {rest, shorter}), Like(s, ids, longer)})});
    row = Build(s, "Select", {early, Build(s, "FloorMod", {flat, length}), Build(s, "FloorMod", {rest, shorter})});
  }
  const Output which = CastTo(s, part, DType::kInt32);
  const AttrMap number = {{"num_partitions", k}};
  const Operation rows_of = EmitOp(s, "DynamicPartition", {row, which}, number);
  const Output places = Build(s, "Range", {0, Build(s, "Size", {flat}), 1});
  const Operation places_of = EmitOp(s, "DynamicPartition", {places, which}, number);
  std::vector<Output> indices, values;
  for (int i = 0; i < static_cast<int>(k); ++i) {
    indices.push_back(places_of.output(i));
    values.push_back(EmbeddingLookup(s, parts[i], rows_of.output(i)));
  }
  const Output found = EmitLists(s, "DynamicStitch", {InputList(indices), InputList(values)}).output(0);
  // `ids` may have any shape, and the rows too.
  const Output row_shape = Build(s, "Slice", {Build(s, "Shape", {found}), Const(s, {1}), Const(s, {-1})});
  const Output shape =
      EmitLists(s, "ConcatV2", {InputList({Build(s, "Shape", {ids}), row_shape}), InputList({Input(0)})}).output(0);
  const Output result = Build(s, "Reshape", {found, shape});
  const PartialTensorShape of_ids = s.ShapeOf(ids), &of_table = parts[0].variable_shape();
  if (s.ok() && of_ids.known_rank() && of_table.known_rank()) {
    PartialTensorShape known = of_ids;
    for (int d = 1; d < of_table.rank(); ++d) known.AddDim(of_table.dim(d));
    s.SetShape(result, known);
  }
  return result;
}

Output EmbeddingLookupSparse(const ScopeAt& at, const std::vector<Variable>& parts, const SparseIds& ids,
                             const Output& weights, Combiner combiner, Parting parting) {
  const Scope s = at.Sub("embedding_lookup_sparse");
  if (!s.ok()) return {};
  const PartialTensorShape of_table = parts.empty() ? PartialTensorShape() : parts[0].variable_shape();
  if (!parts.empty() && (!of_table.known_rank() || of_table.rank() < 1)) {
    at.Fail(InvalidArgument("the rank of the table '", parts[0].variable_name(), "' must be known, but its shape is ",
                            of_table.DebugString()));
    return {};
  }
  Output found = EmbeddingLookup(s, parts, ids.values, parting);
  const auto entry = [&](const Output& of, std::vector<int32_t> begin, std::vector<int32_t> end, int64_t shrink,
                         int64_t masked) {
    const std::vector<int32_t> ones(begin.size(), 1);
    return Build(s, "StridedSlice", {of, Const(s, Literal(begin)), Const(s, Literal(end)), Const(s, Literal(ones))},
                 {{"shrink_axis_mask", shrink}, {"begin_mask", masked}, {"end_mask", masked}});
  };
  const Output row = entry(ids.indices, {0, 0}, {0, 1}, 2, 1), rows = entry(ids.dense_shape, {0}, {1}, 1, 0);
  const auto sum = [&](const Output& of) { return Build(s, "UnsortedSegmentSum", {of, row, rows}); };
  // A number for each id, or row, beside its vector.
  const auto beside = [&](const Output& numbers) {
    std::vector<int32_t> shape(of_table.rank(), 1);
    shape[0] = -1;
    return Build(s, "Reshape", {numbers, Const(s, Literal(shape))});
  };
  if (!s.ok()) return {};
  const DType dtype = BaseType(found.dtype());
  Output each = weights;
  if (each.valid()) {
    each = CastTo(s, each, dtype);
    found = Build(s, "Mul", {found, beside(each)});
  } else if (combiner != Combiner::kSum) {
    each = Build(s, "Fill", {Build(s, "Shape", {ids.values}), Const(s, 1, dtype)});
  }
  Output result = sum(found);
  if (combiner == Combiner::kMean) result = Build(s, "DivNoNan", {result, beside(sum(each))});
  if (combiner == Combiner::kSqrtN) {
    result = Build(s, "DivNoNan", {result, beside(Build(s, "Sqrt", {sum(Build(s, "Square", {each}))}))});
  }
  return result;
}

}  // namespace troupe::train
