#include "troupe/indexed_slices.h"

#include "troupe/const.h"
#include "troupe/emit.h"

namespace troupe {
namespace {

Output Build(const Scope& s, std::string_view op, const std::vector<Input>& inputs, AttrMap attrs = {}) {
  return EmitOp(s, op, inputs, std::move(attrs)).output(0);
}

}  // namespace

std::optional<IndexedSlices> SlicesOf(const ScopeAt& at, const Output& x) {
  if (!at.ok() || !IsSlices(x.out())) return std::nullopt;
  const Scope s = at.Sub("slices");
  const auto input = [&](int i) { return Output(x.out().node->input(i), at->state()); };
  IndexedSlices slices = {input(0), input(1), {}};
  if (const PartialTensorShape shape = s.ShapeOf(x); shape.IsFullyDefined()) {
    const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    slices.dense_shape =
        Const(s.WithOpName("dense_shape"), Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims))));
  } else {
    const Output rows = Build(s, "Reshape", {Build(s, "Cast", {input(2)}, {{"DstT", DType::kInt64}}), Const(s, {1})});
    const Output whole = Build(s, "Shape", {slices.values}, {{"out_type", DType::kInt64}});
    const Output row = Build(s, "Slice", {whole, Const(s, {1}), Const(s, {-1})});
    slices.dense_shape =
        EmitLists(s.WithOpName("dense_shape"), "ConcatV2", {InputList({rows, row}), InputList({Input(0)})}).output(0);
  }
  return slices;
}

Output FromSlices(const ScopeAt& at, const IndexedSlices& slices) {
  const Scope s = at.Sub("from_slices");
  if (!s.ok()) return {};
  Output rows;
  PartialTensorShape shape;
  const NodeOut known = slices.dense_shape.out();
  const absl::StatusOr<Tensor> dims =
      known.valid() && known.node->IsConstant() ? known.node->Attr<Tensor>("value") : absl::NotFoundError("");
  if (dims.ok() && dims->dtype() == DType::kInt64 && dims->rank() == 1 && dims->num_elements() > 0) {
    rows = Const(s, dims->data<int64_t>()[0]);
    shape = PartialTensorShape(dims->flat<int64_t>());
  } else {
    rows = Build(s, "StridedSlice", {slices.dense_shape, Const(s, {0}), Const(s, {1}), Const(s, {1})},
                 {{"shrink_axis_mask", 1}});
  }
  const Output dense = Build(s, "UnsortedSegmentSum", {slices.values, slices.indices, rows}, {{kSlicesAttr, true}});
  if (s.ok() && shape.known_rank()) s.SetShape(dense, shape);
  return dense;
}

IndexedSlices SumDuplicates(const ScopeAt& at, const IndexedSlices& slices) {
  const Scope s = at.Sub("sum_duplicates");
  if (!s.ok()) return slices;
  const Operation unique = EmitOp(s, "Unique", {slices.indices});
  const Output rows = Build(s, "Size", {unique.output(0)});
  return {Build(s, "UnsortedSegmentSum", {slices.values, unique.output(1), rows}), unique.output(0),
          slices.dense_shape};
}

}  // namespace troupe
