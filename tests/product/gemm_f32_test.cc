// The float32 product's own loops, at every level of instructions and through the op: edges,
// transposes, zeros that are left out, vectors, fused bias and activation.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "kernels/common/isa.h"
#include "kernels/product/gemm_f32.h"
#include "tests/nn/nn_test_util.h"

TROUPE_ISA_TABLE(GemmF32Table, kGemmF32, PickGemmF32)
TROUPE_ISA_TABLE(GemvF32Table, kGemvF32, PickGemvF32)

namespace troupe {
namespace gemm_f32_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = 12345.0f;

struct Level : GemmF32Table, GemvF32Table {
  int level;
};

std::vector<Level> Tables() {
#if defined(__x86_64__)
  std::vector<Level> tables = {{v2::kGemmF32, v2::kGemvF32, 2}};
  if (IsaLevel() >= 3) tables.push_back({v3::kGemmF32, v3::kGemvF32, 3});
  if (IsaLevel() >= 4) tables.push_back({v4::kGemmF32, v4::kGemvF32, 4});
  return tables;
#else
  return {{PickGemmF32(), PickGemvF32(), 0}};
#endif
}

std::vector<float> Floats(int64_t n, uint32_t seed) {
  const std::vector<double> v = RandomValues(n, seed);
  return std::vector<float>(v.begin(), v.end());
}

struct Problem {
  int64_t m, n, k;
  bool ta, tb;
  std::vector<float> a, b, bias, want;
  // `gap` elements behind every row of A, B and C that nobody may touch.
  int64_t gap;
  int64_t lda() const { return (ta ? m : k) + gap; }
  int64_t ldb() const { return (tb ? k : n) + gap; }
  int64_t ldc() const { return n + gap; }

  Problem(int64_t m, int64_t n, int64_t k, bool ta, bool tb, int64_t gap) : m(m), n(n), k(k), ta(ta), tb(tb), gap(gap) {
    a = Floats((ta ? k : m) * lda(), 1);
    b = Floats((tb ? n : k) * ldb(), 2);
    bias = Floats(n, 3);
    // What is read from behind a row shows.
    for (int64_t r = 0; r < (ta ? k : m); ++r) std::fill_n(a.begin() + r * lda() + (ta ? m : k), gap, kNaN);
    for (int64_t r = 0; r < (tb ? n : k); ++r) std::fill_n(b.begin() + r * ldb() + (tb ? k : n), gap, kNaN);
  }
  float A(int64_t i, int64_t p) const { return a[ta ? p * lda() + i : i * lda() + p]; }
  float B(int64_t p, int64_t j) const { return b[tb ? j * ldb() + p : p * ldb() + j]; }
  GemmF32Operands Operands(float* c) const {
    GemmF32Operands o;
    o.m = m, o.n = n, o.k = k;
    o.a = a.data(), o.a_row = ta ? 1 : lda(), o.a_col = ta ? lda() : 1;
    o.b = b.data(), o.b_row = tb ? 1 : ldb(), o.b_col = tb ? ldb() : 1;
    o.c = c, o.ldc = ldc();
    return o;
  }
  // c[i][j] is f(sum), and what lies between the rows is as it was.
  template <class F>
  void Check(const std::vector<float>& c, const std::string& what, F f) const {
    double worst = 0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n + gap; ++j) {
        const float got = c[i * ldc() + j];
        if (j >= n) {
          BOOST_REQUIRE_MESSAGE(got == kUntouched, what << ": wrote behind row " << i);
          continue;
        }
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(A(i, p)) * B(p, j);
        const double e = std::abs(got - f(sum, j));
        worst = e <= worst ? worst : std::isnan(e) ? INFINITY : e;
      }
    }
    BOOST_CHECK_MESSAGE(worst <= 2e-6 * static_cast<double>(std::max<int64_t>(k, 8)), what << ": off by " << worst);
  }
};

std::vector<float> Fresh(const Problem& p) { return std::vector<float>(p.m * p.ldc(), kUntouched); }

