// What the tests of single ops share: deterministic inputs of any type, values read back as complex
// doubles, and running one op.
#ifndef TROUPE_TESTS_OPS_RUN_OP_H_
#define TROUPE_TESTS_OPS_RUN_OP_H_

#include <boost/test/unit_test.hpp>
#include <complex>
#include <functional>
#include <string>
#include <vector>

#include "troupe/evaluate.h"

namespace troupe::test {

using Complex = std::complex<double>;

// A small repeatable generator.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  double Uniform(double low, double high) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return low + (high - low) * static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }

 private:
  uint64_t state_;
};

inline void Put(Tensor* t, int64_t i, Complex v) {
  const bool known = VisitNumeric(t->dtype(), false, [&]<class T>() {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Complex>) {
      t->data<T>()[i] = T(v);
    } else if constexpr (std::is_same_v<T, bool>) {
      t->data<T>()[i] = v.real() != 0;
    } else if constexpr (std::is_integral_v<T>) {
      t->data<T>()[i] = static_cast<T>(static_cast<int64_t>(v.real()));
    } else {
      t->data<T>()[i] = T(v.real());
    }
    return true;
  });
  BOOST_REQUIRE(known);
}
inline Complex Get(const Tensor& t, int64_t i) {
  return VisitNumeric(t.dtype(), Complex(0), [&]<class T>() -> Complex {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Complex>) {
      return Complex(t.data<T>()[i]);
    } else {
      return static_cast<double>(t.data<T>()[i]);
    }
  });
}

inline Tensor Random(DType type, const TensorShape& shape, double low, double high, uint64_t seed = 1) {
  Tensor t(type, shape);
  Numbers numbers(seed);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double re = numbers.Uniform(low, high), im = numbers.Uniform(low, high);
    Put(&t, i, IsComplex(type) ? Complex(re, im) : Complex(re));
  }
  return t;
}

inline std::vector<Tensor> RunAll(std::string_view op, std::vector<Tensor> in, AttrMap attrs = {},
                                  std::vector<int> lists = {}, int threads = 1) {
  EvaluateOptions options;
  options.threads = threads;
  absl::StatusOr<std::vector<Tensor>> out = EvaluateOp(op, std::move(in), std::move(attrs), std::move(lists), options);
  BOOST_REQUIRE_MESSAGE(out.ok(), std::string(op) << ": " << out.status().ToString());
  return *std::move(out);
}
inline Tensor Run(std::string_view op, std::vector<Tensor> in, AttrMap attrs = {}, std::vector<int> lists = {},
                  int threads = 1) {
  return RunAll(op, std::move(in), std::move(attrs), std::move(lists), threads)[0];
}
// The message of the error that the op must give.
inline std::string ErrorOf(std::string_view op, std::vector<Tensor> in, AttrMap attrs = {},
                           std::vector<int> lists = {}) {
  const auto out = EvaluateOp(op, std::move(in), std::move(attrs), std::move(lists));
  if (out.ok()) return "no error";
  return std::string(out.status().message());
}
inline bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A relative error that the type's arithmetic may have.
inline double Tolerance(DType t) {
  switch (t) {
    case DType::kHalf:
      return 2e-3;
    case DType::kBfloat16:
      return 1.6e-2;
    case DType::kFloat:
      return 1e-6;
    case DType::kComplex64:
      return 3e-6;
    case DType::kDouble:
    case DType::kComplex128:
      return 1e-13;
    default:
      return 0;
  }
}
inline bool Near(Complex a, Complex b, double relative) {
  const auto near = [&](double x, double y) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (x == y) return true;
    return std::abs(x - y) <= relative * std::max({std::abs(a), std::abs(b), 1e-3});
  };
  return near(a.real(), b.real()) && near(a.imag(), b.imag());
}

// Flat index into `shape` of the element that an operand of that shape contributes to element `i`
// of `out`.
inline int64_t BroadcastIndex(const TensorShape& out, const TensorShape& shape, int64_t i) {
  int64_t index = 0, stride = 1;
  for (int d = out.rank() - 1, s = shape.rank() - 1; d >= 0; --d, --s) {
    const int64_t at = i % out.dim(d);
    i /= out.dim(d);
    if (s >= 0) {
      if (shape.dim(s) != 1) index += at * stride;
      stride *= shape.dim(s);
    }
  }
  return index;
}

}  // namespace troupe::test

#endif  // TROUPE_TESTS_OPS_RUN_OP_H_
