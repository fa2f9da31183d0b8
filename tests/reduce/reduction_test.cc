// Reductions, arg reductions, scans and segments against naive loops.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "tests/ops/run_op.h"

namespace troupe::test {
namespace reduction_test {

using D = DType;

Tensor Axes(std::vector<int32_t> axes) { return Tensor::Vector<int32_t>(absl::Span<const int32_t>(axes)); }

struct ReduceCase {
  const char* op;
  Complex identity;
  Complex (*fold)(Complex, Complex);
  std::vector<D> types;
  double low, high;
};
const std::vector<D> kMany = {D::kHalf, D::kBfloat16, D::kFloat, D::kDouble, D::kComplex64, D::kComplex128,
                              D::kInt8, D::kInt32,    D::kInt64, D::kUint8,  D::kUint16};
const std::vector<D> kReal = {D::kHalf,  D::kBfloat16, D::kFloat, D::kDouble, D::kInt8,
                              D::kInt16, D::kInt32,    D::kInt64, D::kUint32, D::kUint64};

const ReduceCase kCases[] = {
    {"Sum", 0, [](Complex a, Complex b) { return a + b; }, kMany, 0, 1.9},
    {"Prod",
     1,
     [](Complex a, Complex b) { return a * b; },
     {D::kFloat, D::kDouble, D::kComplex64, D::kComplex128, D::kInt32, D::kUint8},
     0.97,
     1.03},
    {"Max", -INFINITY, [](Complex a, Complex b) { return Complex(std::max(a.real(), b.real())); }, kReal, 0, 100},
    {"Min", INFINITY, [](Complex a, Complex b) { return Complex(std::min(a.real(), b.real())); }, kReal, 0, 100},
    {"Any", 0, [](Complex a, Complex b) { return Complex(a.real() != 0 || b.real() != 0); }, {D::kBool}, -2, 1},
    {"All", 1, [](Complex a, Complex b) { return Complex(a.real() != 0 && b.real() != 0); }, {D::kBool}, -2, 1},
};

struct Reduced {
  TensorShape shape;
  std::vector<int32_t> axes;
};
const Reduced kShapes[] = {
    {{}, {}},
    {{5}, {0}},
    {{1}, {0}},
    {{3, 4}, {0}},
    {{3, 4}, {1}},
    {{3, 4}, {-1}},
    {{3, 4}, {0, 1}},
    {{3, 4}, {}},
    {{2, 3, 4}, {1}},
    {{2, 3, 4}, {0, 2}},
    {{2, 3, 4, 5}, {1, 3}},
    {{2, 3, 4, 5}, {0, 2}},
    {{1, 7, 1}, {0, 2}},
    {{40, 130}, {0}},
    {{40, 130}, {1}},
    {{3, 70, 3}, {1}},
    {{5, 2, 3, 2, 3}, {1, 3}},
};

BOOST_AUTO_TEST_CASE(against_naive_loops) {
  for (const ReduceCase& c : kCases) {
    for (D type : c.types) {
      for (const Reduced& s : kShapes) {
        for (bool keep : {false, true}) {
          const Tensor x = Random(type, s.shape, c.low, c.high);
          std::vector<bool> reduced(s.shape.rank(), false);
          for (int32_t a : s.axes) reduced[a < 0 ? a + s.shape.rank() : a] = true;
          TensorShape kept = s.shape, out;
          for (int i = 0; i < s.shape.rank(); ++i) {
            if (reduced[i]) kept.set_dim(i, 1);
            if (!reduced[i] || keep) out.AddDim(kept.dim(i));
          }
          std::vector<Complex> exact(kept.num_elements(), c.identity);
          for (int64_t i = 0; i < x.num_elements(); ++i) {
            Complex& e = exact[BroadcastIndex(s.shape, kept, i)];
            e = c.fold(e, Get(x, i));
          }
          const Tensor y = Run(c.op, {x, Axes(s.axes)}, {{"keep_dims", keep}}, {}, keep ? 3 : 1);
          BOOST_REQUIRE_MESSAGE(y.HasShape(out), c.op << " " << x.TypeAndShape() << " -> " << y.TypeAndShape());
          int wrong = 0;
          for (size_t i = 0; i < exact.size(); ++i) {
            Complex e = exact[i];
            if (IsInteger(type)) {
              Tensor wrapped(type, {});
              Put(&wrapped, 0, e);
              e = Get(wrapped, 0);
            }
            wrong += !Near(Get(y, static_cast<int64_t>(i)), e, 4 * Tolerance(type));
          }
          BOOST_CHECK_MESSAGE(wrong == 0, c.op << " " << x.TypeAndShape() << ": " << wrong << " wrong");
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(means_of_integers_round_to_zero_and_do_not_overflow) {
  BOOST_CHECK_EQUAL(Run("Mean", {Tensor::Vector<float>({1, 2, 6}), Axes({0})}).scalar<float>(), 3);
  BOOST_CHECK_EQUAL(Run("Mean", {Tensor::Vector<int32_t>({-5, 2, -1}), Axes({0})}).scalar<int32_t>(), -1);
  BOOST_CHECK_EQUAL(Run("Mean", {Tensor::Vector<uint8_t>({250, 250}), Axes({0})}).scalar<uint8_t>(), 250);
  BOOST_CHECK_EQUAL(Run("EuclideanNorm", {Tensor::Vector<double>({3, -4}), Axes({0})}).scalar<double>(), 5);
  BOOST_CHECK_EQUAL(Run("EuclideanNorm", {Tensor::Vector<double>({-3}), Axes({0})}).scalar<double>(), 3);
}

BOOST_AUTO_TEST_CASE(nothing_to_reduce_gives_the_identity) {
  const Tensor none(D::kFloat, {2, 0}), ints(D::kInt32, {0});
  BOOST_CHECK_EQUAL(Run("Sum", {none, Axes({1})}).data<float>()[1], 0);
  BOOST_CHECK_EQUAL(Run("Prod", {none, Axes({1})}).data<float>()[1], 1);
  BOOST_CHECK_EQUAL(Run("Max", {none, Axes({1})}).data<float>()[0], -INFINITY);
  BOOST_CHECK_EQUAL(Run("Min", {none, Axes({1})}).data<float>()[0], INFINITY);
  BOOST_CHECK(std::isnan(Run("Mean", {none, Axes({1})}).data<float>()[0]));
  BOOST_CHECK_EQUAL(Run("Mean", {ints, Axes({0})}).scalar<int32_t>(), 0);
  BOOST_CHECK_EQUAL(Run("Max", {ints, Axes({0})}).scalar<int32_t>(), INT32_MIN);
  BOOST_CHECK(Run("Sum", {none, Axes({0})}).HasShape({0}));
}

BOOST_AUTO_TEST_CASE(axes_are_checked) {
  const Tensor x(D::kFloat, {2, 3});
  BOOST_CHECK(Contains(ErrorOf("Sum", {x, Axes({2})}), "Invalid reduction dimension"));
  BOOST_CHECK(Contains(ErrorOf("Sum", {x, Axes({-3})}), "Invalid reduction dimension"));
  BOOST_CHECK(Contains(ErrorOf("Sum", {x, Axes({0, -2})}), "Axes contains duplicate dimension: 0"));
}

// A float that counts to two million by ones, or adds tenths, keeps its precision; threads do not
// change the order of a fixed number of them.
BOOST_AUTO_TEST_CASE(long_sums_stay_precise) {
  constexpr int64_t kN = 2000000;
  Tensor x(D::kFloat, {kN});
  for (int64_t i = 0; i < kN; ++i) x.data<float>()[i] = 0.1f;
  const double exact = static_cast<double>(0.1f) * kN;
  BOOST_CHECK_CLOSE(static_cast<double>(Run("Sum", {x, Axes({0})}).scalar<float>()), exact, 5e-5);
  const Tensor columns = Run("Sum", {x.Reshaped({kN / 4, 4}), Axes({0})}, {}, {}, 3);
  const Tensor again = Run("Sum", {x.Reshaped({kN / 4, 4}), Axes({0})}, {}, {}, 3);
  for (int i = 0; i < 4; ++i) {
    BOOST_CHECK_CLOSE(static_cast<double>(columns.data<float>()[i]), exact / 4, 5e-5);
    BOOST_CHECK_EQUAL(columns.data<float>()[i], again.data<float>()[i]);
  }
}

BOOST_AUTO_TEST_CASE(nan_wins_in_max_but_not_in_arg_max) {
  for (int at : {0, 3, 64, 99}) {
    Tensor x(D::kFloat, {100});
    for (int i = 0; i < 100; ++i) x.data<float>()[i] = static_cast<float>((i * 37) % 101);
    const int64_t expected = Run("ArgMax", {x, Tensor::Scalar(int32_t{0})}).scalar<int64_t>();
    x.data<float>()[at] = NAN;
    BOOST_CHECK(std::isnan(Run("Max", {x, Axes({0})}).scalar<float>()));
    BOOST_CHECK(std::isnan(Run("Min", {x, Axes({0})}).scalar<float>()));
    if (at != expected) BOOST_CHECK_EQUAL(Run("ArgMax", {x, Tensor::Scalar(int32_t{0})}).scalar<int64_t>(), expected);
  }
}

BOOST_AUTO_TEST_CASE(arg_reductions) {
  const Tensor dim0 = Tensor::Scalar(int32_t{0}), dim1 = Tensor::Scalar(int32_t{-1});
  const Tensor x = Tensor::Of<int32_t>({1, 5, 5, 7, 2, 7}, {2, 3});
  BOOST_CHECK_EQUAL(Run("ArgMax", {x, dim1}).DebugString(), "int64 [2] [1 0]");
  BOOST_CHECK_EQUAL(Run("ArgMax", {x, dim0}).DebugString(), "int64 [3] [1 0 1]");
  BOOST_CHECK_EQUAL(Run("ArgMin", {x, dim1}, {{"output_type", D::kInt32}}).DebugString(), "int32 [2] [0 1]");
  BOOST_CHECK(Contains(ErrorOf("ArgMax", {x, Tensor::Scalar(int32_t{2})}),
                       "Expected dimension in the range [-2, 2), but got 2"));
  BOOST_CHECK(
      Contains(ErrorOf("ArgMax", {Tensor(D::kFloat, {2, 0}), dim1}), "Reduction axis 1 is empty in shape [2,0]"));
  BOOST_CHECK_EQUAL(Run("ArgMax", {Tensor(D::kFloat, {0, 2}), dim1}).num_elements(), 0);
}

BOOST_AUTO_TEST_CASE(scans_go_along_one_axis_in_either_direction) {
  const Tensor x = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {2, 3}), axis = Tensor::Scalar(int32_t{1});
  BOOST_CHECK_EQUAL(Run("Cumsum", {x, axis}).DebugString(), "float32 [2,3] [1 3 6 4 9 15]");
  BOOST_CHECK_EQUAL(Run("Cumsum", {x, axis}, {{"reverse", true}}).DebugString(), "float32 [2,3] [6 5 3 15 11 6]");
  BOOST_CHECK_EQUAL(Run("Cumsum", {x, axis}, {{"exclusive", true}}).DebugString(), "float32 [2,3] [0 1 3 0 4 9]");
  BOOST_CHECK_EQUAL(Run("Cumprod", {x, Tensor::Scalar(int32_t{0})}).DebugString(), "float32 [2,3] [1 2 3 4 10 18]");
  BOOST_CHECK_EQUAL(Run("Cumprod", {x, axis}, {{"exclusive", true}, {"reverse", true}}).DebugString(),
                    "float32 [2,3] [6 3 1 30 6 1]");
  BOOST_CHECK(Contains(ErrorOf("Cumsum", {x, Tensor::Scalar(int32_t{2})}),
                       "Expected scan axis in the range [-2, 2), but got 2"));
}

BOOST_AUTO_TEST_CASE(segments_sum_the_rows_of_equal_ids) {
  const Tensor x = Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor sorted = Tensor::Vector<int32_t>({0, 0, 2}), mixed = Tensor::Vector<int32_t>({1, -1, 1}),
               three = Tensor::Scalar(int32_t{3});
  BOOST_CHECK_EQUAL(Run("SegmentSum", {x, sorted}).DebugString(), "float32 [3,2] [4 6 0 0 5 6]");
  BOOST_CHECK_EQUAL(Run("SegmentMean", {x, sorted}).DebugString(), "float32 [3,2] [2 3 0 0 5 6]");
  BOOST_CHECK_EQUAL(Run("SegmentMax", {x, sorted}).DebugString(), "float32 [3,2] [3 4 0 0 5 6]");
  BOOST_CHECK_EQUAL(Run("SegmentProd", {x, sorted}).DebugString(), "float32 [3,2] [3 8 1 1 5 6]");
  BOOST_CHECK_EQUAL(Run("UnsortedSegmentSum", {x, mixed, three}).DebugString(), "float32 [3,2] [0 0 6 8 0 0]");
  BOOST_CHECK(
      Contains(ErrorOf("SegmentSum", {x, Tensor::Vector<int32_t>({0, 2, 1})}), "segment ids are not increasing"));
  BOOST_CHECK(Contains(ErrorOf("UnsortedSegmentSum", {x, Tensor::Vector<int32_t>({0, 5, 1}), three}),
                       "segment_ids[1] = 5 is out of range [0, 3)"));
  BOOST_CHECK(Contains(ErrorOf("UnsortedSegmentSum", {x, Tensor::Vector<int32_t>({0, 1}), three}),
                       "does not start with segment_ids.shape"));
  const Tensor bins = Run("Bincount", {Tensor::Vector<int32_t>({1, 5, 2, 1}), three, Tensor(D::kFloat, {0})});
  BOOST_CHECK_EQUAL(bins.DebugString(), "float32 [3] [0 2 1]");
}

}  // namespace reduction_test
}  // namespace troupe::test
