// The inner loop of FTRL-proximal, for float, double, Half and BFloat16.
#ifndef TROUPE_KERNELS_STATE_FTRL_LOOP_H_
#define TROUPE_KERNELS_STATE_FTRL_LOOP_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "troupe/half.h"

namespace troupe::state {

template <class T>
struct FtrlParameters {
  T lr, l1, l2, l2_shrinkage, lr_power;
};

// `by_lr`: `linear` holds lr times the sum, so that lr may change between steps.
template <class T>
void FtrlLoop(T* var, T* accum, T* linear, const T* grad, const FtrlParameters<T>& p, bool by_lr, int64_t n) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const Wide lr = p.lr, l1 = p.l1, l2 = p.l2, shrinkage = p.l2_shrinkage, power = p.lr_power;
  const bool root = power == Wide(-0.5);
  const auto raise = [&](Wide x) { return root ? std::sqrt(x) : std::pow(x, -power); };
  // With `by_lr`, everything is multiplied by lr instead of divided.
  const Wide scale = by_lr ? lr : Wide(1), divisor = by_lr ? Wide(1) : lr, bound = l1 * scale;
  for (int64_t i = 0; i < n; ++i) {
    const Wide g = grad[i], before = accum[i], v = var[i], now = before + g * g;
    const Wide pulled = g + 2 * shrinkage * v;
    const Wide z = static_cast<Wide>(linear[i]) + (pulled * scale - (raise(now) - raise(before)) / divisor * v);
    linear[i] = T(z);
    const Wide x = (z > 0 ? bound : z < 0 ? -bound : Wide(0)) - z;
    var[i] = std::abs(z) > bound ? T(x / (raise(now) / divisor + 2 * l2 * scale)) : T(0);
    accum[i] = T(now);
  }
}

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_FTRL_LOOP_H_