void CheckShape(int64_t m, int64_t n, int64_t k) {
  for (const Level& table : Tables()) {
    for (int mode = 0; mode < 4; ++mode) {
      const Problem p(m, n, k, mode & 1, mode & 2, mode == 1 ? 0 : 3);
      const std::string what = StrCat("v", table.level, " ", m, "x", n, "x", k, " mode ", mode);
      std::vector<float> c = Fresh(p);
      table.product(p.Operands(c.data()));
      p.Check(c, what, [](double sum, int64_t) { return sum; });
      // Adding to what is there.
      GemmF32Operands o = p.Operands(c.data());
      o.accumulate = true;
      table.product(o);
      p.Check(c, what + " twice", [](double sum, int64_t) { return 2 * sum; });
      // Bias and activations.
      for (const auto f : {GemmActivation::kNone, GemmActivation::kRelu, GemmActivation::kRelu6}) {
        std::vector<float> fused = Fresh(p);
        o = p.Operands(fused.data());
        o.bias = p.bias.data();
        o.activation = f;
        table.product(o);
        p.Check(fused, what + " with bias", [&](double sum, int64_t j) {
          const double y = sum + p.bias[j];
          return f == GemmActivation::kNone   ? y
                 : f == GemmActivation::kRelu ? std::max(y, 0.0)
                                              : std::clamp(y, 0.0, 6.0);
        });
      }
      if (p.tb) continue;
      std::vector<float> skipping = Fresh(p);
      table.product_skipping(p.Operands(skipping.data()));
      p.Check(skipping, what + " skipping", [](double sum, int64_t) { return sum; });
    }
  }
}

BOOST_AUTO_TEST_SUITE(gemm_f32)

BOOST_AUTO_TEST_CASE(every_width) {
  for (int64_t n = 1; n <= 100; n += n < 66 ? 1 : 7) CheckShape(5, n, 9);
}

BOOST_AUTO_TEST_CASE(every_height) {
  for (int64_t m = 1; m <= 33; ++m) CheckShape(m, 21, 10);
}

BOOST_AUTO_TEST_CASE(depths_around_the_blocks) {
  for (const int64_t k : {1, 2, 7, 8, 15, 16, 17, 255, 256, 257, 511, 512, 513, 700, 1100}) CheckShape(9, 35, k);
}

// Rows are taken in blocks too, as many as have their elements in the second-level cache.
BOOST_AUTO_TEST_CASE(heights_around_the_blocks) {
  CheckShape(70, 50, 600);
  CheckShape(131, 9, 513);
  CheckShape(530, 5, 250);
  CheckShape(2060, 17, 16);
}

// Rows of B that are 4 KB apart are copied for products of many rows: with the bits of those that
// are not, and of a range of rows.
BOOST_AUTO_TEST_CASE(rows_of_b_that_share_places_of_the_cache) {
  for (const Level& table : Tables()) {
    for (const bool ta : {false, true}) {
      for (const int64_t k : {5, 513, 1030}) {
        for (const int64_t n : {1000, 1023}) {
          Problem far(67, n, k, ta, false, 1024 - n), near(67, n, k, ta, false, 1);
          near.a = Floats((ta ? k : far.m) * near.lda(), 1);
          for (int64_t i = 0; i < far.m; ++i) {
            for (int64_t q = 0; q < k; ++q) near.a[ta ? q * near.lda() + i : i * near.lda() + q] = far.A(i, q);
          }
          for (int64_t q = 0; q < k; ++q) std::copy_n(far.b.data() + q * far.ldb(), n, near.b.data() + q * near.ldb());
          std::vector<float> c = Fresh(far), d = Fresh(near), e = Fresh(far);
          table.product(far.Operands(c.data()));
          table.product(near.Operands(d.data()));
          far.Check(c, StrCat("v", table.level, " ", n, "x", k), [](double sum, int64_t) { return sum; });
          GemmF32Operands some = far.Operands(e.data());
          some.m = 40;
          table.product(some);
          bool same = true;
          for (int64_t i = 0; i < far.m; ++i) {
            same &= std::equal(c.begin() + i * far.ldc(), c.begin() + i * far.ldc() + n, d.begin() + i * near.ldc());
            if (i < some.m)
              same &= std::equal(c.begin() + i * far.ldc(), c.begin() + i * far.ldc() + n, e.begin() + i * far.ldc());
          }
          BOOST_TEST(same, "v" << table.level << " " << n << "x" << k);
        }
      }
    }
  }
}

