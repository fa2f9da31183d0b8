// MatMul, BatchMatMul, BatchMatMulV2 against naive loops.
#include <boost/test/unit_test.hpp>
#include <complex>
#include <thread>

#include "tests/nn/nn_test_util.h"

namespace troupe {
namespace matmul_test {

using Complex = std::complex<double>;

std::vector<Complex> ToComplex(const Tensor& t) {
  std::vector<Complex> v(t.num_elements());
  const std::vector<double> real = ToDoubles(t);
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = t.dtype() == DType::kComplex64    ? Complex(t.data<std::complex<float>>()[i])
           : t.dtype() == DType::kComplex128 ? t.data<std::complex<double>>()[i]
                                             : Complex(real[i]);
  }
  return v;
}

double ToleranceOf(DType t) {
  return t == DType::kComplex64    ? Tolerance(DType::kFloat)
         : t == DType::kComplex128 ? Tolerance(DType::kDouble)
                                   : Tolerance(t);
}

// Element (i, j) of op(A) op(B).
Complex Product(const Complex* a, const Complex* b, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool conj,
                int64_t i, int64_t j) {
  Complex s = 0;
  for (int64_t p = 0; p < k; ++p) {
    Complex x = ta ? a[p * m + i] : a[i * k + p], y = tb ? b[j * k + p] : b[p * n + j];
    if (conj && ta) x = std::conj(x);
    if (conj && tb) y = std::conj(y);
    s += x * y;
  }
  return s;
}

void CheckMatrix(const Tensor& got, const std::vector<Complex>& want, const std::string& what) {
  const std::vector<Complex> v = ToComplex(got);
  BOOST_REQUIRE_EQUAL(v.size(), want.size());
  double largest = 1, worst = 0;
  for (const Complex& w : want) largest = std::max(largest, std::abs(w));
  for (size_t i = 0; i < v.size(); ++i) worst = std::max(worst, std::abs(v[i] - want[i]));
  BOOST_CHECK_MESSAGE(worst <= ToleranceOf(got.dtype()) * largest, what << ": off by " << worst << " of " << largest);
}

const DType kTypes[] = {DType::kFloat,  DType::kDouble, DType::kHalf,      DType::kBfloat16,
                        DType::kInt32,  DType::kInt64,  DType::kUint8,     DType::kUint16,
                        DType::kUint32, DType::kUint64, DType::kComplex64, DType::kComplex128};

BOOST_AUTO_TEST_CASE(matmul_of_every_type_and_transpose) {
  const int64_t sizes[][3] = {{1, 1, 1},  {3, 5, 7},    {8, 8, 8},    {17, 33, 9},
                              {2, 70, 3}, {40, 1, 300}, {1, 64, 300}, {65, 48, 31}};
  for (DType t : kTypes) {
    for (auto& [m, n, k] : sizes) {
      for (int mode = 0; mode < 4; ++mode) {
        const bool ta = mode & 1, tb = mode & 2;
        const Tensor a = RandomTensor(t, ta ? TensorShape({k, m}) : TensorShape({m, k}), 1);
        const Tensor b = RandomTensor(t, tb ? TensorShape({n, k}) : TensorShape({k, n}), 2);
        const std::vector<Complex> av = ToComplex(a), bv = ToComplex(b);
        std::vector<Complex> want(m * n);
        for (int64_t i = 0; i < m * n; ++i) {
          want[i] = Product(av.data(), bv.data(), m, n, k, ta, tb, false, i / n, i % n);
          if (t == DType::kUint8) want[i] = static_cast<int64_t>(want[i].real()) & 255;
        }
        const Tensor c = Run("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}})[0];
        BOOST_CHECK(c.HasShape(TensorShape({m, n})));
        CheckMatrix(c, want, StrCat("MatMul ", Name(t), " ", m, "x", n, "x", k, " mode ", mode));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(large_products_use_the_library_and_threads) {
  for (DType t : {DType::kFloat, DType::kDouble}) {
    for (int mode = 0; mode < 4; ++mode) {
      for (auto& [m, n] : {std::pair<int64_t, int64_t>{190, 130}, {130, 190}}) {
        const bool ta = mode & 1, tb = mode & 2;
        const int64_t k = 350;
        const Tensor a = RandomTensor(t, ta ? TensorShape({k, m}) : TensorShape({m, k}), 3);
        const Tensor b = RandomTensor(t, tb ? TensorShape({n, k}) : TensorShape({k, n}), 4);
        const std::vector<Complex> av = ToComplex(a), bv = ToComplex(b);
        std::vector<Complex> want(m * n);
        for (int64_t i = 0; i < m * n; ++i)
          want[i] = Product(av.data(), bv.data(), m, n, k, ta, tb, false, i / n, i % n);
        for (int threads : {1, 2, 3}) {
          const Tensor c = Run("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}}, threads)[0];
          CheckMatrix(c, want, StrCat("mode ", mode, " threads ", threads));
          for (int again = 0; again < 3; ++again) {
            BOOST_CHECK(SameBytes(c, Run("MatMul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}}, threads)[0]));
          }
        }
      }
    }
  }
}

// A large matrix is multiplied in parts of its rows: the last of them may be shorter, and the bits
// are those of one thread.
BOOST_AUTO_TEST_CASE(a_vector_and_a_large_matrix) {
  for (const auto& [k, n] :
       std::vector<std::pair<int64_t, int64_t>>{{1001, 300}, {2048, 1000}, {128, 2049}, {127, 4096}, {130, 2100}}) {
    const Tensor x = RandomTensor(DType::kFloat, TensorShape({1, k}), 1),
                 b = RandomTensor(DType::kFloat, TensorShape({k, n}), 2);
    const AttrMap attrs = {{"transpose_a", false}, {"transpose_b", false}};
    const Tensor one = Run("MatMul", {x, b}, attrs, 1)[0];
    std::vector<double> want(static_cast<size_t>(n));
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        want[static_cast<size_t>(j)] += double{x.data<float>()[p]} * double{b.data<float>()[p * n + j]};
    for (int64_t j = 0; j < n; ++j)
      BOOST_REQUIRE_SMALL(one.data<float>()[j] - want[static_cast<size_t>(j)], 1e-6 * static_cast<double>(k));
    for (const int threads : {2, 3, 8})
      BOOST_TEST(SameBytes(Run("MatMul", {x, b}, attrs, threads)[0], one), k << "x" << n << ", " << threads);
  }
}

BOOST_AUTO_TEST_CASE(empty_matrices) {
  for (DType t : kTypes) {
    const Tensor zeros = Run("MatMul", {Tensor(t, TensorShape({3, 0})), Tensor(t, TensorShape({0, 2}))})[0];
    CheckMatrix(zeros, std::vector<Complex>(6), "K = 0");
    BOOST_CHECK(Run("MatMul", {Tensor(t, TensorShape({0, 4})), Tensor(t, TensorShape({4, 2}))})[0].HasShape(
        TensorShape({0, 2})));
  }
}

BOOST_AUTO_TEST_CASE(matmul_refusals) {
  const DType f = DType::kFloat;
  const std::string differ = "Matrix size-incompatible: In[0]: [32,784], In[1]: [780,100]: inner dimensions differ";
  CheckRefused("MatMul", {Tensor(f, TensorShape({32, 784})), Tensor(f, TensorShape({780, 100}))}, {}, differ);
  CheckRefused("MatMul", {Tensor(f, TensorShape({2, 3})), Tensor(f, TensorShape({2, 4}))}, {{"transpose_b", true}},
               "inner dimensions differ");
  CheckRefused("MatMul", {Tensor(f, TensorShape({2})), Tensor(f, TensorShape({2, 4}))}, {}, "In[0] is not a matrix");
  CheckRefused("MatMul", {Tensor(f, TensorShape({2, 2})), Tensor(f, TensorShape({2, 4, 1}))}, {},
               "In[1] is not a matrix");
  CheckRefused("BatchMatMul", {Tensor(f, TensorShape({2, 2, 3})), Tensor(f, TensorShape({1, 3, 4}))}, {},
               "equal batch dimensions");
  CheckRefused("BatchMatMulV2", {Tensor(f, TensorShape({2, 2, 3})), Tensor(f, TensorShape({3, 3, 4}))}, {},
               "compatible batch dimensions");
  CheckRefused("BatchMatMulV2", {Tensor(f, TensorShape({2, 2, 3})), Tensor(f, TensorShape({2, 4}))}, {},
               "inner dimensions differ");
  CheckRefused("BatchMatMulV2", {Tensor(f, TensorShape({3})), Tensor(f, TensorShape({3, 4}))}, {}, "rank 2 or more");
}

struct BatchCase {
  const char* op;
  std::vector<int64_t> x, y, out;
};

BOOST_AUTO_TEST_CASE(batch_products) {
  const int64_t m = 5, n = 6, k = 4;
  const BatchCase cases[] = {{"BatchMatMul", {3}, {3}, {3}},
                             {"BatchMatMul", {}, {}, {}},
                             {"BatchMatMul", {2, 3}, {2, 3}, {2, 3}},
                             {"BatchMatMulV2", {2, 1}, {3}, {2, 3}},
                             {"BatchMatMulV2", {2, 3}, {}, {2, 3}},
                             {"BatchMatMulV2", {}, {4}, {4}},
                             {"BatchMatMulV2", {1, 3}, {2, 1}, {2, 3}},
                             {"BatchMatMulV2", {0, 3}, {1, 3}, {0, 3}},
                             {"BatchMatMulV2", {7}, {7}, {7}}};
  for (const BatchCase& b : cases) {
    for (DType t : {DType::kFloat, DType::kDouble, DType::kInt32, DType::kComplex64, DType::kHalf}) {
      for (int mode = 0; mode < 4; ++mode) {
        const bool ax = mode & 1, ay = mode & 2;
        auto shape = [](std::vector<int64_t> batch, int64_t r, int64_t c, bool adj) {
          batch.push_back(adj ? c : r);
          batch.push_back(adj ? r : c);
          return TensorShape(absl::MakeConstSpan(batch));
        };
        const Tensor x = RandomTensor(t, shape(b.x, m, k, ax), 5), y = RandomTensor(t, shape(b.y, k, n, ay), 6);
        const TensorShape out = shape(b.out, m, n, false);
        const std::vector<Complex> xv = ToComplex(x), yv = ToComplex(y);
        std::vector<Complex> want(out.num_elements());
        for (int64_t i = 0; i < out.num_elements(); ++i) {
          // Walk the batch index from its last dimension.
          auto source = [&](const std::vector<int64_t>& from) {
            int64_t rest = i / (m * n), at = 0, scale = 1;
            for (size_t d = 0; d < b.out.size(); ++d) {
              const int64_t size = b.out[b.out.size() - 1 - d], index = rest % size;
              rest /= size;
              if (d >= from.size()) continue;
              const int64_t own = from[from.size() - 1 - d];
              at += (own == 1 ? 0 : index) * scale;
              scale *= own;
            }
            return at;
          };
          want[i] = Product(xv.data() + source(b.x) * m * k, yv.data() + source(b.y) * k * n, m, n, k, ax, ay, true,
                            i / n % m, i % n);
        }
        for (int threads : {1, 2}) {
          const Tensor got = Run(b.op, {x, y}, {{"adj_x", ax}, {"adj_y", ay}}, threads)[0];
          BOOST_CHECK(got.HasShape(out));
          CheckMatrix(got, want, StrCat(b.op, " ", x.TypeAndShape(), " ", y.TypeAndShape(), " mode ", mode));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(several_threads_run_one_kernel) {
  const Tensor a = RandomTensor(DType::kFloat, TensorShape({90, 110}), 7),
               b = RandomTensor(DType::kFloat, TensorShape({110, 70}), 8);
  const Tensor want = Run("MatMul", {a, b}, {}, 2)[0];
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        EvaluateOptions options;
        options.threads = 2;
        auto got = EvaluateOp("MatMul", {a, b}, {}, {}, options);
        if (!got.ok() || !SameBytes((*got)[0], want)) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_CHECK_EQUAL(wrong, 0);
}

}  // namespace matmul_test
}  // namespace troupe
