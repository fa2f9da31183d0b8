#include <cmath>

#include "tools/troupe/value_text.h"

namespace troupe::tool {
namespace {

template <class T>
inline constexpr bool kComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Everything passes through the widest type of its kind, so that there is one function a type and
// none a pair of types.
struct Wide {
  enum Kind { kSigned, kUnsigned, kReal, kComplexKind } kind = kSigned;
  int64_t i = 0;
  uint64_t u = 0;
  std::complex<double> c;
};

template <class T>
Wide Widen(const void* data, int64_t at) {
  const T v = static_cast<const T*>(data)[at];
  Wide w;
  if constexpr (kComplex<T>) {
    w.kind = Wide::kComplexKind;
    w.c = {static_cast<double>(v.real()), static_cast<double>(v.imag())};
  } else if constexpr (std::is_same_v<T, bool> || (std::is_integral_v<T> && std::is_unsigned_v<T>)) {
    w.kind = Wide::kUnsigned;
    w.u = static_cast<uint64_t>(v);
  } else if constexpr (std::is_integral_v<T>) {
    w.i = v;
  } else {
    w.kind = Wide::kReal;
    w.c = static_cast<double>(v);
  }
  return w;
}

// False when the number has no place in a T.
template <class T>
bool Narrow(const Wide& w, T* out) {
  if constexpr (kComplex<T>) {
    const std::complex<double> c = w.kind == Wide::kSigned     ? static_cast<double>(w.i)
                                   : w.kind == Wide::kUnsigned ? static_cast<double>(w.u)
                                                               : w.c;
    *out = T(static_cast<typename T::value_type>(c.real()), static_cast<typename T::value_type>(c.imag()));
    return std::isinf(c.real()) == std::isinf(out->real()) && std::isinf(c.imag()) == std::isinf(out->imag());
  } else if constexpr (std::is_integral_v<T>) {
    if (w.kind == Wide::kReal || w.kind == Wide::kComplexKind) {
      const double d = w.c.real();
      if (w.c.imag() != 0 || !(d >= -9007199254740992.0 && d <= 9007199254740992.0) ||
          d != static_cast<double>(static_cast<int64_t>(d)))
        return false;
      return Narrow(Wide{Wide::kSigned, static_cast<int64_t>(d), 0, {}}, out);
    }
    if (w.kind == Wide::kSigned) {
      *out = static_cast<T>(w.i);
      return static_cast<int64_t>(*out) == w.i && (std::is_signed_v<T> || w.i >= 0);
    }
    *out = static_cast<T>(w.u);
    return static_cast<uint64_t>(*out) == w.u && *out >= T(0);
  } else {
    const double d = w.kind == Wide::kSigned     ? static_cast<double>(w.i)
                     : w.kind == Wide::kUnsigned ? static_cast<double>(w.u)
                                                 : w.c.real();
    if constexpr (std::is_same_v<T, double>) {
      *out = d;
    } else {
      *out = T(static_cast<float>(d));
    }
    return w.c.imag() == 0 && std::isinf(d) == std::isinf(static_cast<double>(*out));
  }
}

}  // namespace

absl::StatusOr<Tensor> ConvertTensor(const Tensor& from, DType dtype) {
  if (from.dtype() == dtype) return from;
  using WidenFn = Wide (*)(const void*, int64_t);
  const auto widen = VisitNumeric(from.dtype(), WidenFn(nullptr), []<class T>() -> WidenFn { return &Widen<T>; });
  Tensor to(dtype, from.shape());
  if (!to.valid()) return ResourceExhausted("no memory for ", Name(dtype), " ", from.shape().DebugString());
  int64_t bad = -1;
  const bool known = widen != nullptr && VisitNumeric(dtype, false, [&]<class T>() {
                       for (int64_t i = 0; i < from.num_elements() && bad < 0; ++i) {
                         if (!Narrow(widen(from.raw(), i), static_cast<T*>(to.raw()) + i)) bad = i;
                       }
                       return true;
                     });
  if (!known) return InvalidArgument("a ", Name(from.dtype()), " tensor cannot be made ", Name(dtype));
  if (bad >= 0) return InvalidArgument("element ", bad, " of the ", Name(from.dtype()), " tensor is no ", Name(dtype));
  return to;
}

}  // namespace troupe::tool
