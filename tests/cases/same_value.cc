#include "tests/cases/same_value.h"

#include <cmath>

namespace troupe::test {
namespace {

// What the arithmetic of the type may be off by, relative to the larger of the value and 1.
double Tolerance(DType t) {
  switch (t) {
    case DType::kHalf:
      return 2e-3;
    case DType::kBfloat16:
      return 1.6e-2;
    case DType::kFloat:
    case DType::kComplex64:
      return 2e-6;
    default:
      return 1e-12;
  }
}

bool Near(double a, double b, double scale, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * scale;
}

}  // namespace

std::string WrongOutput(const std::string& op, const Tensor& got, const Tensor& want, double tolerance) {
  if (!want.valid()) return "";  // not recorded
  if (!got.valid()) return "no value";
  if (got.dtype() != want.dtype() || !got.SameShape(want))
    return StrCat(got.DebugString(), " instead of ", want.DebugString());
  if (got.dtype() == DType::kString) return Difference(got, want);
  int64_t first = -1;
  VisitNumeric(got.dtype(), false, [&]<class T>() {
    // TensorFlow sums floats of 16 bits in 16 bits: an element may be off by the rounding of the
    // largest, in long sums several times.
    const bool long_sum = sizeof(T) == 2 && op.find("Backprop") != std::string::npos;
    // Iterations end, and reflections are applied, in another order: what is computed is off by
    // more than one operation's rounding.
    const bool decomposed = op == "Qr" || op == "Svd" || op == "MatrixSolveLs";
    const double factor = long_sum ? 3 : !decomposed ? 1 : sizeof(T) == 2 ? 3 : 30;
    const double allowed = tolerance < 0 ? Tolerance(kDTypeOf<T>) * factor : tolerance;
    double largest = 0;
    if constexpr (kDTypeOf<T> == DType::kHalf || kDTypeOf<T> == DType::kBfloat16) {
      for (const T v : want.flat<T>()) {
        if (std::isfinite(static_cast<double>(v))) largest = std::max(largest, std::abs(static_cast<double>(v)));
      }
    }
    for (int64_t i = 0; i < got.num_elements() && first < 0; ++i) {
      const T a = got.data<T>()[i], b = want.data<T>()[i];
      bool same;
      if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
        const double scale = std::max<double>(1, std::abs(b));
        same = Near(a.real(), b.real(), scale, allowed) && Near(a.imag(), b.imag(), scale, allowed);
      } else if constexpr (std::is_integral_v<T>) {
        same = a == b;
      } else {
        const double x = static_cast<double>(a), y = static_cast<double>(b);
        same = Near(x, y, std::max({1.0, std::abs(y), largest}), allowed);
      }
      if (!same) first = i;
    }
    return true;
  });
  return first < 0 ? "" : StrCat("element ", first, ": ", got.DebugString(64), " instead of ", want.DebugString(64));
}

std::string WrongOutputs(const Case& c, absl::Span<const Tensor> got) {
  if (got.size() != c.outputs.size()) return StrCat(got.size(), " outputs instead of ", c.outputs.size());
  for (size_t i = 0; i < got.size(); ++i) {
    std::string what = WrongOutput(c.op, got[i], c.outputs[i], c.tolerance);
    if (!what.empty()) return StrCat("output ", i, ": ", what);
  }
  return "";
}

std::string Difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.valid()) return "no value";
  if (got.dtype() != want.dtype() || !got.SameShape(want))
    return StrCat(got.DebugString(), " instead of ", want.DebugString());
  bool same = true;
  if (got.dtype() == DType::kString) {
    same = got.flat<std::string>() == want.flat<std::string>();
  } else {
    VisitNumeric(got.dtype(), false, [&]<class T>() {
      for (int64_t i = 0; i < got.num_elements(); ++i) {
        const T a = got.data<T>()[i], b = want.data<T>()[i];
        if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
          same = same && a == b;
        } else if constexpr (!std::is_integral_v<T>) {
          const double x = a, y = b;
          same = same &&
                 ((x != x && y != y) || x == y || std::abs(x - y) <= tolerance * std::max(std::abs(x), std::abs(y)));
        } else {
          same = same && a == b;
        }
      }
      return true;
    });
  }
  return same ? "" : StrCat(got.DebugString(64), " instead of ", want.DebugString(64));
}

}  // namespace troupe::test
