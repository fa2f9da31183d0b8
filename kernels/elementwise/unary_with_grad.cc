// Functions of one number whose gradient is an op of its own, in terms of their
// result: Sqrt, Rsqrt, Reciprocal (and Inv, another name of it), Sigmoid and
// Tanh.
//
// z = SqrtGrad(y, dy) and its kin take the function's result y and have one
// shape.
#include <cmath>
#include <complex>
#include <string_view>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/float_function.h"

namespace troupe::math {
namespace {

// Hot loops, and loops of F on the types T for which there are none.
template <HotUnary kHot, class F, int kCost, class... T>
const UnaryTable& HotFunctionTable() {
  static const UnaryTable table = [] {
    UnaryTable t = HotTable(kHot);
    AddLoopsTo<F, void, T...>(&t, kCost);
    return t;
  }();
  return table;
}

// The gradient of a function. Without gradient and doc.
OpBuilder UnaryGradOp(std::string_view name) {
  return OpBuilder(name)
      .Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
      .Shape(shape_fn::MergeAll);
}
// Hot loops, and loops of F on complex numbers.
template <HotBinary kHot, class F>
const BinaryTable& UnaryGradTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(kHot);
    AddLoopsTo<F, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}
template <HotBinary kHot, class F>
absl::StatusOr<PreparedKernel> UnaryGradFactory(KernelInit& init) {
  return BinaryFactory<UnaryGradTable<kHot, F>, BinaryShapes::kSame>(init);
}

struct SqrtFn {
  template <class T>
  static T Do(T x) {
    return std::sqrt(x);
  }
};
const OpRegistrar sqrt_op =
    FunctionOp("Sqrt")
        .Gradient([](GradientContext& g) { return SetUnary(g, Apply("SqrtGrad", Out(g), Grad(g))); })
        .Doc("The square root of x; NaN for negative numbers.");
TROUPE_CPU_KERNEL("Sqrt").Factory(
    UnaryFactory<HotFunctionTable<HotUnary::kSqrt, SqrtFn, 20, std::complex<float>, std::complex<double>>>);

struct SqrtGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy == T(0) ? T(0) : T(0.5) * dy / std::conj(y);
  }
};
const OpRegistrar sqrt_grad =
    UnaryGradOp("SqrtGrad")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value ga = Grad(g) / In(g, 0);
          return SetBoth(g, -Conj(ga) * Out(g), 0.5 * ga);
        })
        .Doc("The gradient of Sqrt: dy * 0.5 / conj(y), where y = sqrt(x); zero where dy is.");
TROUPE_CPU_KERNEL("SqrtGrad").Factory(UnaryGradFactory<HotBinary::kSqrtGrad, SqrtGradFn>);

struct RsqrtFn {
  template <class T>
  static T Do(T x) {
    return T(1) / std::sqrt(x);
  }
};
const OpRegistrar rsqrt =
    FunctionOp("Rsqrt")
        .Gradient([](GradientContext& g) { return SetUnary(g, Apply("RsqrtGrad", Out(g), Grad(g))); })
        .Doc("1 / sqrt(x).");
TROUPE_CPU_KERNEL("Rsqrt").Factory(
    UnaryFactory<HotFunctionTable<HotUnary::kRsqrt, RsqrtFn, 25, std::complex<float>, std::complex<double>>>);

struct RsqrtGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy == T(0) ? T(0) : T(-0.5) * (dy * std::conj(y)) * (std::conj(y) * std::conj(y));
  }
};
const OpRegistrar rsqrt_grad =
    UnaryGradOp("RsqrtGrad")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value y = Conj(In(g, 0)), d = Grad(g);
          return SetBoth(g, -1.5 * (Conj(d) * In(g, 1) * Apply("Square", y)), Apply("RsqrtGrad", y, d));
        })
        .Doc("The gradient of Rsqrt: -0.5 * dy * conj(y)^3, where y = 1 / sqrt(x); zero where dy is.");
TROUPE_CPU_KERNEL("RsqrtGrad").Factory(UnaryGradFactory<HotBinary::kRsqrtGrad, RsqrtGradFn>);

struct ReciprocalFn {
  template <class T>
  static T Do(T x) {
    return T(1) / x;
  }
};
constexpr KernelFactory kReciprocal =
    UnaryFactory<HotFunctionTable<HotUnary::kInv, ReciprocalFn, 4, std::complex<float>, std::complex<double>>>;
