// The bodies of decompositions.h; only decompositions_*.cc include this, each for one type.
//
// Thread rule: pure functions, on the calling thread.
#ifndef TROUPE_KERNELS_LINALG_DECOMPOSITIONS_INL_H_
#define TROUPE_KERNELS_LINALG_DECOMPOSITIONS_INL_H_

#include <Eigen/Core>
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/linalg/decompositions.h"
#include "kernels/linalg/eigen_maps.h"

namespace troupe::linalg {

// The decomposition with rows exchanged; singular when a pivot is 0 (or not a number).
template <class T>
class Lu {
 public:
  Lu(const T* a, int64_t n, bool adjoint) {
    Matrix<T> m = In(a, n, n);
    if (adjoint) m.adjointInPlace();
    lu_.compute(m);
  }
  bool singular() const { return !(lu_.matrixLU().diagonal().cwiseAbs().minCoeff() > RealOf<T>(0)); }
  const Eigen::PartialPivLU<Matrix<T>>& operator*() const { return lu_; }

 private:
  Eigen::PartialPivLU<Matrix<T>> lu_;
};

template <class T>
void Cholesky(const T* a, int64_t n, T* l) {
  if (n == 0) return;
  const Matrix<T> m = In(a, n, n);
  const Eigen::LLT<Matrix<T>, Eigen::Lower> llt(m);
  auto lower = Out(l, n, n);
  if (llt.info() == Eigen::Success) {
    lower = llt.matrixL();
  } else {
    lower.setZero();
    lower.template triangularView<Eigen::Lower>().fill(T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
  }
}

template <class T>
bool Inverse(const T* a, int64_t n, bool adjoint, T* out) {
  if (n == 0) return true;
  Matrix<T> one = Matrix<T>::Identity(n, n);
  return Solve(a, n, adjoint, one.data(), n, out);
}

template <class T>
bool Solve(const T* a, int64_t n, bool adjoint, const T* b, int64_t columns, T* x) {
  if (n == 0 || columns == 0) return true;
  const Lu<T> lu(a, n, adjoint);
  if (lu.singular()) return false;
  Out(x, n, columns).noalias() = (*lu).solve(In(b, n, columns));
  return true;
}

template <class T>
void SolveTriangular(const T* a, int64_t n, bool lower, bool adjoint, const T* b, int64_t columns, T* x) {
  const auto matrix = In(a, n, n);
  if (n == 0 || columns == 0) return;
  auto solution = Out(x, n, columns);
  solution = In(b, n, columns);
  if (lower && adjoint) {
    matrix.template triangularView<Eigen::Lower>().adjoint().solveInPlace(solution);
  } else if (lower) {
    matrix.template triangularView<Eigen::Lower>().solveInPlace(solution);
  } else if (adjoint) {
    matrix.template triangularView<Eigen::Upper>().adjoint().solveInPlace(solution);
  } else {
    matrix.template triangularView<Eigen::Upper>().solveInPlace(solution);
  }
}

template <class T>
RealOf<T> LogDeterminant(const T* a, int64_t n, T* sign) {
  using Real = RealOf<T>;
  [[maybe_unused]] constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
  *sign = T(1);
  if (n == 0) return 0;
  const Lu<T> lu(a, n, false);
  const Matrix<T>& triangles = (*lu).matrixLU();
  T s = static_cast<T>((*lu).permutationP().determinant());
  Real sum = 0;
  for (Eigen::Index i = 0; i < triangles.rows(); ++i) {
    const T pivot = triangles(i, i);
    const Real magnitude = std::abs(pivot);
    sum += std::log(magnitude);
    if constexpr (std::is_same_v<T, Real>) {
      s *= std::isnan(pivot) ? pivot : static_cast<Real>((pivot > 0) - (pivot < 0));
    } else {
      s *= magnitude == 0 ? T(0) : std::isfinite(magnitude) ? pivot / magnitude : T(kNan, kNan);
    }
  }
  *sign = s;
  return sum;
}

// Murray, "Differentiation of the Cholesky decomposition": with P = lower triangle of l^T grad, its
// diagonal halved, the gradient is the symmetric part of l^-T P l^-1.
template <class T>
void CholeskyGradient(const T* l, const T* grad, int64_t n, T* out) {
  if (n == 0) return;
  const auto lower = In(l, n, n).template triangularView<Eigen::Lower>();
  Matrix<T> p = Matrix<T>(lower).transpose() * In(grad, n, n).template triangularView<Eigen::Lower>();
  p.template triangularView<Eigen::StrictlyUpper>().setZero();
  p.diagonal() *= T(0.5);
  lower.transpose().solveInPlace(p);
  // p l^-1, as the transpose of l^-T p^T.
  Matrix<T> transposed = p.transpose();
  lower.transpose().solveInPlace(transposed);
  Out(out, n, n) = T(0.5) * (transposed + transposed.transpose());
}

#define TROUPE_DECOMPOSITIONS(T)                                                          \
  template void Cholesky<T>(const T*, int64_t, T*);                                       \
  template bool Inverse<T>(const T*, int64_t, bool, T*);                                  \
  template bool Solve<T>(const T*, int64_t, bool, const T*, int64_t, T*);                 \
  template void SolveTriangular<T>(const T*, int64_t, bool, bool, const T*, int64_t, T*); \
  template RealOf<T> LogDeterminant<T>(const T*, int64_t, T*)

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_DECOMPOSITIONS_INL_H_
