// Constants: tensors that are written in the program.
//
//   Output scalar = Const(scope, 1.5f);                  // float32 []
//   Output matrix = Const(scope, {{1, 2}, {3, 4}});      // int32 [2,2]
//   Output doubles = Const<double>(scope, {1, 2, 3});    // the elements converted to float64
//   Output any = Const(scope, tensor);                   // a tensor of any dtype and shape
//   Output w = Const(scope.WithOpName("w"), 0.0f, TensorShape({784, 10}));  // one value in every element
//
// A literal keeps its C++ type (int -> int32, double -> float64, "text" -> string) unless a dtype
// is given. Ragged or mixed lists, and values that the dtype cannot represent, are the scope's
// error.
//
// Source of the semantics: tf.constant. The types of literals are those of C++: an int is int32, as
// in Python, but a double is float64, where Python's numbers become float32.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_CONST_H_
#define TROUPE_CONST_H_

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

Output Const(const ScopeAt& at, const Literal& value);
Output Const(const ScopeAt& at, const Literal& value, DType dtype);
template <LiteralElement T>
Output Const(const ScopeAt& at, const Literal& value) {
  return Const(at, value, kDTypeOf<T>);
}
// A scalar spread over `shape`, or as many values as it has elements.
Output Const(const ScopeAt& at, const Literal& value, const TensorShape& shape);

}  // namespace troupe

#endif  // TROUPE_CONST_H_
