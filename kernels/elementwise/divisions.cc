// Quotients: Div, RealDiv, FloorDiv and TruncateDiv; DivNoNan is in zero_times.cc.
#include <cmath>
#include <string_view>
#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// Without gradient and doc.
OpBuilder QuotientOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(TROUPE_T_NUMBERS)
      .Shape(shape_fn::BroadcastBinary);
}
absl::Status QuotientGradient(GradientContext& g) {
  const Value x = Conj(In(g, 0)), y = Conj(In(g, 1)), dz = Grad(g);
  return SetBroadcast(g, dz / y, dz * ((-x / y) / y));
}

struct DivFn {
  // The lowest number divided by -1 wraps around to itself; the processor would trap.
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      return y == T(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : static_cast<T>(x / y);
    } else {
      return static_cast<T>(x / y);
    }
  }
};
const BinaryTable& DivTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(HotBinary::kDiv);
    AddLoopsTo<DivFn, void, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 3);
    AddLoopsTo<DivFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

const OpRegistrar divide =
    QuotientOp("Div")
        .Gradient(QuotientGradient)
        .Doc("x / y with broadcasting; integers are truncated towards zero, and a zero divisor is an error.");

TROUPE_CPU_KERNEL("Div").Factory(BinaryFactory<DivTable, BinaryShapes::kBroadcast, CheckNoIntegerZero>);

struct RealDivFn {
  template <class T>
  static T Do(T x, T y) {
    return x / y;
  }
};
const BinaryTable& RealDivTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(HotBinary::kDiv);
    AddLoopsTo<RealDivFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

const OpRegistrar real_div =
    QuotientOp("RealDiv").Gradient(QuotientGradient).Doc("x / y of real or complex numbers, with broadcasting.");

TROUPE_KERNEL("RealDiv").Device("CPU").Types("T", kFloatsAndComplex).Factory(BinaryFactory<RealDivTable>);

struct FloorDivFn {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (!std::is_integral_v<T>) {
      return std::floor(x / y);
    } else if constexpr (std::is_signed_v<T>) {
      // The lowest number divided by -1 wraps around to itself.
      if (y == T(-1)) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
      const T q = static_cast<T>(x / y);
      return static_cast<T>(q - ((x % y != 0) && ((x < 0) != (y < 0))));
    } else {
      return static_cast<T>(x / y);
    }
  }
};
const BinaryTable& FloorDivTable() {
  static const BinaryTable table =
      Loops<FloorDivFn, float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(3);
  return table;
}

const OpRegistrar floor_div = QuotientOp("FloorDiv")
                                  .Gradient(NoGradientFlows)  // piecewise constant
                                  .Doc("floor(x / y) with broadcasting; a zero divisor of integers is an error.");

TROUPE_KERNEL("FloorDiv")
    .Device("CPU")
    .Types("T", kReals)
    .Factory(BinaryFactory<FloorDivTable, BinaryShapes::kBroadcast, CheckNoIntegerZero>);

struct TruncateDivFn {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (!std::is_integral_v<T>) {
      return std::trunc(x / y);
    } else if constexpr (std::is_signed_v<T>) {
      // The lowest number divided by -1 wraps around to itself.
      return y == T(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : static_cast<T>(x / y);
    } else {
      return static_cast<T>(x / y);
    }
  }
};
const BinaryTable& TruncateDivTable() {
  static const BinaryTable table =
      Loops<TruncateDivFn, float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(3);
  return table;
}

const OpRegistrar truncate_div =
    QuotientOp("TruncateDiv")
        .Gradient(NoGradientFlows)  // piecewise constant
        .Doc("x / y truncated towards zero, with broadcasting; a zero divisor of integers is an error.");

TROUPE_KERNEL("TruncateDiv")
    .Device("CPU")
    .Types("T", kReals)
    .Factory(BinaryFactory<TruncateDivTable, BinaryShapes::kBroadcast, CheckNoIntegerZero>);

}  // namespace
}  // namespace troupe::math
