#include "tests/differential/compare.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "troupe/strings.h"

namespace troupe::test {
namespace {

template <class T>
std::complex<double> Wide(T v) {
  if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
    return {static_cast<double>(v.real()), static_cast<double>(v.imag())};
  } else {
    return {static_cast<double>(v), 0};
  }
}

bool Near(double a, double b, double most) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= most;
}

template <class T>
int64_t FirstUnlike(const Tensor& got, const Tensor& want, double tolerance) {
  double largest = 1;
  for (const T v : want.flat<T>()) {
    const double size = std::abs(Wide(v));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const T a = got.data<T>()[i], b = want.data<T>()[i];
    if constexpr (std::is_integral_v<T>) {
      if (a != b) return i;
    } else {
      const std::complex<double> x = Wide(a), y = Wide(b);
      if (!Near(x.real(), y.real(), tolerance * largest) || !Near(x.imag(), y.imag(), tolerance * largest)) return i;
    }
  }
  return -1;
}

}  // namespace

std::string Unlike(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.valid()) return "no value";
  const std::string instead = StrCat(got.DebugString(16), " instead of ", want.DebugString(16));
  if (got.dtype() != want.dtype() || !got.SameShape(want)) return instead;
  int64_t first = -1;
  if (got.dtype() == DType::kString) {
    const auto a = got.flat<std::string>(), b = want.flat<std::string>();
    const auto it = std::mismatch(a.begin(), a.end(), b.begin()).first;
    first = it == a.end() ? -1 : it - a.begin();
  } else if (!VisitNumeric(got.dtype(), false, [&]<class T>() {
               first = FirstUnlike<T>(got, want, tolerance);
               return true;
             })) {
    return StrCat("values of type ", Name(got.dtype()), " are not compared");
  }
  return first < 0 ? "" : StrCat("element ", first, ": ", instead);
}

}  // namespace troupe::test
