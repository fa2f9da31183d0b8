// Binary ops: every type against a naive loop in complex double, broadcasting, errors, special
// values.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "tests/ops/run_op.h"

namespace troupe::test {
namespace binary_test {

using D = DType;
const std::vector<D> kFloating = {D::kHalf, D::kBfloat16, D::kFloat, D::kDouble};
const std::vector<D> kInts = {D::kInt8, D::kInt16, D::kInt32, D::kInt64, D::kUint8, D::kUint16, D::kUint32, D::kUint64};
const std::vector<D> kComplexes = {D::kComplex64, D::kComplex128};

std::vector<D> Join(std::initializer_list<std::vector<D>> lists) {
  std::vector<D> all;
  for (const auto& l : lists) all.insert(all.end(), l.begin(), l.end());
  return all;
}

struct BinaryCase {
  const char* op;
  Complex (*exact)(Complex, Complex);
  std::vector<D> types;
  double low, high;  // of both operands
};
double R(Complex c) { return c.real(); }

const BinaryCase kCases[] = {
    {"Add",
     [](Complex a, Complex b) { return a + b; },
     {D::kHalf, D::kBfloat16, D::kFloat, D::kDouble, D::kUint8, D::kInt8, D::kInt16, D::kInt32, D::kInt64,
      D::kComplex64, D::kComplex128},
     1,
     50},
    {"AddV2", [](Complex a, Complex b) { return a + b; }, Join({kFloating, kInts, kComplexes}), 1, 50},
    {"Sub", [](Complex a, Complex b) { return a - b; },
     Join({kFloating, kComplexes, {D::kInt8, D::kInt16, D::kInt32, D::kInt64}}), 1, 50},
    {"Mul", [](Complex a, Complex b) { return a * b; }, Join({kFloating, kInts, kComplexes}), 1, 10},
    {"RealDiv", [](Complex a, Complex b) { return a / b; }, Join({kFloating, kComplexes}), 1, 10},
    {"Div", [](Complex a, Complex b) { return a / b; }, Join({kFloating, kComplexes}), 1, 10},
    {"Div", [](Complex a, Complex b) { return Complex(std::trunc(R(a) / R(b))); }, kInts, 1, 100},
    {"Maximum", [](Complex a, Complex b) { return Complex(std::max(R(a), R(b))); }, Join({kFloating, kInts}), 0, 100},
    {"Minimum", [](Complex a, Complex b) { return Complex(std::min(R(a), R(b))); }, Join({kFloating, kInts}), 0, 100},
    {"Pow", [](Complex a, Complex b) { return std::pow(a, b); }, Join({{D::kFloat, D::kDouble}, kComplexes}), 0.5, 3},
    {"Pow",
     [](Complex a, Complex b) { return Complex(std::round(std::pow(R(a), R(b)))); },
     {D::kInt8, D::kInt16, D::kInt32, D::kInt64},
     0,
     4.2},
    {"Less", [](Complex a, Complex b) { return Complex(R(a) < R(b)); }, Join({kFloating, kInts}), 0, 5},
    {"LessEqual", [](Complex a, Complex b) { return Complex(R(a) <= R(b)); }, Join({kFloating, kInts}), 0, 5},
    {"Greater", [](Complex a, Complex b) { return Complex(R(a) > R(b)); }, Join({kFloating, kInts}), 0, 5},
    {"GreaterEqual", [](Complex a, Complex b) { return Complex(R(a) >= R(b)); }, Join({kFloating, kInts}), 0, 5},
    {"Equal", [](Complex a, Complex b) { return Complex(a == b); }, Join({kFloating, kInts, kComplexes, {D::kBool}}), 0,
     3},
    {"NotEqual", [](Complex a, Complex b) { return Complex(a != b); }, Join({kFloating, kInts, kComplexes, {D::kBool}}),
     0, 3},
    {"LogicalAnd", [](Complex a, Complex b) { return Complex(R(a) != 0 && R(b) != 0); }, {D::kBool}, 0, 1},
    {"LogicalOr", [](Complex a, Complex b) { return Complex(R(a) != 0 || R(b) != 0); }, {D::kBool}, 0, 1},
};

struct Shapes {
  TensorShape a, b, out;
};
const Shapes kShapes[] = {
    {{}, {}, {}},
    {{5}, {5}, {5}},
    {{}, {4}, {4}},
    {{4}, {}, {4}},
    {{1}, {4}, {4}},
    {{3, 1}, {1, 4}, {3, 4}},
    {{1, 4}, {3, 1}, {3, 4}},
    {{2, 3, 4}, {4}, {2, 3, 4}},
    {{3, 1}, {2, 3, 4}, {2, 3, 4}},
    {{2, 1, 3, 1, 2}, {4, 1, 5, 1}, {2, 4, 3, 5, 2}},
    {{2, 3, 4}, {2, 1, 1}, {2, 3, 4}},
    {{1, 1}, {1}, {1, 1}},
    {{0, 3}, {3}, {0, 3}},
    {{0}, {}, {0}},
    {{2, 0}, {1, 1}, {2, 0}},
    {{700, 3}, {3}, {700, 3}},
    {{1300}, {1300}, {1300}},
    {{1, 2, 1, 2, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1, 2, 1}, {2, 2, 2, 2, 2, 2, 2, 2}},
};

BOOST_AUTO_TEST_CASE(every_type_and_shape) {
  for (const BinaryCase& c : kCases) {
    for (D type : c.types) {
      for (const Shapes& s : kShapes) {
        const Tensor a = Random(type, s.a, c.low, c.high, 1), b = Random(type, s.b, c.low, c.high, 2);
        const Tensor z = Run(c.op, {a, b});
        BOOST_REQUIRE_MESSAGE(z.HasShape(s.out), c.op << " " << z.TypeAndShape());
        int wrong = 0;
        for (int64_t i = 0; i < z.num_elements(); ++i) {
          Complex exact = c.exact(Get(a, BroadcastIndex(s.out, s.a, i)), Get(b, BroadcastIndex(s.out, s.b, i)));
          // Where the type cannot hold the exact result it wraps around.
          if (IsInteger(z.dtype())) {
            Tensor wrapped(z.dtype(), {});
            Put(&wrapped, 0, exact);
            exact = Get(wrapped, 0);
          }
          wrong += !Near(Get(z, i), exact, Tolerance(type));
        }
        BOOST_CHECK_MESSAGE(wrong == 0,
                            c.op << " " << a.TypeAndShape() << " " << b.TypeAndShape() << ": " << wrong << " wrong");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_broadcast_are_refused) {
  const Tensor a(D::kFloat, {3}), b(D::kFloat, {2});
  BOOST_CHECK(Contains(ErrorOf("AddV2", {a, b}), "ncompatible shapes: [3] vs. [2]") ||
              Contains(ErrorOf("AddV2", {a, b}), "[3]"));
  BOOST_CHECK(Contains(ErrorOf("Equal", {a, b}), "[3]"));
  const Tensor e = Run("Equal", {a, b}, {{"incompatible_shape_error", false}});
  BOOST_CHECK(e.rank() == 0 && !*e.data<bool>());
  const Tensor n = Run("NotEqual", {a, b}, {{"incompatible_shape_error", false}});
  BOOST_CHECK(n.rank() == 0 && *n.data<bool>());
  const Tensor both = Run("Equal", {a, a}, {{"incompatible_shape_error", false}});
  BOOST_CHECK(both.HasShape({3}));
  BOOST_CHECK(ErrorOf("TanhGrad", {a, b}) != "no error");
}

BOOST_AUTO_TEST_CASE(integers_are_not_divided_by_zero) {
  for (D type : kInts) {
    Tensor zero = Random(type, {4}, 1, 5);
    Put(&zero, 2, 0);
    BOOST_CHECK(Contains(ErrorOf("Div", {Random(type, {4}, 1, 5), zero}), "Integer division by zero"));
    BOOST_CHECK(Contains(ErrorOf("Div", {Random(type, {3, 4}, 1, 5), zero}), "Integer division by zero"));
    // Nothing is divided.
    BOOST_CHECK_EQUAL(Run("Div", {Tensor(type, {0}), Random(type, {}, 0, 0.5)}).num_elements(), 0);
  }
  const Tensor z = Run("Div", {Tensor::Vector<int32_t>({INT32_MIN, -7, 7}), Tensor::Vector<int32_t>({-1, 2, -2})});
  BOOST_CHECK_EQUAL(z.data<int32_t>()[0], INT32_MIN);
  BOOST_CHECK_EQUAL(z.data<int32_t>()[1], -3);
  BOOST_CHECK_EQUAL(z.data<int32_t>()[2], -3);
  BOOST_CHECK(Contains(ErrorOf("Pow", {Tensor::Vector<int32_t>({2, 2}), Tensor::Vector<int32_t>({1, -1})}),
                       "Integers to negative integer powers are not allowed"));
}

// Products and roots stand for pow where one exponent serves all elements: the same special values,
// and the rest to a rounding.
BOOST_AUTO_TEST_CASE(one_exponent_for_all_elements) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0, -0.0, inf, -inf, std::nan(""), 1, -1, 1e-37, -1e-37, 3e38, -3e38};
  for (int i = 0; i < 200; ++i) values.push_back((i - 60) * 0.37);
  const auto check = [&]<class T>(T) {
    Tensor x(kDTypeOf<T>, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) x.data<T>()[i] = static_cast<T>(values[i]);
    for (double y : {2.0, 3.0, 1.0, -1.0, 0.5, -0.5, 0.0, 1.5, -2.0, 7.0, inf, std::nan("")}) {
      const Tensor z = Run("Pow", {x, Tensor::Scalar<T>(static_cast<T>(y))});
      for (size_t i = 0; i < values.size(); ++i) {
        const T got = z.data<T>()[i], want = std::pow(x.data<T>()[i], static_cast<T>(y));
        const bool same = std::isnan(want) ? std::isnan(got)
                          : std::isinf(want) || want == 0
                              ? got == want && std::signbit(got) == std::signbit(want)
                              : std::abs(got - want) <= 2 * std::numeric_limits<T>::epsilon() * std::abs(want);
        BOOST_CHECK_MESSAGE(same, x.data<T>()[i] << " to the power of " << y << " is " << got << ", not " << want);
      }
    }
  };
  check(double());
  check(float());
}

BOOST_AUTO_TEST_CASE(nan_wins_in_maximum_and_minimum) {
  const double nan = std::nan("");
  for (D type : kFloating) {
    for (const char* op : {"Maximum", "Minimum"}) {
      Tensor a(type, {70}), b(type, {70});
      for (int i = 0; i < 70; ++i) {
        Put(&a, i, i % 3 == 0 ? nan : 1);
        Put(&b, i, i % 5 == 0 ? nan : 2);
      }
      const Tensor z = Run(op, {a, b});
      for (int i = 0; i < 70; ++i) {
        BOOST_CHECK_EQUAL(std::isnan(Get(z, i).real()), i % 3 == 0 || i % 5 == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(strings_are_concatenated_and_compared) {
  const Tensor a = Tensor::Of<std::string>({"a", "bb"}, {2, 1}), b = Tensor::Vector<std::string>({"x", "a"});
  const Tensor z = Run("Add", {a, b});
  BOOST_REQUIRE(z.HasShape({2, 2}));
  BOOST_CHECK_EQUAL(z.data<std::string>()[0], "ax");
  BOOST_CHECK_EQUAL(z.data<std::string>()[3], "bba");
  const Tensor e = Run("Equal", {a, b});
  BOOST_CHECK(!e.data<bool>()[0] && e.data<bool>()[1] && !e.data<bool>()[2]);
}

// The output takes an input's buffer when nobody else holds it, and only then.
BOOST_AUTO_TEST_CASE(buffers_are_reused) {
  Tensor a = Random(D::kFloat, {100}, 1, 2), b = Random(D::kFloat, {100}, 1, 2, 3);
  const Tensor kept = a.Clone();
  const void* at = a.raw();
  std::vector<Tensor> in;
  in.push_back(std::move(a));
  in.push_back(b);
  const Tensor z = Run("AddV2", std::move(in));
  BOOST_CHECK_EQUAL(z.raw(), at);
  for (int i = 0; i < 100; ++i) BOOST_CHECK_EQUAL(z.data<float>()[i], kept.data<float>()[i] + b.data<float>()[i]);
  const Tensor twice = Run("AddV2", {b, b});
  BOOST_CHECK(twice.raw() != b.raw());
  BOOST_CHECK_EQUAL(twice.data<float>()[7], 2 * b.data<float>()[7]);
}

BOOST_AUTO_TEST_CASE(many_threads_give_the_same) {
  for (const Shapes& s :
       {Shapes{{400, 1, 300}, {50, 1}, {400, 50, 300}}, Shapes{{1000, 700}, {1000, 700}, {1000, 700}}}) {
    const Tensor a = Random(D::kFloat, s.a, 1, 2, 5), b = Random(D::kFloat, s.b, 1, 2, 6);
    const Tensor one = Run("Mul", {a, b}), four = Run("Mul", {a, b}, {}, {}, 4);
    BOOST_CHECK(std::memcmp(one.raw(), four.raw(), one.bytes()) == 0);
  }
}

}  // namespace binary_test
}  // namespace troupe::test
