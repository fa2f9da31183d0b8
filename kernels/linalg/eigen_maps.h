// Plain arrays as matrices of Eigen. Only the files behind the walls of decompositions.h and
// orthogonal.h include this.
//
// Thread rule: pure functions; a map refers to the array of its caller.
#ifndef TROUPE_KERNELS_LINALG_EIGEN_MAPS_H_
#define TROUPE_KERNELS_LINALG_EIGEN_MAPS_H_

#include <Eigen/Core>
#include <cstdint>

namespace troupe::linalg {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
Eigen::Map<const Matrix<T>> In(const T* a, int64_t rows, int64_t columns) {
  return {a, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}
template <class T>
Eigen::Map<Matrix<T>> Out(T* a, int64_t rows, int64_t columns) {
  return {a, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns)};
}

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_EIGEN_MAPS_H_
