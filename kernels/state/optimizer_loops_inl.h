// The loops of optimizer_loops.h as templates, for the two files that instantiate them. Everything
// has internal linkage, since one of them is compiled several times.
//
// Thread rule: as in optimizer_loops.h.
#ifndef TROUPE_KERNELS_STATE_OPTIMIZER_LOOPS_INL_H_
#define TROUPE_KERNELS_STATE_OPTIMIZER_LOOPS_INL_H_

#include <cmath>
#include <complex>

#include "kernels/state/optimizer_loops.h"
#include "troupe/half.h"

namespace troupe::state {
namespace {

inline float Root(float x) { return std::sqrt(x); }
inline double Root(double x) { return std::sqrt(x); }
template <class T>
inline std::complex<T> Root(std::complex<T> x) {
  return std::sqrt(x);
}
inline Half Root(Half x) { return Half(std::sqrt(static_cast<float>(x))); }
inline BFloat16 Root(BFloat16 x) { return BFloat16(std::sqrt(static_cast<float>(x))); }

template <class T>
void GradientDescent(T* __restrict__ var, const T* __restrict__ delta, T alpha, int64_t n) {
  for (int64_t i = 0; i < n; ++i) var[i] -= delta[i] * alpha;
}

template <class T>
void Momentum(T* __restrict__ var, T* __restrict__ accum, const T* __restrict__ grad, T lr, T momentum, bool nesterov,
              int64_t n) {
  if (nesterov) {
    for (int64_t i = 0; i < n; ++i) {
      accum[i] = accum[i] * momentum + grad[i];
      var[i] -= grad[i] * lr + accum[i] * momentum * lr;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      accum[i] = accum[i] * momentum + grad[i];
      var[i] -= accum[i] * lr;
    }
  }
}

template <class T>
void Adam(T* __restrict__ var, T* __restrict__ m, T* __restrict__ v, const T* __restrict__ grad, T alpha, T beta1,
          T beta2, T epsilon, bool nesterov, int64_t n) {
  const T rest1 = T(1) - beta1, rest2 = T(1) - beta2;
  if (nesterov) {
    for (int64_t i = 0; i < n; ++i) {
      m[i] += (grad[i] - m[i]) * rest1;
      v[i] += (grad[i] * grad[i] - v[i]) * rest2;
      var[i] -= ((grad[i] * rest1 + m[i] * beta1) * alpha) / (Root(v[i]) + epsilon);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      m[i] += (grad[i] - m[i]) * rest1;
      v[i] += (grad[i] * grad[i] - v[i]) * rest2;
      var[i] -= (m[i] * alpha) / (Root(v[i]) + epsilon);
    }
  }
}

template <class T>
void Adagrad(T* __restrict__ var, T* __restrict__ accum, const T* __restrict__ grad, T lr, bool update_slots,
             int64_t n) {
  if (update_slots) {
    for (int64_t i = 0; i < n; ++i) accum[i] += grad[i] * grad[i];
  }
  for (int64_t i = 0; i < n; ++i) var[i] -= grad[i] * lr * (T(1) / Root(accum[i]));
}

template <class T>
void AdagradV2(T* __restrict__ var, T* __restrict__ accum, const T* __restrict__ grad, T lr, T epsilon,
               bool update_slots, int64_t n) {
  if (update_slots) {
    for (int64_t i = 0; i < n; ++i) accum[i] += grad[i] * grad[i];
  }
  for (int64_t i = 0; i < n; ++i) var[i] -= grad[i] * lr / (Root(accum[i]) + epsilon);
}

template <class T>
void RmsProp(T* __restrict__ var, T* __restrict__ ms, T* __restrict__ mom, const T* __restrict__ grad, T lr, T rho,
             T momentum, T epsilon, int64_t n) {
  const T rest = T(1) - rho;
  for (int64_t i = 0; i < n; ++i) {
    ms[i] += (grad[i] * grad[i] - ms[i]) * rest;
    mom[i] = mom[i] * momentum + (grad[i] * lr) / Root(epsilon + ms[i]);
    var[i] -= mom[i];
  }
}

template <class T>
void CenteredRmsProp(T* __restrict__ var, T* __restrict__ mg, T* __restrict__ ms, T* __restrict__ mom,
                     const T* __restrict__ grad, T lr, T rho, T momentum, T epsilon, int64_t n) {
  const T rest = T(1) - rho;
  for (int64_t i = 0; i < n; ++i) {
    ms[i] += (grad[i] * grad[i] - ms[i]) * rest;
    mg[i] += (grad[i] - mg[i]) * rest;
    mom[i] = mom[i] * momentum + (grad[i] * lr) / Root((ms[i] - mg[i] * mg[i]) + epsilon);
    var[i] -= mom[i];
  }
}

template <class T>
void Adadelta(T* __restrict__ var, T* __restrict__ accum, T* __restrict__ accum_update, const T* __restrict__ grad,
              T lr, T rho, T epsilon, int64_t n) {
  const T rest = T(1) - rho;
  for (int64_t i = 0; i < n; ++i) {
    accum[i] = accum[i] * rho + grad[i] * grad[i] * rest;
    const T update = Root(accum_update[i] + epsilon) * (T(1) / Root(accum[i] + epsilon)) * grad[i];
    var[i] -= update * lr;
    accum_update[i] = accum_update[i] * rho + update * update * rest;
  }
}

template <class T>
constexpr OptimizerLoops<T> kLoopsOf = {GradientDescent<T>, Momentum<T>,        Adam<T>,    Adagrad<T>, AdagradV2<T>,
                                        RmsProp<T>,         CenteredRmsProp<T>, Adadelta<T>};

}  // namespace
}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_OPTIMIZER_LOOPS_INL_H_
