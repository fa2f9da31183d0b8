#include "kernels/linalg/matrices.h"

namespace troupe::linalg {

absl::StatusOr<Matrices> MatricesOf(const KernelContext& ctx, int input) {
  const TensorShape shape = ctx.input(input).shape();
  const int rank = shape.rank();
  if (rank < 2) return InvalidArgument("Input tensor ", input, " must have rank >= 2, got ", rank);
  Matrices m;
  for (int d = 0; d + 2 < rank; ++d) m.count *= shape.dim(d);
  m.rows = shape.dim(rank - 2);
  m.columns = shape.dim(rank - 1);
  return m;
}

absl::StatusOr<Matrices> SquareMatricesOf(const KernelContext& ctx, int input) {
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, input));
  if (m.rows != m.columns) return InvalidArgument("Input matrix must be square, got ", m.rows, " != ", m.columns);
  return m;
}

TensorShape BatchShape(const TensorShape& shape) { return TensorShape(shape.dims().subspan(0, shape.rank() - 2)); }

int64_t SourceMatrix(const TensorShape& to, const TensorShape& from, int64_t i) {
  int64_t at = 0, scale = 1;
  for (int d = to.rank() - 1, f = from.rank() - 1; f >= 0; --d, --f) {
    if (from.dim(f) != 1) at += i % to.dim(d) * scale;
    scale *= from.dim(f);
    i /= to.dim(d);
  }
  return at;
}

absl::StatusOr<PartialTensorShape> SquareShape(const InferenceContext& c, int input) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.WithRankAtLeast(input, 2));
  if (!shape.known_rank()) return shape;
  const int rank = shape.rank();
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, MergeDims(shape.dim(rank - 2), shape.dim(rank - 1)));
  shape.set_dim(rank - 2, n);
  shape.set_dim(rank - 1, n);
  return shape;
}

absl::Status SquareToSame(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, SquareShape(c, 0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status SquareToBatch(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape shape, SquareShape(c, 0));
  if (!shape.known_rank()) return shape_fn::Unknown(c);
  for (int o = 0; o < c.num_outputs(); ++o)
    c.set_output(o, PartialTensorShape(shape.dims().subspan(0, shape.rank() - 2)));
  return absl::OkStatus();
}

NodeOut Product(GradientContext& g, NodeOut a, NodeOut b, bool adjoint_a, bool adjoint_b) {
  return g.Op("BatchMatMulV2", {a, b}, {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}

NodeOut Adjoint(GradientContext& g, NodeOut a) {
  // The permutation 0, 1, ..., r - 3, r - 1, r - 2.
  const auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
  const auto number = [&g](int32_t v) { return g.Const(Tensor::Scalar<int32_t>(v)); };
  const NodeOut rank = g.Op("Rank", {a}), two = number(2);
  const NodeOut front = g.Op("Range", {number(0), g.Op("Sub", {rank, two}), number(1)});
  const NodeOut back = g.Op("Sub", {rank, ints({1, 2})});
  const NodeOut permutation =
      g.Op("ConcatV2", {GradArg(std::vector<NodeOut>{front, back}), GradArg(number(0))}, {{"N", int64_t{2}}});
  return g.Op("ConjugateTranspose", {a, permutation});
}

NodeOut PerMatrix(GradientContext& g, NodeOut scalars) {
  const NodeOut minus_one = g.Const(Tensor::Scalar<int32_t>(-1));
  return g.Op("ExpandDims", {g.Op("ExpandDims", {scalars, minus_one}), minus_one});
}

void SetSummedToBatches(GradientContext& g, NodeOut grad0, NodeOut grad1) {
  const auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
  const NodeOut shapes[] = {g.Op("Shape", {g.Input(0)}), g.Op("Shape", {g.Input(1)})};
  const auto batch = [&](NodeOut shape) {
    return g.Op("StridedSlice", {shape, ints({0}), ints({-2}), ints({1})}, {{"begin_mask", int64_t{1}}});
  };
  const NodeOut axes = g.Op("BroadcastGradientArgs", {batch(shapes[0]), batch(shapes[1])});
  if (!axes.valid()) return;
  const NodeOut grads[] = {grad0, grad1};
  for (int i = 0; i < 2; ++i) g.Set(i, g.Op("Reshape", {g.Op("Sum", {grads[i], NodeOut{axes.node, i}}), shapes[i]}));
}

}  // namespace troupe::linalg
