// The rules of the optimizers, each for n elements: what the dense updates (apply.cc) and those of
// single rows (sparse_apply.cc) share. optimizer_op.h tells what a rule is.
//
// Thread rule: a rule is immutable, and any number of threads may run it, each on elements of its
// own.
#ifndef TROUPE_KERNELS_STATE_OPTIMIZER_RULES_H_
#define TROUPE_KERNELS_STATE_OPTIMIZER_RULES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/state/optimizer_op.h"
#include "troupe/half.h"

namespace troupe::state {

struct GradientDescentRule {
  static constexpr std::array kInputs = {"var", "alpha", "delta"};
  static constexpr int kSlots = 1, kGrad = 2;
  static constexpr std::initializer_list<int> kScalars = {1};
  explicit GradientDescentRule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().gradient_descent(s[0], grad, in.Scalar<T>(1), n);
  }
};

struct MomentumRule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "grad", "momentum"};
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2, 4};
  explicit MomentumRule(KernelInit& init) : nesterov(init.Attr<bool>("use_nesterov")) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().momentum(s[0], s[1], grad, in.Scalar<T>(2), in.Scalar<T>(4), nesterov, n);
  }
  const bool nesterov;
};

struct AdamRule {
  static constexpr std::array kInputs = {"var", "m",     "v",     "beta1_power", "beta2_power",
                                         "lr",  "beta1", "beta2", "epsilon",     "grad"};
  static constexpr int kSlots = 3, kGrad = 9;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6, 7, 8};
  explicit AdamRule(KernelInit& init) : nesterov(init.Attr<bool>("use_nesterov")) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    const T alpha = in.Scalar<T>(5) * Root(T(1) - in.Scalar<T>(4)) / (T(1) - in.Scalar<T>(3));
    Loops<T>().adam(s[0], s[1], s[2], grad, alpha, in.Scalar<T>(6), in.Scalar<T>(7), in.Scalar<T>(8), nesterov, n);
  }
  template <class T>
  static T Root(T x) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return T(std::sqrt(static_cast<float>(x)));
    } else {
      return std::sqrt(x);
    }
  }
  const bool nesterov;
};

struct AdagradRule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "grad"};
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2};
  explicit AdagradRule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adagrad(s[0], s[1], grad, in.Scalar<T>(2), update_slots, n);
  }
  const bool update_slots;
};

struct AdagradV2Rule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "epsilon", "grad"};
  static constexpr int kSlots = 2, kGrad = 4;
  static constexpr std::initializer_list<int> kScalars = {2, 3};
  explicit AdagradV2Rule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adagrad_v2(s[0], s[1], grad, in.Scalar<T>(2), in.Scalar<T>(3), update_slots, n);
  }
  const bool update_slots;
};

struct RMSPropRule {
  static constexpr std::array kInputs = {"var", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"};
  static constexpr int kSlots = 3, kGrad = 7;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6};
  explicit RMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().rms_prop(s[0], s[1], s[2], grad, in.Scalar<T>(3), in.Scalar<T>(4), in.Scalar<T>(5), in.Scalar<T>(6), n);
  }
};

struct CenteredRMSPropRule {
  static constexpr std::array kInputs = {"var", "mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"};
  static constexpr int kSlots = 4, kGrad = 8;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  explicit CenteredRMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().centered_rms_prop(s[0], s[1], s[2], s[3], grad, in.Scalar<T>(4), in.Scalar<T>(5), in.Scalar<T>(6),
                                 in.Scalar<T>(7), n);
  }
};

struct AdadeltaRule {
  static constexpr std::array kInputs = {"var", "accum", "accum_update", "lr", "rho", "epsilon", "grad"};
  static constexpr int kSlots = 3, kGrad = 6;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5};
  explicit AdadeltaRule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adadelta(s[0], s[1], s[2], grad, in.Scalar<T>(3), in.Scalar<T>(4), in.Scalar<T>(5), n);
  }
};

// What the rules that only real numbers have compute in: float for the types that are narrower.
template <class T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
struct FtrlParameters {
  T lr, l1, l2, l2_shrinkage, lr_power;
};

