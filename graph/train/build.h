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

// The sum of tensors of one shape, by AddN, which refuses to broadcast; one alone is itself.
inline Output SumOf(const ScopeAt& at, const std::vector<Output>& parts) {
  return parts.size() == 1 ? parts[0] : EmitLists(at, "AddN", {InputList(parts)}).output(0);
}
// Behind each other along dimension 0; one alone is itself.
inline Output JoinRows(const ScopeAt& at, const std::vector<Output>& parts) {
  const Input axis(0);
  return parts.size() == 1 ? parts[0] : EmitLists(at, "ConcatV2", {InputList(parts), InputList({axis})}).output(0);
}

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_BUILD_H_
