// Literals: nested lists to tensors, and the choice of their type.
#include <cmath>
#include <complex>
#include <limits>

#include "troupe/output.h"

namespace troupe {

namespace {

// One number, without loss for every numeric type.
struct Number {
  enum Kind { kInt, kUint, kReal } kind = kReal;
  int64_t i = 0;
  uint64_t u = 0;
  double re = 0, im = 0;
};

template <class T>
Number ToNumber(const T& v) {
  Number n;
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    n.re = v.real();
    n.im = v.imag();
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    n.kind = Number::kInt;
    n.i = v;
  } else if constexpr (std::is_integral_v<T>) {
    n.kind = Number::kUint;
    n.u = v;
  } else {
    n.re = static_cast<double>(static_cast<float>(v));
    if constexpr (std::is_same_v<T, double>) n.re = v;
  }
  return n;
}

// False when `to` cannot represent it.
template <class T>
bool FromNumber(const Number& n, T* to) {
  const double real = n.kind == Number::kInt    ? static_cast<double>(n.i)
                      : n.kind == Number::kUint ? static_cast<double>(n.u)
                                                : n.re;
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    using R = typename T::value_type;
    *to = T(static_cast<R>(real), static_cast<R>(n.im));
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    return false;
  } else if constexpr (std::is_integral_v<T>) {
    if (n.kind == Number::kReal) return false;
    if (n.kind == Number::kInt && !std::in_range<T>(n.i)) return false;
    if (n.kind == Number::kUint && !std::in_range<T>(n.u)) return false;
    *to = n.kind == Number::kInt ? static_cast<T>(n.i) : static_cast<T>(n.u);
    return true;
  } else if constexpr (std::is_same_v<T, double>) {
    *to = real;
    return n.im == 0;
  } else {
    *to = T(static_cast<float>(real));
    return n.im == 0;
  }
}

}  // namespace

absl::StatusOr<Tensor> ConvertLiteral(const Tensor& value, DType dtype) {
  if (!value.valid()) return InvalidArgument("a tensor without a value cannot be converted to ", Name(dtype));
  if (value.dtype() == dtype) return value;
  Tensor result(dtype, value.shape());
  if (!result.valid()) return ResourceExhausted("no memory for a literal of shape ", value.shape().DebugString());
  const int64_t n = value.num_elements();
  if (n == 0) return result;
  // Element by element through Number: literals are small.
  std::vector<Number> numbers(n);
  const bool readable = VisitNumeric(value.dtype(), false, [&]<class T>() {
    if (std::is_same_v<T, bool>) return false;
    for (int64_t i = 0; i < n; ++i) numbers[i] = ToNumber(value.data<T>()[i]);
    return true;
  });
  int64_t bad = -1;
  const bool writable = VisitNumeric(dtype, false, [&]<class T>() {
    for (int64_t i = 0; i < n && bad < 0; ++i) {
      if (!FromNumber(numbers[i], &result.data<T>()[i])) bad = i;
    }
    return true;
  });
  if (!readable || !writable) {
    return InvalidArgument("a ", Name(value.dtype()), " literal cannot stand for a value of type ", Name(dtype));
  }
  if (bad >= 0) {
    return InvalidArgument("the literal ", value.DebugString(), " cannot be represented as ", Name(dtype));
  }
  return result;
}

void Literal::SetList(std::initializer_list<Literal> list) {
  if (list.size() == 0) {
    value_ = Tensor(DType::kFloat, TensorShape({0}));
    return;
  }
  // The type of all: that of the first, or, where integers and floating point mix, the floating
  // one.
  DType dtype = list.begin()->value_.dtype();
  TensorShape shape = list.begin()->value_.valid() ? list.begin()->value_.shape() : TensorShape();
  for (const Literal& l : list) {
    if (!l.error_.ok()) {
      error_ = l.error_;
      return;
    }
    weak_ = weak_ && l.weak_;
    const DType t = l.value_.dtype();
    if (l.value_.shape() != shape) {
      error_ = InvalidArgument("a list literal must be rectangular, but has elements of shape ", shape.DebugString(),
                               " and ", l.value_.shape().DebugString());
      return;
    }
    if (IsInteger(dtype) && (IsFloating(t) || IsComplex(t))) dtype = t;
    if (IsFloating(dtype) && (IsComplex(t) || t == DType::kDouble)) dtype = t;
    if (dtype == DType::kInt32 && t == DType::kInt64) dtype = t;
  }
  shape.InsertDim(0, static_cast<int64_t>(list.size()));
  value_ = Tensor(dtype, shape);
  int64_t at = 0;
  for (const Literal& l : list) {
    absl::StatusOr<Tensor> part = ConvertLiteral(l.value_, dtype);
    if (!part.ok()) {
      error_ = InvalidArgument("a list literal mixes ", Name(dtype), " and ", Name(l.value_.dtype()));
      return;
    }
    const int64_t n = part->num_elements();
    if (dtype == DType::kString) {
      std::copy_n(part->data<std::string>(), n, value_.data<std::string>() + at);
    } else {
      std::memcpy(static_cast<char*>(value_.raw()) + at * SizeOf(dtype), part->raw(), n * SizeOf(dtype));
    }
    at += n;
  }
}

}  // namespace troupe
