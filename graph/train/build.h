// Helpers with which graph/train builds nodes by name, so that its files need no generated header.
//
// Thread rule: as for the scope, one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_BUILD_H_
#define TROUPE_GRAPH_TRAIN_BUILD_H_

#include <string_view>
#include <utility>
#include <vector>

#include "troupe/emit.h"

namespace troupe::train {

// Output 0 of a new node.
inline Output Build(const ScopeAt& at, std::string_view op, const std::vector<Input>& inputs, AttrMap attrs = {}) {
  return EmitOp(at, op, inputs, std::move(attrs)).output(0);
}
// x as a `dtype`; x itself when it is one.
inline Output CastTo(const ScopeAt& at, const Output& x, DType dtype) {
  return !x.valid() || BaseType(x.dtype()) == dtype ? x : Build(at, "Cast", {x}, {{"DstT", dtype}});
}
// A number that goes with values of `dtype`: an Output is cast, a literal takes the type by itself.
inline Input As(const ScopeAt& at, const Input& x, DType dtype) {
  return x.literal() != nullptr ? x : Input(CastTo(at, x.out(), dtype));
}

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_BUILD_H_