OpBuilder ReciprocalOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Output("y: T")
      .Attr(TROUPE_T_SIGNED)
      .Shape(shape_fn::Unchanged)
      .Gradient([](GradientContext& g) { return SetUnary(g, Apply("ReciprocalGrad", Out(g), Grad(g))); })
      .Doc("1 / x.");
}
const OpRegistrar reciprocal = ReciprocalOp("Reciprocal");
TROUPE_KERNEL("Reciprocal").Device("CPU").Types("T", kFloatsAndComplex).Factory(kReciprocal);
const OpRegistrar inv = ReciprocalOp("Inv");
TROUPE_KERNEL("Inv").Device("CPU").Types("T", kFloatsAndComplex).Factory(kReciprocal);

struct ReciprocalGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return -std::conj(y) * (dy * std::conj(y));
  }
};
constexpr KernelFactory kReciprocalGrad = UnaryGradFactory<HotBinary::kInvGrad, ReciprocalGradFn>;
// Without doc.
OpBuilder ReciprocalGradOp(std::string_view name) {
  return UnaryGradOp(name).Gradient([](GradientContext& g) -> absl::Status {
    const Value y = Conj(In(g, 0)), d = Grad(g);
    return SetBoth(g, -2.0 * (Conj(d) * In(g, 1) * y), Apply("ReciprocalGrad", y, d));
  });
}
const OpRegistrar reciprocal_grad =
    ReciprocalGradOp("ReciprocalGrad").Doc("The gradient of Reciprocal: -dy * conj(y)^2, where y = 1 / x.");
TROUPE_CPU_KERNEL("ReciprocalGrad").Factory(kReciprocalGrad);
const OpRegistrar inv_grad = ReciprocalGradOp("InvGrad").Doc("The gradient of Inv: -dy * conj(y)^2, where y = 1 / x.");
TROUPE_CPU_KERNEL("InvGrad").Factory(kReciprocalGrad);

struct SigmoidFn {
  // e^-|x| cannot overflow, and keeps the precision of the tail towards zero.
  static double Do(double x) {
    const double e = std::exp(-std::abs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
  }
  template <class T>
  static T Do(T x) {
    return T(1) / (T(1) + std::exp(-x));
  }
};
const OpRegistrar sigmoid =
    FunctionOp("Sigmoid")
        .Gradient([](GradientContext& g) { return SetUnary(g, Apply("SigmoidGrad", Conj(Out(g)), Grad(g))); })
        .Doc("1 / (1 + exp(-x)).");
TROUPE_CPU_KERNEL("Sigmoid").Factory(UnaryFactory<HotFunctionTable<HotUnary::kSigmoid, SigmoidFn, 12, double,
                                                                   std::complex<float>, std::complex<double>>>);

struct SigmoidGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (y * (T(1) - y));
  }
};
const OpRegistrar sigmoid_grad = UnaryGradOp("SigmoidGrad")
                                     .Gradient([](GradientContext& g) -> absl::Status {
                                       const Value y = Conj(In(g, 0)), d = Grad(g), gb = d * Conj(In(g, 1));
                                       return SetBoth(g, gb - 2.0 * (gb * y), Apply("SigmoidGrad", y, d));
                                     })
                                     .Doc("The gradient of Sigmoid: dy * y * (1 - y), where y = sigmoid(x).");
TROUPE_CPU_KERNEL("SigmoidGrad").Factory(UnaryGradFactory<HotBinary::kSigmoidGrad, SigmoidGradFn>);

struct TanhFn {
  template <class T>
  static T Do(T x) {
    return std::tanh(x);
  }
};
const OpRegistrar tanh_op =
    FunctionOp("Tanh")
        .Gradient([](GradientContext& g) { return SetUnary(g, Apply("TanhGrad", Conj(Out(g)), Grad(g))); })
        .Doc("The hyperbolic tangent of x.");
TROUPE_CPU_KERNEL("Tanh").Factory(
    UnaryFactory<HotFunctionTable<HotUnary::kTanh, TanhFn, 15, double, std::complex<float>, std::complex<double>>>);

struct TanhGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (T(1) - y * y);
  }
};
const OpRegistrar tanh_grad = UnaryGradOp("TanhGrad")
                                  .Gradient([](GradientContext& g) -> absl::Status {
                                    const Value y = Conj(In(g, 0)), dy = Conj(In(g, 1)), d = Grad(g);
                                    return SetBoth(g, -2.0 * (d * dy * y), Apply("TanhGrad", y, d));
                                  })
                                  .Doc("The gradient of Tanh: dy * (1 - y * y), where y = tanh(x).");
TROUPE_CPU_KERNEL("TanhGrad").Factory(UnaryGradFactory<HotBinary::kTanhGrad, TanhGradFn>);

}  // namespace
}  // namespace troupe::math
