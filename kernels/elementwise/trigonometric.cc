// Trigonometric functions and their inverses.
#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/float_function.h"

namespace troupe::math {
namespace {

struct SinFn {
  template <class T>
  static T Do(T x) {
    return std::sin(x);
  }
};
const OpRegistrar sin_op =
    FunctionOp("Sin")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Cos", Conj(In(g, 0)))); })
        .Doc("The sine of x.");
TROUPE_CPU_KERNEL("Sin").Factory(UnaryFactory<SlowTable<SinFn>>);

struct CosFn {
  template <class T>
  static T Do(T x) {
    return std::cos(x);
  }
};
const OpRegistrar cos_op =
    FunctionOp("Cos")
        .Gradient([](GradientContext& g) { return SetUnary(g, -Grad(g) * Apply("Sin", Conj(In(g, 0)))); })
        .Doc("The cosine of x.");
TROUPE_CPU_KERNEL("Cos").Factory(UnaryFactory<SlowTable<CosFn>>);

struct TanFn {
  template <class T>
  static T Do(T x) {
    return std::tan(x);
  }
};
const OpRegistrar tan_op =
    FunctionOp("Tan")
        .Gradient([](GradientContext& g) {
          return SetUnary(g, Apply("Square", Apply("Reciprocal", Apply("Cos", Conj(In(g, 0))))) * Grad(g));
        })
        .Doc("The tangent of x.");
TROUPE_CPU_KERNEL("Tan").Factory(UnaryFactory<SlowTable<TanFn>>);

struct AsinFn {
  template <class T>
  static T Do(T x) {
    return std::asin(x);
  }
};
const OpRegistrar asin_op = FunctionOp("Asin")
                                .Gradient([](GradientContext& g) {
                                  return SetUnary(g, Grad(g) * Apply("Rsqrt", 1.0 - Apply("Square", Conj(In(g, 0)))));
                                })
                                .Doc("The inverse sine of x.");
TROUPE_CPU_KERNEL("Asin").Factory(UnaryFactory<SlowTable<AsinFn>>);

struct AcosFn {
  template <class T>
  static T Do(T x) {
    return std::acos(x);
  }
};
const OpRegistrar acos_op = FunctionOp("Acos")
                                .Gradient([](GradientContext& g) {
                                  return SetUnary(g, -Grad(g) * Apply("Rsqrt", 1.0 - Apply("Square", Conj(In(g, 0)))));
                                })
                                .Doc("The inverse cosine of x.");
TROUPE_CPU_KERNEL("Acos").Factory(UnaryFactory<SlowTable<AcosFn>>);

struct AtanFn {
  template <class T>
  static T Do(T x) {
    return std::atan(x);
  }
};
const OpRegistrar atan_op =
    FunctionOp("Atan")
        .Gradient([](GradientContext& g) {
          return SetUnary(g, Grad(g) * Apply("Reciprocal", 1.0 + Apply("Square", Conj(In(g, 0)))));
        })
        .Doc("The inverse tangent of x.");
TROUPE_CPU_KERNEL("Atan").Factory(UnaryFactory<SlowTable<AtanFn>>);

struct Atan2Fn {
  template <class T>
  static T Do(T y, T x) {
    return std::atan2(y, x);
  }
};
const BinaryTable& Atan2Table() {
  static const BinaryTable table = Loops<Atan2Fn, float, double>(20);
  return table;
}
TROUPE_OP("Atan2")
    .Input("y: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value y = In(g, 0), x = In(g, 1), scaled = Grad(g) / (Apply("Square", y) + Apply("Square", x));
      return SetBroadcast(g, x * scaled, -y * scaled);
    })
    .Doc("The angle of the point (x, y), with broadcasting.");
TROUPE_CPU_KERNEL("Atan2").Factory(BinaryFactory<Atan2Table>);

}  // namespace
}  // namespace troupe::math
