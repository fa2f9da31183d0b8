// Gradients of bands of diagonals against finite differences, and what the ops refuse. Values are
// compared in tests/ops.
#include "tests/autodiff/numeric.h"
#include "tests/ops/run_op.h"

namespace troupe::testing {
namespace diagonals_test {

using test::Random;

Tensor Band(std::initializer_list<int32_t> k) { return Tensor::Vector<int32_t>(k); }

// The gradients of a function of tensors of these shapes.
template <class F>
void Check(const std::vector<TensorShape>& shapes, F f) {
  const Scope s = Scope::NewRootScope();
  std::vector<Output> xs;
  Feeds feeds;
  for (const TensorShape& shape : shapes) {
    xs.push_back(Source(s, StrCat("x", xs.size()), shape));
    feeds.emplace_back(xs.back().node()->name(), Random(DType::kDouble, shape, -1, 1, xs.size()));
  }
  const Output y = f(s, xs), loss = SumAll(s, y * y * y);
  CheckGradients(s, loss, xs, feeds, Gradients(s, {loss}, xs));
}

BOOST_AUTO_TEST_CASE(gradients_of_bands) {
  for (const char* version : {"V2", "V3"}) {
    const std::string v = version;
    for (const char* align : {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"}) {
      if (v == "V2" && std::string(align) != "LEFT_LEFT") continue;
      const AttrMap attrs = v == "V3" ? AttrMap{{"align", align}} : AttrMap{};
      Check({{2, 3, 3}}, [&](const Scope& s, const std::vector<Output>& x) {
        const Output rows = Const(s, Tensor::Scalar<int32_t>(3)), columns = Const(s, Tensor::Scalar<int32_t>(4));
        return Op(s, "MatrixDiag" + v, {x[0], Const(s, Band({-1, 1})), rows, columns, Const(s, 0.5)}, attrs);
      });
      Check({{2, 3, 4}}, [&](const Scope& s, const std::vector<Output>& x) {
        return Op(s, "MatrixDiagPart" + v, {x[0], Const(s, Band({-2, 1})), Const(s, 0.5)}, attrs);
      });
      Check({{2, 3, 4}, {2, 3, 3}}, [&](const Scope& s, const std::vector<Output>& x) {
        return Op(s, "MatrixSetDiag" + v, {x[0], x[1], Const(s, Band({-1, 1}))}, attrs);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(bands_that_are_refused) {
  const Tensor matrix(DType::kFloat, TensorShape({2, 3})), zero = Tensor::Scalar(0.f);
  const auto number = [](int32_t n) { return Tensor::Scalar<int32_t>(n); };
  const auto check = [](std::string_view op, std::vector<Tensor> in, const std::string& sentence) {
    const std::string error = test::ErrorOf(op, std::move(in));
    BOOST_CHECK_MESSAGE(test::Contains(error, sentence), op << ": " << error);
  };
  check("MatrixDiagPartV3", {matrix, Band({1, 0}), zero},
        "lower_diag_index must not be larger than upper_diag_index: 1 > 0");
  check("MatrixDiagPartV3", {matrix, Band({0, 1, 2}), zero}, "one or two elements, received shape: [3]");
  check("MatrixDiagPartV3", {matrix, Band({-2}), zero}, "lower_diag_index is out of bound: -2 is not between -2 and 3");
  check("MatrixDiagPartV3", {matrix, Band({0, 3}), zero},
        "upper_diag_index is out of bound: 3 is not between -2 and 3");
  check("MatrixDiagPartV3", {matrix, Band({0}), Tensor::Vector<float>({1, 2})},
        "padding_value must be a scalar, got shape [2]");
  check("MatrixDiagPartV3", {Tensor::Vector<float>({1}), Band({0}), zero}, "1");
  check("MatrixDiagV3", {matrix, Band({0}), number(2), number(3), zero}, "The number of rows is too small: 2 < 3");
  check("MatrixDiagV3", {matrix, Band({0}), number(4), number(5), zero}, "not consistent");
  check("MatrixDiagV3", {matrix, Band({0, 2}), number(-1), number(-1), zero}, "2 instead of 3");
  check("MatrixSetDiagV3", {matrix, matrix, Band({0})},
        "diagonal must have shape [2] for this input and band, received shape: [2,3]");
}

}  // namespace diagonals_test
}  // namespace troupe::testing
