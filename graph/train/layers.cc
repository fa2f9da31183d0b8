#include "troupe/train/layers.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::layers {
namespace {

using train::Build;

Variable MakeVariable(const Scope& s, const char* name, const init::Initializer& initializer, const TensorShape& shape,
                      DType dtype, const LayerOptions& o) {
  VariableOptions v;
  v.trainable = o.trainable;
  v.use_resource = o.use_resource;
  v.collections = o.collections;
  return Variable(s.WithOpName(name), initializer(s.NewSubScope(StrCat(name, "/Initializer")), shape, dtype), v);
}

Output Activated(const Scope& s, const Output& x, const LayerOptions& o) {
  return o.activation.empty() ? x : Build(s, o.activation, {x});
}

// The last dimension of x, or the scope's error.
int64_t LastDim(const ScopeAt& at, const Output& x, int rank, const char* layer) {
  if (!at.ok()) return -1;
  const PartialTensorShape shape = at->ShapeOf(x);
  const bool fits = shape.known_rank() && (rank > 0 ? shape.rank() == rank : shape.rank() >= 2);
  if (fits && shape.dim(shape.rank() - 1) > 0) return shape.dim(shape.rank() - 1);
  at.Fail(InvalidArgument(layer, " needs an input of ",
                          rank > 0 ? StrCat("rank ", rank) : std::string("rank 2 or more"),
                          " whose last dimension is known, but '", x.name(), "' has shape ", shape.DebugString()));
  return -1;
}

}  // namespace

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

Output Conv2D(const ScopeAt& at, const Output& x, int64_t filters, std::array<int64_t, 2> window,
              const ConvOptions& options) {
  const int64_t channels = LastDim(at, x, 4, "Conv2D");
  if (channels < 0) return {};
  const Scope s = at.Sub("conv2d");
  const DType dtype = BaseType(x.dtype());
  const Variable kernel =
      MakeVariable(s, "kernel", options.kernel_initializer, {window[0], window[1], channels, filters}, dtype, options);
  Output y = Build(s, "Conv2D", {x, kernel},
                   {{"strides", std::vector<int64_t>{1, options.strides[0], options.strides[1], 1}},
                    {"dilations", std::vector<int64_t>{1, options.dilations[0], options.dilations[1], 1}},
                    {"padding", options.padding}});
  if (options.use_bias)
    y = Build(s, "BiasAdd", {y, MakeVariable(s, "bias", options.bias_initializer, {filters}, dtype, options)});
  return Activated(s, y, options);
}

Output MaxPool2D(const ScopeAt& at, const Output& x, std::array<int64_t, 2> window, std::array<int64_t, 2> strides,
                 std::string_view padding) {
  return Build(at, "MaxPool", {x},
               {{"ksize", std::vector<int64_t>{1, window[0], window[1], 1}},
                {"strides", std::vector<int64_t>{1, strides[0], strides[1], 1}},
                {"padding", padding}});
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
  const DType dtype = BaseType(x.dtype());
  AttrMap attrs = {{"dtype", dtype}};
  if (seed != 0) {
    attrs.Set("seed", int64_t{87654321});
    attrs.Set("seed2", seed);
  }
  const Output random = Build(s, "RandomUniform", {Build(s, "Shape", {x})}, std::move(attrs));
  const Output keep = Build(s, "GreaterEqual", {random, rate});
  const Output kept = Build(s, "Mul", {Build(s, "Mul", {x, 1.0 / (1.0 - rate)}), train::CastTo(s, keep, dtype)});
  if (training.literal() != nullptr) return kept;
  // A scalar of the graph decides: both are cheap, so both are computed.
  return Build(s, "SelectV2", {training, kept, x});
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
