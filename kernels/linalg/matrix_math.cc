#include "kernels/linalg/matrix_math.h"

namespace troupe::linalg {

Value LowerTriangle(const Value& a) {
  const auto diagonals = [&a](int64_t n) { return a.g->Const(Tensor::Scalar<int64_t>(n)); };
  return {a.g, a.g->Op("MatrixBandPart", {a.out, diagonals(-1), diagonals(0)})};
}

Value Columns(const Value& a, int64_t begin, int64_t end) {
  const auto ints = [&a](int64_t x, int64_t y) {
    return a.g->Const(Tensor::Vector<int32_t>({static_cast<int32_t>(x), static_cast<int32_t>(y)}));
  };
  return {a.g, a.g->Op("StridedSlice", {a.out, ints(0, begin), ints(0, std::max<int64_t>(end, 0)), ints(1, 1)},
                       {{"ellipsis_mask", int64_t{1}}, {"end_mask", int64_t{end < 0 ? 2 : 0}}})};
}

Value SideBySide(const Value& a, const Value& b) {
  const NodeOut last = a.g->Const(Tensor::Scalar<int32_t>(-1));
  return {a.g, a.g->Op("ConcatV2", {GradArg(std::vector<NodeOut>{a.out, b.out}), GradArg(last)}, {{"N", int64_t{2}}})};
}

Value SafeReciprocal(const Value& x) { return x * math::Apply("Reciprocal", x * x + math::Number(x, 1e-20)); }

Value ReciprocalDifferences(const Value& v) {
  const auto expanded = [&v](int32_t at) {
    return Value{v.g, v.g->Op("ExpandDims", {v.out, v.g->Const(Tensor::Scalar<int32_t>(at))})};
  };
  return WithDiagonal(SafeReciprocal(expanded(-2) - expanded(-1)), math::Apply("ZerosLike", v));
}

Value SolveTriangle(const Value& a, const Value& b, bool lower, bool adjoint) {
  return {a.g, a.g->Op("MatrixTriangularSolve", {a.out, b.out}, {{"lower", lower}, {"adjoint", adjoint}})};
}

}  // namespace troupe::linalg
