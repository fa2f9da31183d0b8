// Arithmetic on Outputs: a + b, 2.0f * x, -x, i < 10.
//
// Nodes are built where the left operand was (or the right one, when the left is a literal): in its
// name scope, on its device, without its control dependencies and colocation. While a function of a
// Cond or While runs, nodes whose operands all come from outside are built in that function's
// scope, so that what is written in a branch runs in the branch.
//
// + is AddV2 (Add for strings), * is Mul, / is RealDiv for floating point and complex numbers and
// TruncateDiv (as C++) for integers; comparisons give bool tensors. An operand that no builder
// returned (one of an import, or any NodeOut) counts as built in the root scope over its graph; of
// several root scopes it is the first that was made, and none when that one is gone.
// Without a scope, when each operand is empty or of a graph over which no Scope lives, the result
// is an invalid Output; the scope that it is used in says why.
// There is no ==, which could be mistaken for "the same Output"; ops::Equal says what it means.
//
// Source of the semantics: the operators of tf.Tensor, but for the division of integers, which is
// C++'s. Operands broadcast as in NumPy; their types must be equal, literals follow. Errors are the
// scope's.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_OPERATORS_H_
#define TROUPE_OPERATORS_H_

#include <source_location>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

// An Output and the line that uses it.
class OutputAt {
 public:
  template <class T>
  requires std::derived_from<T, Output> OutputAt(
      const T& out, std::source_location here = std::source_location::current())  // NOLINT: an operand converts
      : out_(out), here_{here.file_name(), here.line()} {}
  const Output& out() const { return out_; }
  const SourceLocation& location() const { return here_; }

 private:
  Output out_;
  SourceLocation here_;
};

#define TROUPE_OUTPUT_OPERATOR(op)                          \
  Output operator op(const OutputAt& a, const OutputAt& b); \
  Output operator op(const OutputAt& a, const Literal& b);  \
  Output operator op(const Literal& a, const OutputAt& b);
TROUPE_OUTPUT_OPERATOR(+)
TROUPE_OUTPUT_OPERATOR(-)
TROUPE_OUTPUT_OPERATOR(*)
TROUPE_OUTPUT_OPERATOR(/)
TROUPE_OUTPUT_OPERATOR(<)
TROUPE_OUTPUT_OPERATOR(<=)
TROUPE_OUTPUT_OPERATOR(>)
TROUPE_OUTPUT_OPERATOR(>=)
#undef TROUPE_OUTPUT_OPERATOR
Output operator-(const OutputAt& a);
Output operator!(const OutputAt& a);

}  // namespace troupe

#endif  // TROUPE_OPERATORS_H_
