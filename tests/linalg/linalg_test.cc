// Gradients of linear algebra against finite differences, its errors, and batches that are split among threads. Values are compared in
// tests/ops.
#include "autodiff/numeric.h"
#include "math/math_case.h"

namespace troupe::testing {
namespace {

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

BOOST_AUTO_TEST_CASE(gradients) {
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

// Cholesky reads the lower triangle of a symmetric matrix: the differences are those of x + x^T, so that the matrix stays symmetric.
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

BOOST_AUTO_TEST_CASE(a_matrix_that_is_not_positive_definite_has_a_root_of_nan) {
  const Tensor l = test::Run("Cholesky", {Tensor::Of<float>({4, 0, 0, 9, 1, 2, 2, 1}, TensorShape({2, 2, 2}))});
  const float* v = l.data<float>();
  BOOST_CHECK(v[0] == 2 && v[1] == 0 && v[2] == 0 && v[3] == 3);
  BOOST_CHECK(std::isnan(v[4]) && v[5] == 0 && std::isnan(v[6]) && std::isnan(v[7]));
}

BOOST_AUTO_TEST_CASE(errors) {
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
}

BOOST_AUTO_TEST_CASE(threads_do_not_change_results) {
  const Tensor a = Dominant({65, 12, 12});
  const Tensor once = test::Run("MatrixInverse", {a}), split = test::Run("MatrixInverse", {a}, {}, {}, 4);
  BOOST_CHECK(std::memcmp(once.raw(), split.raw(), once.bytes()) == 0);
  const Tensor unit = test::Run("BatchMatMulV2", {a, once});
  for (int64_t i = 0; i < unit.num_elements(); ++i)
    BOOST_CHECK_SMALL(unit.data<double>()[i] - (i % 144 % 13 == 0 ? 1 : 0), 1e-12);
}

}  // namespace
}  // namespace troupe::testing
