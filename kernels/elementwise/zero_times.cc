// Products and quotients in which a zero wins over infinity and NaN: Xdivy,
// Xlogy, Xlog1py, DivNoNan and MulNoNan, with broadcasting.
#include <cmath>
#include <complex>
#include <string_view>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// Without gradient and doc. `types`: the allowed ones as an attr; the
// definitions name them in different orders.
OpBuilder ZeroTimesOp(std::string_view name,
                      std::string_view types = "T: {half, bfloat16, float, double, complex64, complex128}") {
  return OpBuilder(name).Input("x: T").Input("y: T").Output("z: T").Attr(types).Shape(shape_fn::BroadcastBinary);
}
template <class F, int kCost>
absl::StatusOr<PreparedKernel> ZeroTimesFactory(KernelInit& init) {
  static const BinaryTable table = Loops<F, float, double, std::complex<float>, std::complex<double>>(kCost);
  return MakeBinary(init, table);
}
// 1 where the op's x is not 0, in its type.
Value IsNotZero(const Value& x) { return CastLike(Apply("NotEqual", x, Number(x, 0)), x); }

struct XdivyFn {
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x / y;
  }
};
const OpRegistrar xdivy = ZeroTimesOp("Xdivy")
                              .Gradient([](GradientContext& g) -> absl::Status {
                                const Value x = In(g, 0), y = In(g, 1);
                                return SetBroadcast(g, Apply("Xdivy", IsNotZero(x), y) * Grad(g),
                                                    Apply("Xdivy", -x, Apply("Square", y)) * Grad(g));
                              })
                              .Doc("x / y, or 0 where x is 0; with broadcasting.");
TROUPE_CPU_KERNEL("Xdivy").Factory(ZeroTimesFactory<XdivyFn, 15>);

struct XlogyFn {
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x * std::log(y);
  }
};
const OpRegistrar xlogy =
    ZeroTimesOp("Xlogy")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value x = In(g, 0), y = In(g, 1);
          return SetBroadcast(g, Apply("Xlogy", IsNotZero(x), y) * Grad(g), Apply("Xdivy", x, y) * Grad(g));
        })
        .Doc("x * log(y), or 0 where x is 0; with broadcasting.");
TROUPE_CPU_KERNEL("Xlogy").Factory(ZeroTimesFactory<XlogyFn, 15>);

struct Xlog1pyFn {
  static float Log1p(float y) { return std::log1p(y); }
  static double Log1p(double y) { return std::log1p(y); }
  template <class T>
  static std::complex<T> Log1p(std::complex<T> y) {
    return std::log(T(1) + y);
  }
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x * Log1p(y);
  }
};
const OpRegistrar xlog1py =
    ZeroTimesOp("Xlog1py")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value x = In(g, 0), y = In(g, 1);
          return SetBroadcast(g, Apply("Xlog1py", IsNotZero(x), y) * Grad(g), Apply("Xdivy", x, 1.0 + y) * Grad(g));
        })
        .Doc("x * log(1 + y), or 0 where x is 0; with broadcasting.");
TROUPE_CPU_KERNEL("Xlog1py").Factory(ZeroTimesFactory<Xlog1pyFn, 15>);

struct DivNoNanFn {
  template <class T>
  static T Do(T x, T y) {
    return y == T(0) ? T(0) : x / y;
  }
};
const OpRegistrar div_no_nan =
    ZeroTimesOp("DivNoNan", "T: {half, float, bfloat16, double, complex64, complex128}")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value x = Conj(In(g, 0)), y = Conj(In(g, 1)), dz = Grad(g);
          return SetBroadcast(g, Apply("DivNoNan", dz, y), dz * Apply("DivNoNan", Apply("DivNoNan", -x, y), y));
        })
        .Doc("x / y, or 0 where y is 0; with broadcasting.");
TROUPE_CPU_KERNEL("DivNoNan").Factory(ZeroTimesFactory<DivNoNanFn, 1>);

struct MulNoNanFn {
  template <class T>
  static T Do(T x, T y) {
    return y == T(0) ? T(0) : x * y;
  }
};
const OpRegistrar mul_no_nan =
    ZeroTimesOp("MulNoNan", TROUPE_T_FLOATS_AND_COMPLEX)
        .Gradient([](GradientContext& g) {
          return SetBroadcast(g, Apply("MulNoNan", Grad(g), In(g, 1)), Apply("MulNoNan", In(g, 0), Grad(g)));
        })
        .Doc("x * y, or 0 where y is 0, even if x is infinite or NaN; with broadcasting.");
TROUPE_CPU_KERNEL("MulNoNan").Factory(ZeroTimesFactory<MulNoNanFn, 1>);

}  // namespace
}  // namespace troupe::math