// Some groups of rows are zero for some p, others for all of them.
BOOST_AUTO_TEST_CASE(zeros_are_left_out) {
  for (const Level& table : Tables()) {
    for (const bool ta : {false, true}) {
      for (const int64_t k : {5, 64, 600}) {
        Problem p(35, 41, k, ta, false, 2);
        for (int64_t i = 0; i < p.m; i += kGemmSkipRows) {
          for (int64_t q = 0; q < k; ++q) {
            const bool zero = i == 8 || (i / 8 + q) % 3 != 0;
            for (int64_t r = i; zero && r < std::min(i + kGemmSkipRows, p.m); ++r) {
              p.a[ta ? q * p.lda() + r : r * p.lda() + q] = q % 2 == 0 ? 0.0f : -0.0f;
            }
            if (!zero) {
              // One element is enough, wherever it stands.
              p.a[ta ? q * p.lda() + i + q % 3 : (i + q % 3) * p.lda() + q] = 1.5f;
            }
          }
        }
        std::vector<float> c = Fresh(p);
        table.product_skipping(p.Operands(c.data()));
        p.Check(c, StrCat("v", table.level, " k ", k), [](double sum, int64_t) { return sum; });
        std::vector<float> biased = Fresh(p);
        GemmF32Operands o = p.Operands(biased.data());
        o.bias = p.bias.data();
        o.activation = GemmActivation::kRelu;
        table.product_skipping(o);
        p.Check(biased, "with bias", [&](double sum, int64_t j) { return std::max(sum + p.bias[j], 0.0); });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_share_of_what_is_not_zero) {
  for (const Level& table : Tables()) {
    for (const bool ta : {false, true}) {
      Problem p(80, 33, 500, ta, false, 0);
      const auto set = [&](auto zero) {
        for (int64_t i = 0; i < p.m; ++i) {
          for (int64_t q = 0; q < p.k; ++q) p.a[ta ? q * p.lda() + i : i * p.lda() + q] = zero(i, q) ? 0.0f : 1.0f;
        }
        return table.sampled_share(p.Operands(nullptr), 6);
      };
      BOOST_CHECK_EQUAL(set([](int64_t, int64_t) { return true; }), 0);
      BOOST_CHECK_EQUAL(set([](int64_t, int64_t) { return false; }), 1);
      BOOST_CHECK_EQUAL(set([](int64_t i, int64_t) { return i % 8 != 3; }), 1);
      BOOST_CHECK_EQUAL(set([](int64_t, int64_t q) { return q % 2 != 0; }), 0.5);
      const double third = set([](int64_t i, int64_t q) { return (i / 8 + q / 40) % 3 != 0; });
      BOOST_CHECK(third > 0.2 && third < 0.5);
    }
  }
}

BOOST_AUTO_TEST_CASE(finite_or_not) {
  for (const Level& table : Tables()) {
    for (const int64_t n : {1, 3, 16, 77, 1000}) {
      std::vector<float> x = Floats(n, 4);
      x[n / 2] = std::numeric_limits<float>::max();
      x[n - 1] = std::numeric_limits<float>::denorm_min();
      BOOST_CHECK(table.all_finite(x.data(), n));
      for (const float bad : {kInfinity, -kInfinity, kNaN, -kNaN}) {
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          std::vector<float> y = x;
          y[at] = bad;
          BOOST_CHECK_MESSAGE(!table.all_finite(y.data(), n),
                              "v" << table.level << " " << bad << " at " << at << " of " << n);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_vector_and_a_matrix) {
  for (const Level& table : Tables()) {
    for (const int64_t n : {1, 2, 15, 33, 100, 2047, 2100}) {
      for (const int64_t k : {1, 7, 8, 31, 64, 130}) {
        for (const bool tb : {false, true}) {
          const Problem p(1, n, k, false, tb, 3);
          std::vector<float> c = Fresh(p);
          (tb ? table.vector_dots : table.vector_rows)(p.a.data(), p.b.data(), p.ldb(), k, n, c.data());
          p.Check(c, StrCat("v", table.level, " ", n, "x", k, tb ? " transposed" : ""),
                  [](double sum, int64_t) { return sum; });
        }
      }
    }
  }
}

Tensor Product(const Tensor& a, const Tensor& b, bool ta, bool tb, int threads = 1) {
  return Run("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}}, threads)[0];
}

std::vector<double> Naive(const Tensor& a, const Tensor& b, bool ta, bool tb) {
  const int64_t m = a.dim(ta ? 1 : 0), k = a.dim(ta ? 0 : 1), n = b.dim(tb ? 0 : 1);
  std::vector<double> want(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const double x = a.data<float>()[ta ? p * m + i : i * k + p];
      for (int64_t j = 0; j < n; ++j) want[i * n + j] += x * b.data<float>()[tb ? j * k + p : p * n + j];
    }
  }
  return want;
}

// The shapes of a training step, and what is between the ways that a product can go. Own loops give
// the same bits on any number of threads.
BOOST_AUTO_TEST_CASE(products_of_a_training_step) {
  const int64_t shapes[][3] = {{100, 100, 60}, {100, 60, 30},   {100, 200, 100}, {70, 600, 90},
                               {64, 64, 64},   {1, 300, 170},   {170, 300, 1},   {130, 131, 132},
                               {9, 70, 50},    {160, 150, 170}, {100, 1050, 110}};
  for (const auto& [m, k, n] : shapes) {
    for (int mode = 0; mode < 4; ++mode) {
      const bool ta = mode & 1, tb = mode & 2;
      const Tensor a = RandomTensor(DType::kFloat, ta ? TensorShape({k, m}) : TensorShape({m, k}), 5),
                   b = RandomTensor(DType::kFloat, tb ? TensorShape({n, k}) : TensorShape({k, n}), 6);
      const Tensor c = Product(a, b, ta, tb);
      CheckClose(c, Naive(a, b, ta, tb), StrCat(m, "x", k, "x", n, " mode ", mode));
      if (IsaLevel() < 4 && m > 1 && n > 1) continue;
      for (const int threads : {2, 3}) BOOST_CHECK(SameBytes(c, Product(a, b, ta, tb, threads)));
    }
  }
}

// A matrix of digits: runs of zeros. An infinity or a NaN meets zeros, and gives NaN as it does
// everywhere.
BOOST_AUTO_TEST_CASE(zeros_of_the_left_operand) {
  constexpr int64_t kRows = 96, kDepth = 400, kWidth = 72;
  for (const bool ta : {false, true}) {
    Tensor a = RandomTensor(DType::kFloat, ta ? TensorShape({kDepth, kRows}) : TensorShape({kRows, kDepth}), 7);
    Tensor b = RandomTensor(DType::kFloat, TensorShape({kDepth, kWidth}), 8);
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t p = 0; p < kDepth; ++p) {
        if ((p / 20 + i / 16) % 3 != 0 || p == 37) a.data<float>()[ta ? p * kRows + i : i * kDepth + p] = 0;
      }
    }
    const Tensor c = Product(a, b, ta, false);
    CheckClose(c, Naive(a, b, ta, false), "zeros");
    for (const int threads : {2, 3, 5}) BOOST_CHECK(SameBytes(c, Product(a, b, ta, false, threads)));
    for (const float bad : {kInfinity, -kInfinity, kNaN}) {
      Tensor broken = MakeTensor(DType::kFloat, b.shape(), ToDoubles(b));
      broken.data<float>()[37 * kWidth + 5] = bad;  // all of A's elements there are zero
      const Tensor d = Product(a, broken, ta, false);
      for (int64_t i = 0; i < kRows * kWidth; ++i) {
        if (i % kWidth == 5) {
          BOOST_REQUIRE(std::isnan(d.data<float>()[i]));
        } else {
          BOOST_REQUIRE(std::isfinite(d.data<float>()[i]));
        }
      }
      Tensor left = MakeTensor(DType::kFloat, a.shape(), ToDoubles(a));
      left.data<float>()[ta ? 37 * kRows + 11 : 11 * kDepth + 37] = bad;
      const Tensor e = Product(left, b, ta, false);
      for (int64_t j = 0; j < kWidth; ++j)
        BOOST_REQUIRE(!std::isfinite(e.data<float>()[11 * kWidth + j]) || b.data<float>()[37 * kWidth + j] == 0);
      for (int64_t j = 0; j < kWidth; ++j) BOOST_REQUIRE(std::isfinite(e.data<float>()[12 * kWidth + j]));
    }
  }
}

// Fused bias and activation have the bits of the ops one after the other, whichever way the product
// goes.
BOOST_AUTO_TEST_CASE(fused_bits) {
  const int64_t shapes[][3] = {{5, 6, 7},   {37, 50, 23},    {100, 100, 60}, {1, 90, 70},
                               {90, 70, 1}, {160, 170, 180}, {100, 400, 72}};
  for (const auto& [m, k, n] : shapes) {
    Tensor a = RandomTensor(DType::kFloat, TensorShape({m, k}), 9);
    if (k == 400) std::fill_n(a.data<float>(), m * k * 3 / 4, 0.0f);
    const Tensor b = RandomTensor(DType::kFloat, TensorShape({k, n}), 10);
    Tensor bias = RandomTensor(DType::kFloat, TensorShape({n}), 11);
    bias.data<float>()[0] = kNaN;
    for (const char* activation : {"", "Relu", "Relu6", "LeakyRelu", "Elu", "Tanh", "Sigmoid"}) {
      for (const int threads : {1, 2}) {
        std::vector<std::string> ops = {"BiasAdd"};
        if (*activation != 0) ops.push_back(activation);
        EvaluateOptions options;
        options.threads = threads;
        const auto got = EvaluateOp("_FusedMatMul", {a, b, bias}, {{"fused_ops", ops}}, {1}, options);
        BOOST_REQUIRE_MESSAGE(got.ok(), got.status().ToString());
        const Tensor& fused = (*got)[0];
        Tensor plain = Run("BiasAdd", {Product(a, b, false, false, threads), bias}, {}, threads)[0];
        if (*activation != 0) plain = Run(activation, {plain}, {}, threads)[0];
        BOOST_CHECK_MESSAGE(SameBytes(fused, plain),
                            m << "x" << k << "x" << n << " " << activation << " on " << threads);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace gemm_f32_test
}  // namespace troupe
