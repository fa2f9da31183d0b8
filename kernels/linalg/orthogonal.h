// Orthogonal decompositions of one dense matrix, and least squares, behind a wall as
// decompositions.h is.
//
// Matrices are row-major and without gaps; sizes may be 0. T is float, double or a complex of one.
// Of a matrix [rows, columns] let k be the smaller of its sizes. Vectors are unique up to a sign (a
// complex factor of magnitude 1); Eigen's choice is TensorFlow's.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_LINALG_ORTHOGONAL_H_
#define TROUPE_KERNELS_LINALG_ORTHOGONAL_H_

#include <complex>
#include <cstdint>

namespace troupe::linalg {

// a = q r with orthonormal columns q [rows, k] and an upper triangle r [k, columns]; `full`: q
// [rows, rows] and r [rows, columns].
template <class T>
void Qr(const T* a, int64_t rows, int64_t columns, bool full, T* q, T* r);

// a = u diag(s) v^H with s [k] descending, u [rows, k] and v [columns, k]; `full`: both square.
// Null u and v are not computed. A number that is not finite makes everything NaN.
template <class T>
void Svd(const T* a, int64_t rows, int64_t columns, bool full, T* s, T* u, T* v);

// a v = v diag(e) with e [n] ascending. Only the lower triangle of `a` is read. A null v is not
// computed. False when it does not converge.
template <class T>
bool SelfAdjointEigen(const T* a, int64_t n, T* e, T* v);

// The x [columns, count] that makes |a x - b|^2 + l2 |x|^2 the least, b [rows, count]. `fast`
// solves the normal equations: false when `a` has not got full rank. Otherwise of all solutions the
// smallest is found, whatever the rank, and l2 does not count; NaN when a number of `a` is not
// finite.
template <class T>
bool LeastSquares(const T* a, int64_t rows, int64_t columns, bool fast, double l2, const T* b, int64_t count, T* x);

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_ORTHOGONAL_H_
