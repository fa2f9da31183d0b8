// Cast of every pair of types, selection, clipping, AddN, integer arithmetic at its borders.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/ops/run_op.h"

namespace troupe::test {
namespace choice_test {

using D = DType;
const std::vector<D> kAll = {D::kHalf,       D::kBfloat16, D::kFloat,  D::kDouble, D::kComplex64,
                             D::kComplex128, D::kInt8,     D::kInt16,  D::kInt32,  D::kInt64,
                             D::kUint8,      D::kUint16,   D::kUint32, D::kUint64, D::kBool};

BOOST_AUTO_TEST_CASE(every_pair_of_types) {
  for (D from : kAll) {
    for (D to : kAll) {
      const Tensor x = Random(from, {1030}, 0, 120);
      const Tensor y = Run("Cast", {x}, {{"DstT", to}});
      BOOST_REQUIRE(y.dtype() == to && y.SameShape(x));
      int wrong = 0;
      for (int64_t i = 0; i < 1030; ++i) {
        Complex v = Get(x, i);
        if (!IsComplex(to)) v = v.real();
        Tensor exact(to, {});
        Put(&exact, 0, v);
        wrong += Get(y, i) != Get(exact, 0);
      }
      BOOST_CHECK_MESSAGE(wrong == 0, Name(from) << " to " << Name(to) << ": " << wrong << " wrong");
    }
  }
}

BOOST_AUTO_TEST_CASE(floats_that_do_not_fit) {
  const Tensor x = Tensor::Vector<float>({NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 1.9f, -1.9f, 300.0f});
  const auto cast = [&](D to) { return Run("Cast", {x}, {{"DstT", to}}); };
  const Tensor i32 = cast(D::kInt32), i64 = cast(D::kInt64), u8 = cast(D::kUint8), u32 = cast(D::kUint32);
  for (int i : {0, 1, 2, 3, 4}) BOOST_CHECK_EQUAL(i32.data<int32_t>()[i], INT32_MIN);
  BOOST_CHECK_EQUAL(i32.data<int32_t>()[5], 1);
  BOOST_CHECK_EQUAL(i32.data<int32_t>()[6], -1);
  for (int i : {0, 1, 2}) BOOST_CHECK_EQUAL(i64.data<int64_t>()[i], INT64_MIN);
  BOOST_CHECK_EQUAL(i64.data<int64_t>()[4], -3000000000);
  BOOST_CHECK_EQUAL(u8.data<uint8_t>()[7], 44);
  BOOST_CHECK_EQUAL(u32.data<uint32_t>()[3], 3000000000u);
}

BOOST_AUTO_TEST_CASE(truncating_and_rounding_casts) {
  const Tensor x = Tensor::Vector<float>({1.9999999f, -1.9999999f});
  for (D to : {D::kHalf, D::kBfloat16}) {
    const Tensor rounded = Run("Cast", {x}, {{"DstT", to}}), cut = Run("Cast", {x}, {{"DstT", to}, {"Truncate", true}});
    BOOST_CHECK_EQUAL(Get(rounded, 0).real(), 2);
    BOOST_CHECK_LT(Get(cut, 0).real(), 2);
    BOOST_CHECK_GT(Get(cut, 1).real(), -2);
  }
  BOOST_CHECK(Contains(ErrorOf("Cast", {Tensor::Scalar("a")}, {{"DstT", D::kFloat}}),
                       "Cast string to float32 is not supported"));
}

BOOST_AUTO_TEST_CASE(select_broadcasts_or_chooses_rows) {
  for (D type : kAll) {
    const Tensor c = Random(D::kBool, {3, 1}, -1, 1), t = Random(type, {4}, 0, 50, 2),
                 e = Random(type, {2, 1, 1}, 0, 50, 3);
    const Tensor z = Run("SelectV2", {c, t, e});
    const TensorShape out({2, 3, 4});
    BOOST_REQUIRE(z.HasShape(out));
    int wrong = 0;
    for (int64_t i = 0; i < 24; ++i) {
      const bool first = c.data<bool>()[BroadcastIndex(out, {3, 1}, i)];
      wrong += Get(z, i) != (first ? Get(t, BroadcastIndex(out, {4}, i)) : Get(e, BroadcastIndex(out, {2, 1, 1}, i)));
    }
    BOOST_CHECK_EQUAL(wrong, 0);
  }
  const Tensor a = Tensor::Of<float>({1, 2, 3, 4}, {2, 2}), b = Tensor::Of<float>({5, 6, 7, 8}, {2, 2});
  Tensor rows(D::kBool, {2});
  rows.data<bool>()[0] = false;
  rows.data<bool>()[1] = true;
  BOOST_CHECK_EQUAL(Run("Select", {rows, a, b}).DebugString(), "float32 [2,2] [5 6 3 4]");
  BOOST_CHECK(ErrorOf("Select", {Tensor(D::kBool, {3}), a, b}) != "no error");
  BOOST_CHECK(ErrorOf("Select", {rows, a, Tensor(D::kFloat, {2, 3})}) != "no error");
  const Tensor s = Run("SelectV2", {rows, Tensor::Vector<std::string>({"a", "b"}), Tensor::Scalar("c")});
  BOOST_CHECK_EQUAL(s.data<std::string>()[0] + s.data<std::string>()[1], "cb");
}

BOOST_AUTO_TEST_CASE(clipping_keeps_nan_and_wants_scalars_or_the_same_shape) {
  const Tensor x = Tensor::Vector<float>({-1, 0.5, 3, NAN}), low = Tensor::Scalar(0.0f), high = Tensor::Scalar(1.0f);
  const Tensor z = Run("ClipByValue", {x, low, high});
  BOOST_CHECK_EQUAL(z.data<float>()[0], 0);
  BOOST_CHECK_EQUAL(z.data<float>()[1], 0.5f);
  BOOST_CHECK_EQUAL(z.data<float>()[2], 1);
  BOOST_CHECK(std::isnan(z.data<float>()[3]));
  BOOST_CHECK(Contains(ErrorOf("ClipByValue", {x, Tensor(D::kFloat, {3}), high}),
                       "either of the same shape as input, or a scalar"));
}

BOOST_AUTO_TEST_CASE(add_n_adds_all) {
  for (D type : {D::kHalf, D::kFloat, D::kInt8, D::kComplex128, D::kUint64}) {
    std::vector<Tensor> in;
    for (int i = 0; i < 5; ++i) in.push_back(Random(type, {50, 60}, 0, 4, i + 1));
    const Tensor z = Run("AddN", in, {}, {5});
    int wrong = 0;
    for (int64_t j = 0; j < 3000; ++j) {
      Complex sum = 0;
      for (const Tensor& t : in) sum += Get(t, j);
      wrong += !Near(Get(z, j), sum, Tolerance(type));
    }
    BOOST_CHECK_EQUAL(wrong, 0);
  }
  BOOST_CHECK(Contains(ErrorOf("AddN", {Tensor(D::kFloat, {2}), Tensor(D::kFloat, {3})}, {}, {2}),
                       "must have the same size and shape"));
}

BOOST_AUTO_TEST_CASE(integer_borders) {
  const auto run = [](const char* op, int32_t x, int32_t y) {
    return Run(op, {Tensor::Scalar(x), Tensor::Scalar(y)}).scalar<int32_t>();
  };
  BOOST_CHECK_EQUAL(run("FloorDiv", -7, 2), -4);
  BOOST_CHECK_EQUAL(run("TruncateDiv", -7, 2), -3);
  BOOST_CHECK_EQUAL(run("FloorMod", -7, 2), 1);
  BOOST_CHECK_EQUAL(run("FloorMod", 5, -3), -1);
  BOOST_CHECK_EQUAL(run("TruncateMod", -7, 2), -1);
  for (const char* op : {"FloorDiv", "TruncateDiv", "Div"}) BOOST_CHECK_EQUAL(run(op, INT32_MIN, -1), INT32_MIN);
  for (const char* op : {"FloorMod", "TruncateMod", "Mod"}) BOOST_CHECK_EQUAL(run(op, INT32_MIN, -1), 0);
  BOOST_CHECK_EQUAL(run("LeftShift", 1, 40), INT32_MIN);
  BOOST_CHECK_EQUAL(run("RightShift", -8, 40), -1);
  BOOST_CHECK_EQUAL(run("RightShift", -8, -1), -8);
  BOOST_CHECK(Contains(ErrorOf("FloorMod", {Tensor::Scalar(1), Tensor::Scalar(0)}), "Integer division by zero"));
  BOOST_CHECK_EQUAL(Run("DivNoNan", {Tensor::Scalar(1.0f), Tensor::Scalar(0.0f)}).scalar<float>(), 0);
  BOOST_CHECK_EQUAL(Run("MulNoNan", {Tensor::Scalar(NAN), Tensor::Scalar(0.0f)}).scalar<float>(), 0);
  BOOST_CHECK_EQUAL(Run("Xlogy", {Tensor::Scalar(0.0f), Tensor::Scalar(0.0f)}).scalar<float>(), 0);
  BOOST_CHECK_EQUAL(Run("Cross", {Tensor::Vector<float>({1, 0, 0}), Tensor::Vector<float>({0, 1, 0})}).DebugString(),
                    "float32 [3] [0 0 1]");
}

}  // namespace choice_test
}  // namespace troupe::test
