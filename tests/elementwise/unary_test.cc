// Unary ops: every type against the C library in double or complex double, and special values.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/ops/run_op.h"

namespace troupe::test {
namespace unary_test {

using D = DType;
const std::vector<D> kFloats = {D::kHalf, D::kBfloat16, D::kFloat, D::kDouble};
const std::vector<D> kAll = {D::kHalf, D::kBfloat16, D::kFloat, D::kDouble, D::kComplex64, D::kComplex128};

struct UnaryCase {
  const char* op;
  Complex (*exact)(Complex);
  double low, high;
  bool complex_too;
};
double R(Complex c) { return c.real(); }

const UnaryCase kCases[] = {
    {"Neg", [](Complex x) { return -x; }, -3, 3, true},
    {"Abs", [](Complex x) { return Complex(std::abs(R(x))); }, -3, 3, false},
    {"Square", [](Complex x) { return x * x; }, -3, 3, true},
    {"Sqrt", [](Complex x) { return std::sqrt(x); }, 0, 9, true},
    {"Rsqrt", [](Complex x) { return 1.0 / std::sqrt(x); }, 0.1, 9, true},
    {"Inv", [](Complex x) { return 1.0 / x; }, 0.1, 9, true},
    {"Reciprocal", [](Complex x) { return 1.0 / x; }, 0.1, 9, true},
    {"Exp", [](Complex x) { return std::exp(x); }, -4, 4, true},
    {"Expm1", [](Complex x) { return std::exp(x) - 1.0; }, 0.5, 4, true},
    {"Log", [](Complex x) { return std::log(x); }, 1.5, 9, true},
    {"Log1p", [](Complex x) { return std::log(1.0 + x); }, 0.5, 9, true},
    {"Sin", [](Complex x) { return std::sin(x); }, 0.1, 3, true},
    {"Cos", [](Complex x) { return std::cos(x); }, -1.4, 1.4, true},
    {"Tan", [](Complex x) { return std::tan(x); }, 0.1, 1.2, true},
    {"Asin", [](Complex x) { return std::asin(x); }, 0.05, 0.95, true},
    {"Acos", [](Complex x) { return std::acos(x); }, 0.05, 0.95, true},
    {"Atan", [](Complex x) { return std::atan(x); }, 0.05, 0.95, true},
    {"Sinh", [](Complex x) { return std::sinh(x); }, 0.1, 3, true},
    {"Cosh", [](Complex x) { return std::cosh(x); }, 0.1, 1.4, true},
    {"Asinh", [](Complex x) { return std::asinh(x); }, 0.1, 3, true},
    {"Acosh", [](Complex x) { return std::acosh(x); }, 1.5, 3, true},
    {"Atanh", [](Complex x) { return std::atanh(x); }, 0.05, 0.9, true},
    {"Tanh", [](Complex x) { return std::tanh(x); }, 0.1, 1.4, true},
    {"Sigmoid", [](Complex x) { return 1.0 / (1.0 + std::exp(-x)); }, -3, 3, true},
    {"Erf", [](Complex x) { return Complex(std::erf(R(x))); }, -3, 3, false},
    {"Erfc", [](Complex x) { return Complex(std::erfc(R(x))); }, -3, 3, false},
    {"Lgamma", [](Complex x) { return Complex(std::lgamma(R(x))); }, 2.5, 9, false},
    {"Floor", [](Complex x) { return Complex(std::floor(R(x))); }, -9, 9, false},
    {"Ceil", [](Complex x) { return Complex(std::ceil(R(x))); }, -9, 9, false},
    {"Round", [](Complex x) { return Complex(std::nearbyint(R(x))); }, -9, 9, false},
    {"Sign", [](Complex x) { return x == 0.0 ? 0.0 : x / std::abs(x); }, -9, 9, true},
};

BOOST_AUTO_TEST_CASE(each_function_gives_the_plain_loops_values_for_every_type) {
  for (const UnaryCase& c : kCases) {
    for (D type : kAll) {
      if (IsComplex(type) && !c.complex_too) continue;
      for (const TensorShape& shape :
           {TensorShape(), TensorShape({7}), TensorShape({3, 45}), TensorShape({0, 2}), TensorShape({1111})}) {
        const Tensor x = Random(type, shape, c.low, c.high);
        const Tensor y = Run(c.op, {x});
        BOOST_REQUIRE(y.SameShape(x));
        int wrong = 0;
        for (int64_t i = 0; i < x.num_elements(); ++i)
          wrong += !Near(Get(y, i), c.exact(Get(x, i)), 4 * Tolerance(type));
        BOOST_CHECK_MESSAGE(wrong == 0, c.op << " " << x.TypeAndShape() << ": " << wrong << " wrong");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(functions_of_integers_are_exact) {
  for (D type : {D::kInt8, D::kInt16, D::kInt32, D::kInt64}) {
    const Tensor x = Random(type, {33}, -11, 11);
    const Tensor neg = Run("Neg", {x}), abs = Run("Abs", {x}), sign = Run("Sign", {x}), square = Run("Square", {x});
    for (int i = 0; i < 33; ++i) {
      const double v = Get(x, i).real();
      BOOST_CHECK_EQUAL(Get(neg, i).real(), -v);
      BOOST_CHECK_EQUAL(Get(abs, i).real(), std::abs(v));
      BOOST_CHECK_EQUAL(Get(sign, i).real(), (v > 0) - (v < 0));
      BOOST_CHECK_EQUAL(Get(square, i).real(), v * v);
    }
  }
  BOOST_CHECK_EQUAL(Run("Abs", {Tensor::Scalar<int32_t>(INT32_MIN)}).scalar<int32_t>(), INT32_MIN);
  BOOST_CHECK_EQUAL(Run("Invert", {Tensor::Scalar<uint8_t>(0xf0)}).scalar<uint8_t>(), 0x0f);
  BOOST_CHECK_EQUAL(Run("Square", {Tensor::Scalar<uint16_t>(65535)}).scalar<uint16_t>(), 1);
}

BOOST_AUTO_TEST_CASE(nan_infinity_and_zero_are_told_apart) {
  const double inf = INFINITY, nan = NAN;
  for (D type : kFloats) {
    Tensor x(type, {6});
    const double values[] = {nan, inf, -inf, 0.0, 1.0, -2.5};
    for (int i = 0; i < 6; ++i) Put(&x, i, values[i]);
    const Tensor is_nan = Run("IsNan", {x}), is_inf = Run("IsInf", {x}), finite = Run("IsFinite", {x});
    for (int i = 0; i < 6; ++i) {
      BOOST_CHECK_EQUAL(is_nan.data<bool>()[i], i == 0);
      BOOST_CHECK_EQUAL(is_inf.data<bool>()[i], i == 1 || i == 2);
      BOOST_CHECK_EQUAL(finite.data<bool>()[i], i > 2);
    }
    const Tensor round = Run("Round", {x});
    BOOST_CHECK_EQUAL(Get(round, 5).real(), -2);
    BOOST_CHECK(std::isnan(Get(Run("Sign", {x}), 0).real()));
  }
  // What no unsigned number is.
  const double beyond[] = {nan, inf, -inf, 1e20, -1e20, 18446744073709551616.0, 9223372036854775808.0, 3e9, -1.5};
  for (D type : {D::kFloat, D::kDouble}) {
    Tensor x(type, {9});
    for (int i = 0; i < 9; ++i) Put(&x, i, beyond[i]);
    const Tensor wide = Run("Cast", {x}, {{"DstT", D::kUint64}}), narrow = Run("Cast", {x}, {{"DstT", D::kUint32}});
    for (int i = 0; i < 7; ++i) {
      BOOST_CHECK_EQUAL(wide.data<uint64_t>()[i], uint64_t{1} << 63);
      BOOST_CHECK_EQUAL(narrow.data<uint32_t>()[i], 0u);
    }
    BOOST_CHECK_EQUAL(wide.data<uint64_t>()[7], 3000000000u);
    BOOST_CHECK_EQUAL(narrow.data<uint32_t>()[7], 3000000000u);
    BOOST_CHECK_EQUAL(wide.data<uint64_t>()[8], ~uint64_t{0});
    BOOST_CHECK_EQUAL(narrow.data<uint32_t>()[8], ~uint32_t{0});
  }
  // psi(1) is minus Euler's constant; psi has poles at 0, -1, ...
  BOOST_CHECK_CLOSE(Run("Digamma", {Tensor::Scalar(1.0)}).scalar<double>(), -0.57721566490153286, 1e-12);
  BOOST_CHECK_CLOSE(Run("Digamma", {Tensor::Scalar(-0.5)}).scalar<double>(), 0.036489973978576520, 1e-10);
  BOOST_CHECK(std::isnan(Run("Digamma", {Tensor::Scalar(-1.0)}).scalar<double>()));
}

BOOST_AUTO_TEST_CASE(complex_numbers_and_their_parts) {
  const Tensor x = Random(D::kComplex64, {9}, -2, 2), y = Random(D::kComplex128, {9}, -2, 2);
  const AttrMap wide = {{"Tout", D::kDouble}};
  for (int i = 0; i < 9; ++i) {
    BOOST_CHECK_EQUAL(Get(Run("Real", {x}), i).real(), Get(x, i).real());
    BOOST_CHECK_EQUAL(Get(Run("Imag", {y}, wide), i).real(), Get(y, i).imag());
    BOOST_CHECK(Near(Get(Run("ComplexAbs", {y}, wide), i), std::abs(Get(y, i)), 1e-15));
    BOOST_CHECK(Near(Get(Run("Angle", {y}, wide), i), std::arg(Get(y, i)), 1e-15));
    BOOST_CHECK_EQUAL(Get(Run("Conj", {x}), i), std::conj(Get(x, i)));
  }
  const Tensor made = Run("Complex", {Tensor::Of<double>({1, 2}, {2, 1}), Tensor::Vector<double>({3, 4, 5})},
                          {{"Tout", D::kComplex128}});
  BOOST_CHECK(made.HasShape({2, 3}));
  BOOST_CHECK_EQUAL(Get(made, 5), Complex(2, 5));
  BOOST_CHECK(Contains(ErrorOf("Real", {y}), "Tout"));
}

}  // namespace unary_test
}  // namespace troupe::test