// `by_lr`: `linear` holds lr times the sum, so that lr may change between steps.
template <class T>
void FtrlLoop(T* var, T* accum, T* linear, const T* grad, const FtrlParameters<T>& p, bool by_lr, int64_t n) {
  using Wide = WideOf<T>;
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

struct FtrlRule {
  static constexpr std::array kInputs = {"var", "accum", "linear", "grad", "lr", "l1", "l2", "lr_power"};
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  static constexpr bool kRealOnly = true;
  explicit FtrlRule(KernelInit& init) : by_lr(init.Attr<bool>("multiply_linear_by_lr")) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    FtrlLoop<T>(s[0], s[1], s[2], grad, {in.Scalar<T>(4), in.Scalar<T>(5), in.Scalar<T>(6), T(0), in.Scalar<T>(7)},
                by_lr, n);
  }
  const bool by_lr;
};

struct FtrlV2Rule {
  static constexpr std::array kInputs = {"var", "accum", "linear",       "grad",    "lr",
                                         "l1",  "l2",    "l2_shrinkage", "lr_power"};
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7, 8};
  static constexpr bool kRealOnly = true;
  explicit FtrlV2Rule(KernelInit& init) : by_lr(init.Attr<bool>("multiply_linear_by_lr")) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    FtrlLoop<T>(s[0], s[1], s[2], grad,
                {in.Scalar<T>(4), in.Scalar<T>(5), in.Scalar<T>(6), in.Scalar<T>(7), in.Scalar<T>(8)}, by_lr, n);
  }
  const bool by_lr;
};

// x moved towards zero by `by`, and not past it.
template <class W>
W Shrunk(W x, W by) {
  return by > 0 ? std::copysign(std::max(std::abs(x) - by, W(0)), x) : x;
}

struct ProximalGradientDescentRule {
  static constexpr std::array kInputs = {"var", "alpha", "l1", "l2", "delta"};
  static constexpr int kSlots = 1, kGrad = 4;
  static constexpr std::initializer_list<int> kScalars = {1, 2, 3};
  static constexpr bool kRealOnly = true;
  explicit ProximalGradientDescentRule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    using W = WideOf<T>;
    const W lr = in.Scalar<T>(1), l1 = in.Scalar<T>(2), l2 = in.Scalar<T>(3);
    T* const var = s[0];
    for (int64_t i = 0; i < n; ++i) {
      const W there = static_cast<W>(var[i]) - static_cast<W>(grad[i]) * lr;
      var[i] = T(Shrunk(there, l1 * lr) / (1 + l2 * lr));
    }
  }
};

struct ProximalAdagradRule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "l1", "l2", "grad"};
  static constexpr int kSlots = 2, kGrad = 5;
  static constexpr std::initializer_list<int> kScalars = {2, 3, 4};
  static constexpr bool kRealOnly = true;
  explicit ProximalAdagradRule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    using W = WideOf<T>;
    const W lr = in.Scalar<T>(2), l1 = in.Scalar<T>(3), l2 = in.Scalar<T>(4);
    T *const var = s[0], *const accum = s[1];
    for (int64_t i = 0; i < n; ++i) {
      const W g = grad[i], a = static_cast<W>(accum[i]) + g * g, rate = lr / std::sqrt(a);
      accum[i] = T(a);
      var[i] = T(Shrunk(static_cast<W>(var[i]) - g * rate, l1 * rate) / (1 + l2 * rate));
    }
  }
};

struct AdagradDARule {
  static constexpr std::array kInputs = {
      "var", "gradient_accumulator", "gradient_squared_accumulator", "grad", "lr", "l1", "l2", "global_step: int64"};
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  static constexpr bool kRealOnly = true;
  explicit AdagradDARule(KernelInit&) {}
  template <class T>
  void Run(const RuleInputs& in, T* const* s, const T* grad, int64_t n) const {
    using W = WideOf<T>;
    const W lr = in.Scalar<T>(4), l1 = in.Scalar<T>(5), l2 = in.Scalar<T>(6);
    const W step = static_cast<W>(in.Scalar<int64_t>(7));
    for (int64_t i = 0; i < n; ++i) {
      const W g = grad[i], sum = static_cast<W>(s[1][i]) + g, squares = static_cast<W>(s[2][i]) + g * g;
      s[1][i] = T(sum);
      s[2][i] = T(squares);
      s[0][i] = T(-lr * Shrunk(sum, l1 * step) / (l2 * step * lr + std::sqrt(squares)));
    }
  }
};

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_OPTIMIZER_RULES_H_
