// The bodies of orthogonal.h; only orthogonal_*.cc include this, each for one type.
//
// Thread rule: pure functions, on the calling thread. ScopedDenormals changes how that thread
// computes, as long as the object lives.
#ifndef TROUPE_KERNELS_LINALG_ORTHOGONAL_INL_H_
#define TROUPE_KERNELS_LINALG_ORTHOGONAL_INL_H_

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <Eigen/SVD>
#include <algorithm>
#include <limits>

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

#include "kernels/linalg/decompositions.h"
#include "kernels/linalg/eigen_maps.h"
#include "kernels/linalg/orthogonal.h"

namespace troupe::linalg {

// Kernels run with denormals flushed to zero; the iteration for singular values counts on them.
class ScopedDenormals {
 public:
#if defined(__x86_64__) || defined(_M_X64)
  ScopedDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~0x8040u); }
  ~ScopedDenormals() { _mm_setcsr(saved_); }

 private:
  const unsigned saved_;
#elif defined(__aarch64__)
  ScopedDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(saved_ & ~(uint64_t{1} << 24)));
  }
  ~ScopedDenormals() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  uint64_t saved_;
#endif
};

template <class T>
void Qr(const T* a, int64_t rows, int64_t columns, bool full, T* q, T* r) {
  const int64_t height = full ? rows : std::min(rows, columns);
  if (rows == 0) return;
  if (columns == 0) {
    Out(q, rows, height).setIdentity();
    return;
  }
  const Eigen::HouseholderQR<Matrix<T>> qr(In(a, rows, columns));
  Matrix<T> columns_of_q = Matrix<T>::Identity(rows, height);
  columns_of_q.applyOnTheLeft(qr.householderQ());
  Out(q, rows, height) = columns_of_q;
  Out(r, height, columns) = qr.matrixQR().topRows(height).template triangularView<Eigen::Upper>();
}

// By Jacobi's rotations: the method that divides the matrix is faster from some hundred rows on,
// but its templates would take a minute of compile time for each type.
template <class T>
void Svd(const T* a, int64_t rows, int64_t columns, bool full, T* s, T* u, T* v) {
  const int64_t k = std::min(rows, columns), of_u = full ? rows : k, of_v = full ? columns : k;
  if (k == 0) {
    if (u != nullptr) {
      Out(u, rows, of_u).setIdentity();
      Out(v, columns, of_v).setIdentity();
    }
    return;
  }
  if (!In(a, rows, columns).allFinite()) {
    const auto nan = T(std::numeric_limits<RealOf<T>>::quiet_NaN());
    std::fill_n(s, k, nan);
    if (u == nullptr) return;
    std::fill_n(u, rows * of_u, nan);
    std::fill_n(v, columns * of_v, nan);
    return;
  }
  const ScopedDenormals denormals;
  const unsigned vectors = u == nullptr ? 0u
                           : full       ? unsigned{Eigen::ComputeFullU} | unsigned{Eigen::ComputeFullV}
                                        : unsigned{Eigen::ComputeThinU} | unsigned{Eigen::ComputeThinV};
  const Eigen::JacobiSVD<Matrix<T>> svd(In(a, rows, columns), vectors);
  Out(s, k, 1) = svd.singularValues().template cast<T>();
  if (u == nullptr) return;
  Out(u, rows, of_u) = svd.matrixU();
  Out(v, columns, of_v) = svd.matrixV();
}

template <class T>
bool SelfAdjointEigen(const T* a, int64_t n, T* e, T* v) {
  if (n == 0) return true;
  const Eigen::SelfAdjointEigenSolver<Matrix<T>> eigen(
      In(a, n, n), v != nullptr ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  if (eigen.info() != Eigen::Success) return false;
  Out(e, n, 1) = eigen.eigenvalues().template cast<T>();
  if (v != nullptr) Out(v, n, n) = eigen.eigenvectors();
  return true;
}

template <class T>
bool LeastSquares(const T* a, int64_t rows, int64_t columns, bool fast, double l2, const T* b, int64_t count, T* x) {
  auto solution = Out(x, columns, count);
  if (rows == 0 || columns == 0 || count == 0) {
    solution.setZero();
    return true;
  }
  const Matrix<T> m = In(a, rows, columns);
  if (!fast) {
    // Eigen has no singular values then, and reads what it has not written.
    if (!m.allFinite()) {
      std::fill_n(x, columns * count, T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
      return true;
    }
    const ScopedDenormals denormals;
    solution = Eigen::JacobiSVD<Matrix<T>>(m, unsigned{Eigen::ComputeThinU} | unsigned{Eigen::ComputeThinV})
                   .solve(In(b, rows, count));
    return true;
  }
  // Of A^H A for many equations, of A A^H for few.
  const bool tall = rows >= columns;
  Matrix<T> gram = Matrix<T>::Zero(tall ? columns : rows, tall ? columns : rows);
  if (tall) {
    gram.template selfadjointView<Eigen::Lower>().rankUpdate(m.adjoint());
  } else {
    gram.template selfadjointView<Eigen::Lower>().rankUpdate(m);
  }
  if (l2 > 0) gram.diagonal().array() += T(static_cast<RealOf<T>>(l2));
  const Eigen::LLT<Matrix<T>, Eigen::Lower> llt(gram);
  if (llt.info() != Eigen::Success) return false;
  if (tall) {
    solution = llt.solve(m.adjoint() * In(b, rows, count));
  } else {
    solution = m.adjoint() * llt.solve(In(b, rows, count));
  }
  return true;
}

#define TROUPE_ORTHOGONAL(T)                                          \
  template void Qr<T>(const T*, int64_t, int64_t, bool, T*, T*);      \
  template void Svd<T>(const T*, int64_t, int64_t, bool, T*, T*, T*); \
  template bool SelfAdjointEigen<T>(const T*, int64_t, T*, T*);       \
  template bool LeastSquares<T>(const T*, int64_t, int64_t, bool, double, const T*, int64_t, T*)

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_ORTHOGONAL_INL_H_
