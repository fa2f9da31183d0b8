// Activation functions and their gradients, element by element.
#include "kernels/common/vector_math.h"
#include "kernels/elementwise/activation_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kSeluScaleAlpha = 1.7580993408473768599402175208123;

// F: the function; G: the gradient that goes on, given the one that came and x. NaN passes through
// every F.
struct Relu {
  template <class T>
  static T F(T x, T) {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  static T G(T g, T x, T) {
    return static_cast<T>(g * static_cast<T>(x > T(0)));
  }  // NaN * 0 stays NaN, as in TensorFlow
};
struct Relu6 {
  template <class T>
  static T F(T x, T) {
    return x < T(0) ? T(0) : x > T(6) ? T(6) : x;
  }
  template <class T>
  static T G(T g, T x, T) {
    return static_cast<T>(g * static_cast<T>((x > T(0)) & (x < T(6))));
  }
};
struct Elu {
  template <class T>
  static T F(T x, T) {
    return x < T(0) ? Expm1(x) : x;
  }
  template <class T>
  static T G(T g, T y, T) {
    return y < T(0) ? (y + T(1)) * g : g;
  }
};
struct Selu {
  template <class T>
  static T F(T x, T) {
    return x < T(0) ? T(kSeluScaleAlpha) * Expm1(x) : T(kSeluScale) * x;
  }
  template <class T>
  static T G(T g, T y, T) {
    return y < T(0) ? (y + T(kSeluScaleAlpha)) * g : g * T(kSeluScale);
  }
};
struct LeakyRelu {
  template <class T>
  static T F(T x, T alpha) {
    return x > T(0) ? x : x * alpha;
  }
  template <class T>
  static T G(T g, T x, T alpha) {
    return x > T(0) ? g : g * alpha;
  }
};
struct Softplus {  // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
  template <class T>
  static T F(T x, T) {
    return (x < T(0) ? T(0) : x) + Log1p01(Exp(x < T(0) ? x : -x));
  }
  template <class T>
  static T G(T g, T x, T) {
    return g / (Exp(-x) + T(1));
  }
};
struct Softsign {
  template <class T>
  static T F(T x, T) {
    return x / (T(1) + (x < T(0) ? -x : x));
  }
  template <class T>
  static T G(T g, T x, T) {
    const T d = T(1) + (x < T(0) ? -x : x);
    return g / (d * d);
  }
};

template <class Op, class T>
void Forward(const void* x, void* y, int64_t n, float alpha) {
  const T* in = static_cast<const T*>(x);
  T* out = static_cast<T*>(y);
  const T a = static_cast<T>(alpha);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Op::template F<T>(in[i], a);
}
template <class Op, class T>
void Backward(const void* dy, const void* x, void* dx, int64_t n, float alpha) {
  const T *g = static_cast<const T*>(dy), *in = static_cast<const T*>(x);
  T* out = static_cast<T*>(dx);
  const T a = static_cast<T>(alpha);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Op::template G<T>(g[i], in[i], a);
}

#define TROUPE_ALL_TYPES(LOOP, Op)                                                                           \
  {                                                                                                          \
    &LOOP<Op, float>, &LOOP<Op, double>, &LOOP<Op, int32_t>, &LOOP<Op, uint8_t>, &LOOP<Op, int16_t>,         \
        &LOOP<Op, int8_t>, &LOOP<Op, int64_t>, &LOOP<Op, uint16_t>, &LOOP<Op, uint32_t>, &LOOP<Op, uint64_t> \
  }
#define TROUPE_FLOAT_TYPES(LOOP, Op) \
  { &LOOP<Op, float>, &LOOP<Op, double> }
#define TROUPE_ALL_ACTIVATIONS(LOOP)                                                                             \
  {                                                                                                              \
    TROUPE_ALL_TYPES(LOOP, Relu), TROUPE_ALL_TYPES(LOOP, Relu6), TROUPE_FLOAT_TYPES(LOOP, Elu),                  \
        TROUPE_FLOAT_TYPES(LOOP, Selu), TROUPE_FLOAT_TYPES(LOOP, LeakyRelu), TROUPE_FLOAT_TYPES(LOOP, Softplus), \
        TROUPE_FLOAT_TYPES(LOOP, Softsign)                                                                       \
  }

}  // namespace

extern const ActivationTable kActivations;
const ActivationTable kActivations = {TROUPE_ALL_ACTIVATIONS(Forward), TROUPE_ALL_ACTIVATIONS(Backward)};

}  // namespace troupe::TROUPE_ISA
