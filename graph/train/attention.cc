// Attention: sums of values, weighted by how well keys fit queries.
#include <cmath>

#include "graph/train/layer_parts.h"

namespace troupe::layers {
namespace {

using train::Build;

// [0, 1, ... n - 1] of dimension `from_end` of x, counted from the last one.
Output Positions(const Scope& s, const Output& x, int32_t from_end) {
  const PartialTensorShape shape = s.ShapeOf(x);
  if (s.ok() && shape.known_rank() && shape.dim(shape.rank() - from_end) >= 0) {
    std::vector<int32_t> all(shape.dim(shape.rank() - from_end));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    return Ints(s, all);
  }
  const Output size =
      Build(s, "StridedSlice", {Build(s, "Shape", {x}), Ints(s, {-from_end}), Ints(s, {1 - from_end}), Ints(s, {1})},
            {{"shrink_axis_mask", 1}, {"end_mask", from_end == 1 ? 1 : 0}});
  return Build(s, "Range", {0, size, 1});
}

}  // namespace

Output DotProductAttention(const ScopeAt& at, const Output& query, const Output& key, const Output& value,
                           const AttentionOptions& options) {
  const int64_t n = LastDim(at, query, 0, "DotProductAttention");
  if (n < 0) return {};
  const Scope s = at.Sub("attention");
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(n));
  // The queries are scaled, of which there are fewer numbers than products.
  Output fit = Build(s, "BatchMatMulV2", {Build(s, "Mul", {query, scale}), key}, {{"adj_y", true}});
  Output seen = options.mask;
  if (options.causal) {
    const Output early =
        Build(s, "LessEqual", {Positions(s, fit, 1), Build(s, "ExpandDims", {Positions(s, fit, 2), 1})});
    seen = seen.valid() ? Build(s, "LogicalAnd", {seen, early}) : early;
  }
  if (seen.valid()) {
    // No infinity: a query that sees nothing would give no number.
    const double low = BaseType(query.dtype()) == DType::kHalf ? -6e4 : -1e9;
    fit = Build(s, "SelectV2", {seen, fit, Const(s, low, BaseType(query.dtype()))});
  }
  return Build(s, "BatchMatMulV2", {Build(s, "Softmax", {fit}), value});
}

Output MultiHeadAttention(const ScopeAt& at, const Output& x, const Output& source, int64_t heads, int64_t head_size,
                          const MultiHeadOptions& options) {
  const int64_t n = LastDim(at, x, 3, "MultiHeadAttention");
  if (n < 0 || LastDim(at, source, 3, "MultiHeadAttention") < 0) return {};
  if (heads < 1 || head_size < 1) {
    at.Fail(InvalidArgument("MultiHeadAttention needs at least one head of at least one number, not ", heads, " of ",
                            head_size));
    return {};
  }
  const Scope s = at.Sub("multi_head_attention");
  LayerOptions linear = options;
  linear.activation.clear();
  // [batch, time, n] -> [batch, heads, time, head_size]
  const auto parted = [&](const char* name, const Output& from) {
    const Output all = Dense(s.WithOpName(name), from, heads * head_size, linear);
    const Output shape = Concat(
        s,
        {DimOf(s, from, 0), DimOf(s, from, 1), Ints(s, {static_cast<int32_t>(heads), static_cast<int32_t>(head_size)})},
        0);
    const Output cut = Build(s, "Reshape", {all, shape});
    if (cut.valid()) {
      const PartialTensorShape known = s.ShapeOf(from);
      s.SetShape(cut, {known.dim(0), known.dim(1), heads, head_size});
    }
    return Build(s, "Transpose", {cut, Ints(s, {0, 2, 1, 3})});
  };
  const Output q = parted("query", x), k = parted("key", source), v = parted("value", source);
  AttentionOptions inner;
  inner.mask = options.mask;
  inner.causal = options.causal;
  Output y = Build(s, "Transpose", {DotProductAttention(s, q, k, v, inner), Ints(s, {0, 2, 1, 3})});
  const Output joined =
      Concat(s, {DimOf(s, x, 0), DimOf(s, x, 1), Ints(s, {static_cast<int32_t>(heads * head_size)})}, 0);
  y = Build(s, "Reshape", {y, joined});
  if (y.valid()) s.SetShape(y, {s.ShapeOf(x).dim(0), s.ShapeOf(x).dim(1), heads * head_size});
  linear.activation = options.activation;
  return Dense(s.WithOpName("output"), y, options.width > 0 ? options.width : n, linear);
}

}  // namespace troupe::layers
