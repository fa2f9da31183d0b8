// Decompositions of one dense matrix, behind a wall: Eigen computes them, in one file a type, and
// nobody who includes this pays for it.
//
// Matrices are n x n unless said otherwise, row-major and without gaps; n may be 0. T is float,
// double or a complex of one. False means that the matrix is singular; what was written then is not
// to be read. Inputs and outputs must not overlap.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_LINALG_DECOMPOSITIONS_H_
#define TROUPE_KERNELS_LINALG_DECOMPOSITIONS_H_

#include <complex>
#include <cstdint>

namespace troupe::linalg {

template <class T>
struct RealPart {
  using Type = T;
};
template <class T>
struct RealPart<std::complex<T>> {
  using Type = T;
};
template <class T>
using RealOf = typename RealPart<T>::Type;

// The lower triangle L, zeros above it, with L L^H = a. Only the lower triangle of `a` is read. NaN
// in the whole triangle when `a` is not positive definite.
template <class T>
void Cholesky(const T* a, int64_t n, T* l);
// d(loss)/d(a) from l = Cholesky(a) and grad = d(loss)/d(l): a symmetric matrix. T is real.
template <class T>
void CholeskyGradient(const T* l, const T* grad, int64_t n, T* out);

// The inverse of `a`, or of its adjoint.
template <class T>
bool Inverse(const T* a, int64_t n, bool adjoint, T* out);
// x [n, columns] with a x = b, or a^H x = b.
template <class T>
bool Solve(const T* a, int64_t n, bool adjoint, const T* b, int64_t columns, T* x);
// The same where `a` is a triangle: what lies on the other side of its diagonal is not read. A zero
// on the diagonal gives infinities and NaN.
template <class T>
void SolveTriangular(const T* a, int64_t n, bool lower, bool adjoint, const T* b, int64_t columns, T* x);

// The logarithm of the magnitude of the determinant, and its sign (of a complex determinant the
// number of magnitude 1 in its direction). A singular matrix has -inf and sign 0, one without
// elements 0 and 1. NaN gives NaN; an infinity gives what comes of it.
template <class T>
RealOf<T> LogDeterminant(const T* a, int64_t n, T* sign);

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_DECOMPOSITIONS_H_
