// Abs, Neg, Sign and Square.
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

struct AbsFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(x < 0 ? -x : x);
  }
};
const UnaryTable& AbsTable() {
  static const UnaryTable table = [] {
    UnaryTable t = HotTable(HotUnary::kAbs);
    AddLoopsTo<AbsFn, void, int8_t, int16_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

TROUPE_OP("Abs")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Sign", In(g, 0))); })
    .Doc("The magnitude of x; the lowest integer stays as it is.");

TROUPE_CPU_KERNEL("Abs").Factory(UnaryFactory<AbsTable>);

struct NegFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(-x);
  }
};
const UnaryTable& NegTable() {
  static const UnaryTable table = [] {
    UnaryTable t = HotTable(HotUnary::kNeg);
    AddSmallWrapping<NegFn>(&t);
    AddLoopsTo<NegFn, void, std::complex<float>, std::complex<double>>(&t, 0.5f);
    return t;
  }();
  return table;
}

TROUPE_OP("Neg")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_SIGNED)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, -Grad(g)); })
    .Doc("-x.");

TROUPE_CPU_KERNEL("Neg").Factory(UnaryFactory<NegTable>);

struct SignFn {
  template <class T>
  static T Do(T x) {
    return x != x ? x : static_cast<T>((T(0) < x) - (x < T(0)));
  }
  template <class T>
  static std::complex<T> Do(std::complex<T> x) {
    return x == T(0) ? x : x / std::abs(x);
  }
};
const UnaryTable& SignTable() {
  static const UnaryTable table = [] {
    UnaryTable t = ULoops<SignFn, float, double, int8_t, int16_t, int32_t, int64_t>(0.5);
    AddLoopsTo<SignFn, void, std::complex<float>, std::complex<double>>(&t, 5);
    return t;
  }();
  return table;
}

TROUPE_OP("Sign")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_SIGNED)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("ZerosLike", In(g, 0))); })
    .Doc("-1, 0 or 1; NaN of NaN; of a complex number x / |x|, or 0.");

TROUPE_CPU_KERNEL("Sign").Factory(UnaryFactory<SignTable>);

struct SquareFn {
  static uint16_t Do(uint16_t x) { return static_cast<uint16_t>(uint32_t{x} * x); }
  template <class T>
  static T Do(T x) {
    return static_cast<T>(x * x);
  }
};
const UnaryTable& SquareTable() {
  static const UnaryTable table = [] {
    UnaryTable t = HotTable(HotUnary::kSquare);
    t[DType::kUint32] = t[DType::kInt32];
    t[DType::kUint64] = t[DType::kInt64];
    AddSmallWrapping<SquareFn>(&t);
    AddLoopsTo<SquareFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

TROUPE_OP("Square")
    .Input("x: T")
    .Output("y: T")
    .Attr(
        "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
        "complex128}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * (2.0 * Conj(In(g, 0)))); })
    .Doc("x * x; integers wrap around.");

TROUPE_CPU_KERNEL("Square").Factory(UnaryFactory<SquareTable>);

}  // namespace
}  // namespace troupe::math
