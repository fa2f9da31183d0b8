#include "troupe/train/layers.h"

#include "graph/train/build.h"
#include "graph/train/layer_parts.h"
#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/train/embedding.h"

namespace troupe::layers {

using train::Build;

Output Dense(const ScopeAt& at, const Output& x, int64_t units, const LayerOptions& options) {
  const int64_t n = LastDim(at, x, 0, "Dense");
  if (n < 0) return {};
  const Scope s = at.Sub("dense");
  const DType dtype = BaseType(x.dtype());
  const Variable kernel = MakeVariable(s, "kernel", options.kernel_initializer, {n, units}, dtype, options);
  const PartialTensorShape shape = s.ShapeOf(x);
  Output y;
  if (shape.rank() == 2) {
    y = Build(s, "MatMul", {x, kernel});
  } else {
    // One product over all leading dimensions.
    y = Build(s, "MatMul", {Build(s, "Reshape", {x, Const(s, Literal({int64_t{-1}, n}))}), kernel});
    const Output lead =
        Build(s, "StridedSlice",
              {Build(s, "Shape", {x}), Const(s, Literal({0})), Const(s, Literal({-1})), Const(s, Literal({1}))},
              {{"begin_mask", 1}});
    const Output end = Const(s, Literal({static_cast<int32_t>(units)}));
    y = Build(s, "Reshape", {y, EmitLists(s, "ConcatV2", {InputList({lead, end}), InputList({Input(0)})}).output(0)});
    PartialTensorShape known = shape;
    known.set_dim(shape.rank() - 1, units);
    s.SetShape(y, known);
  }
  if (options.use_bias)
    y = Build(s, "BiasAdd", {y, MakeVariable(s, "bias", options.bias_initializer, {units}, dtype, options)});
  return Activated(s, y, options);
}

Output Dropout(const ScopeAt& at, const Output& x, double rate, const Input& training, int64_t seed) {
  if (!(rate >= 0 && rate < 1)) {
    at.Fail(InvalidArgument("the rate of Dropout must lie in [0, 1), but is ", rate));
    return {};
  }
  const Scope s = at.Sub("dropout");
  if (training.literal() != nullptr && training.literal()->value().dtype() == DType::kBool &&
      !training.literal()->value().scalar<bool>()) {
    return Build(s, "Identity", {x});
  }
  const auto dropped = [&](const Scope& in) {
    const DType dtype = BaseType(x.dtype());
    AttrMap attrs = {{"dtype", dtype}};
    if (seed != 0) {
      attrs.Set("seed", int64_t{87654321});
      attrs.Set("seed2", seed);
    }
    const Output random = Build(in, "RandomUniform", {Build(in, "Shape", {x})}, std::move(attrs));
    const Output keep = Build(in, "GreaterEqual", {random, rate});
    return Build(in, "Mul", {Build(in, "Mul", {x, 1.0 / (1.0 - rate)}), train::CastTo(in, keep, dtype)});
  };
  if (training.literal() != nullptr) return dropped(s);
  // Numbers are drawn in training alone, so that a test in between changes nothing of it.
  return Cond(s, training, dropped, [&](const Scope& in) { return Build(in, "Identity", {x}); });
}

Output Embedding(const ScopeAt& at, const Output& ids, int64_t rows, int64_t width, const EmbeddingOptions& options) {
  const Scope s = at.Sub("embedding");
  if (!s.ok()) return {};
  if (rows < 1 || width < 1) {
    at.Fail(InvalidArgument("Embedding needs a table of at least one row and column, not [", rows, ",", width, "]"));
    return {};
  }
  LayerOptions o;
  o.trainable = options.trainable;
  o.use_resource = options.use_resource;
  o.collections = options.collections;
  return train::EmbeddingLookup(s, MakeVariable(s, "embeddings", options.initializer, {rows, width}, DType::kFloat, o),
                                ids);
}

Output Flatten(const ScopeAt& at, const Output& x) {
  const Scope s = at.Sub("flatten");
  if (!s.ok()) return {};
  const PartialTensorShape shape = s.ShapeOf(x);
  int64_t n = shape.known_rank() && shape.rank() >= 1 ? 1 : -1;
  for (int i = 1; n >= 0 && i < shape.rank(); ++i) n = shape.dim(i) < 0 ? -1 : n * shape.dim(i);
  if (n > 0) return Build(s, "Reshape", {x, Const(s, Literal({int64_t{-1}, n}))});
  const Output dims = Build(s, "Shape", {x});
  const Output batch =
      Build(s, "StridedSlice", {dims, Const(s, Literal({0})), Const(s, Literal({1})), Const(s, Literal({1}))});
  // Not -1 for the rest: it could not be told from the batch when that is empty.
  const Output tail =
      Build(s, "StridedSlice", {dims, Const(s, Literal({1})), Const(s, Literal({0})), Const(s, Literal({1}))},
            {{"end_mask", 1}});
  const Output size = Build(s, "Prod", {tail, Const(s, Literal({0}))}, {{"keep_dims", true}});
  return Build(s, "Reshape",
               {x, EmitLists(s, "ConcatV2", {InputList({batch, size}), InputList({Input(0)})}).output(0)});
}

}  // namespace troupe::layers
