// Gradients of linear algebra against finite differences, its errors, and batches that are split
// among threads. Values are compared in tests/ops.
#include "tests/autodiff/numeric.h"
#include "tests/ops/run_op.h"

namespace troupe::testing {
namespace linalg_test {

using test::ErrorOf;
using test::Random;

// Well-conditioned: 3 on the diagonal, elsewhere at most 1 in magnitude.
Tensor Dominant(const TensorShape& shape, uint64_t seed = 1) {
  Tensor t = Random(DType::kDouble, shape, -1, 1, seed);
  const int64_t n = shape.dim(shape.rank() - 1);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    if (i % (n * n) % (n + 1) == 0) t.data<double>()[i] += 3;
  }
  return t;
}

// The gradients of op(xs...), weighed so that elements do not cancel.
void Check(std::string_view op, const std::vector<Tensor>& values, AttrMap attrs = {}, int output = 0) {
  const Scope s = Scope::NewRootScope();
  std::vector<Output> xs;
  std::vector<Input> in;
  Feeds feeds;
  for (const Tensor& v : values) {
    xs.push_back(Source(s, StrCat("x", xs.size()), v.shape()));
    in.push_back(xs.back());
    feeds.emplace_back(xs.back().node()->name(), v);
  }
  const Output y = EmitOp(s, op, in, attrs).output(output);
  const Output weighed = SumAll(s, Op(s, "Mul", {y, Op(s, "Sin", {y * 2.0 + 1.0})}));
  BOOST_TEST_CONTEXT(op) CheckGradients(s, weighed, xs, feeds, Gradients(s, {weighed}, xs));
}

BOOST_AUTO_TEST_CASE(solvers_and_decompositions_have_the_slopes_of_differences) {
  for (const bool adjoint : {false, true}) {
    Check("MatrixInverse", {Dominant({3, 3})}, {{"adjoint", adjoint}});
    Check("MatrixSolve", {Dominant({2, 3, 3}), Random(DType::kDouble, {2, 3, 2}, -1, 1)}, {{"adjoint", adjoint}});
    for (const bool lower : {false, true}) {
      Check("MatrixTriangularSolve", {Dominant({3, 3}), Random(DType::kDouble, {3, 2}, -1, 1)},
            {{"adjoint", adjoint}, {"lower", lower}});
      Check("MatrixTriangularSolve", {Dominant({2, 1, 2, 2}), Random(DType::kDouble, {3, 2, 1}, -1, 1)},
            {{"adjoint", adjoint}, {"lower", lower}});
    }
  }
  Check("MatrixInverse", {Dominant({2, 2, 2})});
  Check("MatrixDeterminant", {Dominant({3, 3})});
  Check("MatrixDeterminant", {Dominant({2, 2, 2})});
  Check("LogMatrixDeterminant", {Dominant({2, 3, 3})}, {}, 1);
}

// Cholesky reads the lower triangle of a symmetric matrix: the differences are those of x + x^T, so
// that the matrix stays symmetric.
BOOST_AUTO_TEST_CASE(gradient_of_cholesky) {
  for (const TensorShape& shape : {TensorShape({3, 3}), TensorShape({2, 2, 2})}) {
    const Scope s = Scope::NewRootScope();
    const Output x = Source(s, "x", shape);
    const Output swapped =
        Op(s, "Transpose",
           {x, Const(s, shape.rank() == 2 ? Tensor::Vector<int32_t>({1, 0}) : Tensor::Vector<int32_t>({0, 2, 1}))});
    const Output l = Op(s, "Cholesky", {x + swapped});
    const Output y = SumAll(s, l * Op(s, "Sin", {l + 1.0}));
    CheckGradients(s, y, {x}, {{"x", Dominant(shape)}}, Gradients(s, {y}, {x}));
  }
}

// The op that computes it at once agrees with the nodes that Cholesky's gradient adds.
BOOST_AUTO_TEST_CASE(both_gradients_of_cholesky_agree) {
  const Tensor a = test::Run(
      "AddV2", {Dominant({4, 4}), test::Run("Transpose", {Dominant({4, 4}), Tensor::Vector<int32_t>({1, 0})})});
  const Tensor grad = test::Run("MatrixBandPart", {Random(DType::kDouble, {4, 4}, -1, 1, 7),
                                                   Tensor::Scalar<int64_t>(-1), Tensor::Scalar<int64_t>(0)});
  const Scope s = Scope::NewRootScope();
  const Output x = Const(s, a), l = Op(s, "Cholesky", {x});
  const Output nodes = Gradients(s, {l}, {x}, {Const(s, grad)})[0],
               at_once = Op(s, "CholeskyGrad", {l, Const(s, grad)});
  const std::vector<Tensor> got = RunGraph(*s.graph(), {}, {nodes.name(), at_once.name()});
  for (int64_t i = 0; i < 16; ++i) BOOST_CHECK_SMALL(got[0].data<double>()[i] - got[1].data<double>()[i], 1e-13);
}

// With the singular values (the eigenvalues, the diagonal of the triangle) far apart.
BOOST_AUTO_TEST_CASE(gradients_of_orthogonal_decompositions) {
  for (const TensorShape& shape :
       {TensorShape({3, 3}), TensorShape({2, 4, 2}), TensorShape({2, 4}), TensorShape({3, 2})}) {
    const Tensor a = Random(DType::kDouble, shape, -2, 2, 4);
    const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
    Check("Svd", {a}, {{"compute_uv", false}}, 0);
    for (int output = 0; output < 3; ++output) {
      Check("Svd", {a}, {}, output);
      if (std::abs(rows - columns) <= 1) Check("Svd", {a}, {{"full_matrices", true}}, output);
    }
    for (int output = 0; output < 2; ++output) {
      Check("Qr", {a}, {}, output);
      if (rows <= columns) Check("Qr", {a}, {{"full_matrices", true}}, output);
    }
    TensorShape of_b = shape;
    of_b.set_dim(shape.rank() - 1, 3);
    for (const double l2 : {0.0, 0.5}) {
      const Scope s = Scope::NewRootScope();
      const Output x = Source(s, "x", shape), b = Source(s, "b", of_b);
      const Output y = Op(s, "MatrixSolveLs", {x, b, Const(s, Tensor::Scalar(l2))});
      const Output sum = SumAll(s, y * Op(s, "Sin", {y + 1.0}));
      CheckGradients(s, sum, {x, b}, {{"x", a}, {"b", Random(DType::kDouble, of_b, -1, 1, 9)}},
                     Gradients(s, {sum}, {x, b}));
    }
  }
}

// Only the lower triangle is read, and has the gradient of both.
BOOST_AUTO_TEST_CASE(gradients_of_eigenvalues) {
  for (const TensorShape& shape : {TensorShape({3, 3}), TensorShape({2, 2, 2})}) {
    for (int output = 0; output < 2; ++output)
      Check("SelfAdjointEigV2", {Random(DType::kDouble, shape, -2, 2)}, {}, output);
    Check("SelfAdjointEigV2", {Random(DType::kDouble, shape, -2, 2)}, {{"compute_v", false}}, 0);
  }
}

// Of complex matrices, by their parts. The magnitudes of vectors' elements do not depend on the
// factor that the vectors are free to have; q and r are unique.
BOOST_AUTO_TEST_CASE(gradients_of_complex_decompositions) {
  const auto check = [](const char* op, int outputs, const TensorShape& shape, bool self_adjoint) {
    const Scope s = Scope::NewRootScope();
    const Output re = Source(s, "re", shape), im = Source(s, "im", shape);
    const Output a = Op(s, "Complex", {re, im}, {{"Tout", DType::kComplex128}});
    const Operation made = EmitOp(s, op, {a});
    const AttrMap real = {{"Tout", DType::kDouble}};
    std::vector<Output> terms;
    for (int i = 0; i < outputs; ++i) {
      const Output o = made.output(i);
      const Output x = std::string_view(op) == "Qr" ? Op(s, "Real", {o}, real) * 1.5 + Op(s, "Imag", {o}, real)
                                                    : Op(s, "Real", {o * Op(s, "Conj", {o})}, real);
      terms.push_back(SumAll(s, Op(s, "Sin", {x * 2.0 + 1.0})));
    }
    const Output sum = outputs == 2 ? terms[0] + terms[1] : terms[0] + terms[1] + terms[2];
    Tensor values[] = {Random(DType::kDouble, shape, -2, 2, 5), Random(DType::kDouble, shape, -2, 2, 6)};
    if (self_adjoint) {
      for (int64_t i = 0; i < shape.dim(0); ++i) values[1].data<double>()[i * shape.dim(0) + i] = 0;
    }
    const std::vector<Output> grads = Gradients(s, {sum}, {re, im});
    BOOST_TEST_CONTEXT(op << " of " << shape.DebugString())
    CheckGradients(s, sum, {re, im}, {{"re", values[0]}, {"im", values[1]}}, grads);
  };
  for (const TensorShape& shape : {TensorShape({3, 3}), TensorShape({4, 2}), TensorShape({2, 4})}) {
    check("Qr", 2, shape, false);
    check("Svd", 3, shape, false);
  }
  check("SelfAdjointEigV2", 2, {3, 3}, true);
}

// a = u diag(s) v^H and so on, of matrices too large for recorded cases.
BOOST_AUTO_TEST_CASE(decompositions_give_the_matrix_again) {
  const auto near = [](const Tensor& got, const Tensor& want) {
    BOOST_REQUIRE(got.SameShape(want));
    for (int64_t i = 0; i < got.num_elements(); ++i)
      BOOST_REQUIRE_SMALL(got.data<double>()[i] - want.data<double>()[i], 1e-11);
  };
  const auto product = [](const Tensor& a, const Tensor& b, bool adjoint = false) {
    return test::Run("BatchMatMulV2", {a, b}, {{"adj_y", adjoint}});
  };
  for (const TensorShape& shape : {TensorShape({40, 25}), TensorShape({25, 40}), TensorShape({2, 33, 33})}) {
    const Tensor a = Random(DType::kDouble, shape, -1, 1);
    const std::vector<Tensor> svd = test::RunAll("Svd", {a}), qr = test::RunAll("Qr", {a});
    near(product(test::Run("Mul", {svd[1], test::Run("ExpandDims", {svd[0], Tensor::Scalar<int32_t>(-2)})}), svd[2],
                 true),
         a);
    near(product(qr[0], qr[1]), a);
    const Tensor gram = product(a, a, true);
    const std::vector<Tensor> eigen = test::RunAll("SelfAdjointEigV2", {gram});
    near(product(test::Run("Mul", {eigen[1], test::Run("ExpandDims", {eigen[0], Tensor::Scalar<int32_t>(-2)})}),
                 eigen[1], true),
         gram);
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_that_is_not_positive_definite_has_a_root_of_nan) {
  const Tensor l = test::Run("Cholesky", {Tensor::Of<float>({4, 0, 0, 9, 1, 2, 2, 1}, TensorShape({2, 2, 2}))});
  const float* v = l.data<float>();
  BOOST_CHECK(v[0] == 2 && v[1] == 0 && v[2] == 0 && v[3] == 3);
  BOOST_CHECK(std::isnan(v[4]) && v[5] == 0 && std::isnan(v[6]) && std::isnan(v[7]));
}

template <class T>
void CheckNumbersThatAreNone(DType dtype) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto values = [&](std::string_view op, std::vector<Tensor> in, AttrMap attrs = {}) {
    std::vector<double> v;
    for (const Tensor& t : test::RunAll(op, std::move(in), std::move(attrs))) {
      for (T x : t.flat<T>()) v.push_back(static_cast<double>(std::real(x)));
    }
    return v;
  };
  const auto matrix = [&](double a, double b, double c, double d) {
    return Tensor::Of<T>({T(a), T(b), T(c), T(d)}, TensorShape({2, 2}));
  };
  const auto all_nan = [](const std::vector<double>& v) {
    return std::all_of(v.begin(), v.end(), [](double x) { return std::isnan(x); });
  };
  BOOST_TEST_CONTEXT(Name(dtype)) {
    for (const Tensor& a : {matrix(nan, 1, 2, 3), matrix(1, nan, 2, 3), matrix(1, 2, nan, 3), matrix(1, 2, 3, nan),
                            matrix(nan, nan, nan, nan), matrix(0, 0, 0, nan)}) {
      for (const char* op : {"MatrixDeterminant", "LogMatrixDeterminant", "Svd"})
        BOOST_TEST(all_nan(values(op, {a}, op == std::string_view("Svd") ? AttrMap{{"compute_uv", true}} : AttrMap())),
                   op << " of " << a.DebugString());
    }
    BOOST_TEST(values("LogMatrixDeterminant", {matrix(1, 2, 2, 4)}) == (std::vector<double>{0, -inf}));
    BOOST_TEST(values("MatrixDeterminant", {matrix(0, 0, 0, 0)}) == std::vector<double>{0});
    if (!IsComplex(dtype)) {
      BOOST_TEST(values("MatrixDeterminant", {matrix(1, inf, 2, 3)}) == std::vector<double>{-inf});
      BOOST_TEST(values("MatrixDeterminant", {matrix(1, 2, 3, inf)}) == std::vector<double>{inf});
      BOOST_TEST(values("LogMatrixDeterminant", {matrix(1, 2, inf, 3)}) == (std::vector<double>{-1, inf}));
    }
    // Eigen's singular values of such a matrix are memory that nothing has written.
    for (const Tensor& a : {matrix(nan, 1, 2, 3), matrix(1, 2, 3, inf), matrix(nan, nan, nan, nan)}) {
      BOOST_TEST(all_nan(values("MatrixSolveLs", {a, matrix(1, 2, 3, 4), Tensor::Scalar(0.0)}, {{"fast", false}})));
      BOOST_TEST(all_nan(values("MatrixSolveLs", {a, a, Tensor::Scalar(0.0)}, {{"fast", false}})));
    }
  }
}

BOOST_AUTO_TEST_CASE(of_numbers_that_are_none) {
  CheckNumbersThatAreNone<float>(DType::kFloat);
  CheckNumbersThatAreNone<double>(DType::kDouble);
  CheckNumbersThatAreNone<std::complex<float>>(DType::kComplex64);
  CheckNumbersThatAreNone<std::complex<double>>(DType::kComplex128);
}

BOOST_AUTO_TEST_CASE(matrices_that_do_not_fit_or_cannot_be_solved_are_refused) {
  const Tensor vector = Tensor::Vector<float>({1, 2}), flat = Tensor::Of<float>({1, 2}, TensorShape({1, 2}));
  const Tensor singular = Tensor::Of<float>({1, 2, 2, 4}, TensorShape({2, 2})),
               one = Tensor::Of<float>({1, 0, 0, 1}, TensorShape({2, 2}));
  const Tensor second = Tensor::Of<float>({1, 0, 0, 1, 1, 2, 2, 4}, TensorShape({2, 2, 2}));
  const auto check = [](std::string_view op, std::vector<Tensor> in, const std::string& sentence) {
    const std::string error = ErrorOf(op, std::move(in));
    BOOST_CHECK_MESSAGE(test::Contains(error, sentence), op << ": " << error);
  };
  for (const char* op : {"Cholesky", "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant"}) {
    check(op, {vector}, "Input tensor 0 must have rank >= 2, got 1");
    check(op, {flat}, "Input matrix must be square, got 1 != 2");
  }
  check("MatrixInverse", {singular}, "Input is not invertible.");
  check("MatrixInverse", {second}, "Input is not invertible. (matrix 1 of 2)");
  check("MatrixSolve", {singular, one}, "Input matrix is not invertible.");
  check("MatrixSolve", {one, Tensor::Of<float>({1, 2, 3}, TensorShape({3, 1}))}, "incompatible: 2 rows vs. 3");
  check("MatrixSolve", {one, Tensor(DType::kFloat, TensorShape({2, 2, 1}))}, "[2,2] vs. [2,2,1]");
  check("MatrixTriangularSolve", {one, Tensor::Of<float>({1, 2, 3}, TensorShape({3, 1}))},
        "incompatible: 2 rows vs. 3");
  check("MatrixTriangularSolve", {second, Tensor(DType::kFloat, TensorShape({3, 2, 1}))}, "[3]");
  check("CholeskyGrad", {one, second}, "[2,2,2]");
  for (const char* op : {"Qr", "Svd", "SelfAdjointEigV2"})
    check(op, {vector}, "Input tensor 0 must have rank >= 2, got 1");
  check("SelfAdjointEigV2", {flat}, "Input matrix must be square, got 1 != 2");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check("SelfAdjointEigV2", {Tensor::Of<float>({nan, nan, nan, nan}, TensorShape({2, 2}))}, "was not successful");
  const Tensor none = Tensor::Scalar(0.0), below = Tensor::Scalar(-1.0);
  check("MatrixSolveLs", {singular, one, none}, "Input matrix was rank deficient");
  check("MatrixSolveLs", {one, one, below}, "l2_regularizer must be >= 0.");
  check("MatrixSolveLs", {one, one, Tensor::Vector<double>({1})}, "l2_regularizer must be scalar, got shape [1]");
  check("MatrixSolveLs", {one, second, none}, "batch dimensions of matrix and rhs must be equal");
  check("MatrixSolveLs", {one, Tensor::Of<float>({1, 2, 3}, TensorShape({3, 1})), none}, "incompatible: 2 rows vs. 3");
}

BOOST_AUTO_TEST_CASE(threads_do_not_change_results) {
  const Tensor a = Dominant({65, 12, 12});
  const Tensor once = test::Run("MatrixInverse", {a}), split = test::Run("MatrixInverse", {a}, {}, {}, 4);
  BOOST_CHECK(std::memcmp(once.raw(), split.raw(), once.bytes()) == 0);
  const Tensor unit = test::Run("BatchMatMulV2", {a, once});
  for (int64_t i = 0; i < unit.num_elements(); ++i)
    BOOST_CHECK_SMALL(unit.data<double>()[i] - (i % 144 % 13 == 0 ? 1 : 0), 1e-12);
}

}  // namespace linalg_test
}  // namespace troupe::testing
