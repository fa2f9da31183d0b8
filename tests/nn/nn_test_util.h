// Tensors of reproducible values, naive comparisons and one-line op calls for the tests of
// kernels/nn.
#ifndef TROUPE_TESTS_NN_NN_TEST_UTIL_H_
#define TROUPE_TESTS_NN_NN_TEST_UTIL_H_

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "troupe/evaluate.h"

namespace troupe {

// Values in [-2, 2], the same on every machine; multiples of 1/16, so that small integers and
// halves hold them well.
inline std::vector<double> RandomValues(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<double> v(n);
  for (double& x : v) x = (static_cast<int>(rng() % 65) - 32) / 16.0;
  return v;
}

// A tensor of any numeric dtype with these values (converted).
inline Tensor MakeTensor(DType dtype, const TensorShape& shape, const std::vector<double>& values) {
  Tensor t(dtype, shape);
  VisitNumeric<int>(dtype, 0, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        t.data<T>()[i] = T(values[i], values[(i * 7 + 3) % values.size()]);
      } else {
        t.data<T>()[i] = static_cast<T>(values[i]);
      }
    }
    return 0;
  });
  return t;
}

inline Tensor RandomTensor(DType dtype, const TensorShape& shape, uint32_t seed) {
  std::vector<double> v = RandomValues(shape.num_elements(), seed);
  if (IsInteger(dtype)) {
    for (double& x : v) x = std::floor(IsUnsigned(dtype) ? std::abs(x * 4) : x * 4);
  }
  return MakeTensor(dtype, shape, v);
}

// The values as doubles (real parts).
inline std::vector<double> ToDoubles(const Tensor& t) {
  std::vector<double> v(t.num_elements());
  VisitNumeric<int>(t.dtype(), 0, [&]<class T>() {
    for (size_t i = 0; i < v.size(); ++i) {
      if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        v[i] = t.data<T>()[i].real();
      } else {
        v[i] = static_cast<double>(t.data<T>()[i]);
      }
    }
    return 0;
  });
  return v;
}

// How far a result of this type may be from the exact one, relative to the largest value.
inline double Tolerance(DType t) {
  switch (t) {
    case DType::kFloat:
      return 2e-6;
    case DType::kDouble:
      return 1e-13;
    case DType::kHalf:
      return 2e-3;
    case DType::kBfloat16:
      return 1.2e-2;
    default:
      return 0;
  }
}

inline void CheckClose(const Tensor& got, const std::vector<double>& want, const std::string& what, double factor = 1) {
  const std::vector<double> v = ToDoubles(got);
  BOOST_REQUIRE_MESSAGE(v.size() == want.size(), what << ": " << v.size() << " elements, not " << want.size());
  double largest = 1, worst = 0;
  size_t at = 0;
  for (double w : want) largest = std::max(largest, std::isfinite(w) ? std::abs(w) : 0);
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i] == want[i] || (std::isnan(v[i]) && std::isnan(want[i]))) continue;
    const double e = std::abs(v[i] - want[i]);
    if (!(e <= worst)) worst = std::isnan(e) ? INFINITY : e, at = i;
  }
  BOOST_CHECK_MESSAGE(worst <= factor * Tolerance(got.dtype()) * largest, what << ": element " << at << " is "
                                                                               << (v.empty() ? 0 : v[at]) << ", not "
                                                                               << (want.empty() ? 0 : want[at]));
}

inline bool IsSmall(DType t) { return t == DType::kHalf || t == DType::kBfloat16; }
// CheckClose where complex numbers are as exact as their parts.
inline void CheckValues(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  if (!IsComplex(got.dtype())) return CheckClose(got, want, what);
  const std::vector<double> v = ToDoubles(got);
  CheckClose(MakeTensor(got.dtype() == DType::kComplex64 ? DType::kFloat : DType::kDouble, got.shape(), v), want, what);
}

// The outputs; a failure fails the test.
inline std::vector<Tensor> Run(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs = {}, int threads = 1) {
  EvaluateOptions options;
  options.threads = threads;
  auto out = EvaluateOp(op, std::move(inputs), std::move(attrs), {}, options);
  BOOST_REQUIRE_MESSAGE(out.ok(), std::string(op) << ": " << out.status().ToString());
  return *std::move(out);
}

// Checks that the op is refused with INVALID_ARGUMENT and a message that contains `part`.
inline void CheckRefused(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs, const std::string& part) {
  auto out = EvaluateOp(op, std::move(inputs), std::move(attrs));
  BOOST_REQUIRE_MESSAGE(!out.ok(), std::string(op) << " was not refused; expected: " << part);
  BOOST_CHECK_MESSAGE(out.status().code() == absl::StatusCode::kInvalidArgument, out.status().ToString());
  BOOST_CHECK_MESSAGE(std::string(out.status().message()).find(part) != std::string::npos,
                      "'" << out.status().ToString() << "' lacks '" << part << "'");
}

inline bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.SameShape(b) && (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

}  // namespace troupe

#endif  // TROUPE_TESTS_NN_NN_TEST_UTIL_H_
