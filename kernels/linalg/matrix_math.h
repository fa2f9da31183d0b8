// Matrices in gradients that read like their formulas: what math::Value lacks, for tensors whose
// last two dimensions are matrices.
//
// Thread rule: as for the GradientContext of the values: one thread builds a graph.
#ifndef TROUPE_KERNELS_LINALG_MATRIX_MATH_H_
#define TROUPE_KERNELS_LINALG_MATRIX_MATH_H_

#include "kernels/common/grad_math.h"
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {

using math::Value;

inline Value MatMul(const Value& a, const Value& b) { return {a.g, Product(*a.g, a.out, b.out)}; }
// a^H b and a b^H.
inline Value AdjointMatMul(const Value& a, const Value& b) { return {a.g, Product(*a.g, a.out, b.out, true, false)}; }
inline Value MatMulAdjoint(const Value& a, const Value& b) { return {a.g, Product(*a.g, a.out, b.out, false, true)}; }
inline Value Adjoint(const Value& a) { return {a.g, Adjoint(*a.g, a.out)}; }

inline Value Diagonal(const Value& a) { return math::Apply("MatrixDiagPart", a); }
inline Value DiagonalMatrix(const Value& v) { return math::Apply("MatrixDiag", v); }
inline Value WithDiagonal(const Value& a, const Value& v) { return math::Apply("MatrixSetDiag", a, v); }
// With zeros above the diagonal.
Value LowerTriangle(const Value& a);
// Columns `begin` to `end`; those from `begin` on when `end` is -1.
Value Columns(const Value& a, int64_t begin, int64_t end);
// The columns of a in front of those of b.
Value SideBySide(const Value& a, const Value& b);

// 1 / x, near 0 when x is 0.
Value SafeReciprocal(const Value& x);
// 1 / (v[j] - v[i]) at [i, j], 0 on the diagonal: infinitely large where two numbers are equal, but
// for SafeReciprocal.
Value ReciprocalDifferences(const Value& v);

// x where a x = b, for a triangle a.
Value SolveTriangle(const Value& a, const Value& b, bool lower, bool adjoint = false);

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_MATRIX_MATH_H_
