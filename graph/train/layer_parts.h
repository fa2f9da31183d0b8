// What the files of layers share.
//
// Thread rule: as for the scope, one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_LAYER_PARTS_H_
#define TROUPE_GRAPH_TRAIN_LAYER_PARTS_H_

#include <string_view>
#include <vector>

#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/train/layers.h"

namespace troupe::layers {

// `o` is a LayerOptions or a NormOptions.
template <class Options>
Variable MakeVariable(const Scope& s, const char* name, const init::Initializer& initializer, const TensorShape& shape,
                      DType dtype, const Options& o) {
  if (initializer == nullptr) {
    s.UpdateStatus(InvalidArgument("the initializer of '", name, "' of a layer is a function without a target"));
    return {};
  }
  VariableOptions v;
  v.trainable = o.trainable;
  v.use_resource = o.use_resource;
  v.collections = o.collections;
  return Variable(s.WithOpName(name), initializer(s.NewSubScope(StrCat(name, "/Initializer")), shape, dtype), v);
}

inline Output Activated(const Scope& s, const Output& x, const LayerOptions& o) {
  return o.activation.empty() ? x : train::Build(s, o.activation, {x});
}

// The last dimension of x, or -1 and the scope's error. `rank` 0: any rank of 2 or more.
inline int64_t LastDim(const ScopeAt& at, const Output& x, int rank, const char* layer) {
  if (!at.ok()) return -1;
  const PartialTensorShape shape = at->ShapeOf(x);
  const bool fits = shape.known_rank() && (rank > 0 ? shape.rank() == rank : shape.rank() >= 2);
  if (fits && shape.dim(shape.rank() - 1) > 0) return shape.dim(shape.rank() - 1);
  at.Fail(InvalidArgument(layer, " needs an input of ",
                          rank > 0 ? StrCat("rank ", rank) : std::string("rank 2 or more"),
                          " whose last dimension is known, but '", x.name(), "' has shape ", shape.DebugString()));
  return -1;
}

inline Output Ints(const Scope& s, std::vector<int32_t> values) { return Const(s, Literal(values)); }
inline Output Concat(const Scope& s, const OutputList& parts, int32_t axis) {
  return EmitLists(s, "ConcatV2", {InputList(parts), InputList({Input(axis)})}).output(0);
}
// Dimension `i` of a value of the step, as a vector of one number; a constant where it is known.
inline Output DimOf(const Scope& s, const Output& x, int32_t i) {
  const PartialTensorShape shape = s.ShapeOf(x);
  if (s.ok() && shape.known_rank() && i < shape.rank() && shape.dim(i) >= 0 && shape.dim(i) <= INT32_MAX)
    return Ints(s, {static_cast<int32_t>(shape.dim(i))});
  return train::Build(s, "Slice", {train::Build(s, "Shape", {x}), Ints(s, {i}), Ints(s, {1})});
}

}  // namespace troupe::layers

#endif  // TROUPE_GRAPH_TRAIN_LAYER_PARTS_H_
