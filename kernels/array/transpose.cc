// Transpose and ConjugateTranspose: dimensions in another order.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::StatusOr<Ints> ReadPermutation(const Tensor& perm, int rank) {
  if (perm.rank() != 1 || perm.num_elements() != rank) {
    return InvalidArgument("perm must be a vector of ", rank, " elements, got shape ", perm.shape().DebugString());
  }
  Ints p = ReadInts(perm);
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int64_t& d : p) {
    if (d < -rank || d >= rank) return InvalidArgument("perm has ", d, ", which is out of range [0, ", rank, ")");
    if (d < 0) d += rank;
    if (seen[static_cast<size_t>(d)])
      return InvalidArgument("perm [", StrJoin(p, ","), "] is no permutation: ", d, " comes twice");
    seen[static_cast<size_t>(d)] = true;
  }
  return p;
}

absl::Status TransposeShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape vector, c.WithRank(1, 1));
  PartialTensorShape in = c.input(0);
  const Tensor* perm = c.input_tensor(1);
  int rank = in.rank();
  if (rank < 0 && vector.dim(0) >= 0) rank = static_cast<int>(vector.dim(0));
  if (rank < 0) return shape_fn::Unknown(c);
  if (vector.dim(0) >= 0 && vector.dim(0) != rank)
    return InvalidArgument("perm has ", vector.dim(0), " elements for an input of rank ", rank);
  PartialTensorShape out = PartialTensorShape::OfRank(rank);
  if (perm != nullptr) {
    TROUPE_ASSIGN_OR_RETURN(const Ints p, ReadPermutation(*perm, rank));
    for (int i = 0; i < rank && in.known_rank(); ++i)
      out.set_dim(i, in.dim(static_cast<int>(p[static_cast<size_t>(i)])));
  } else if (in.known_rank() && rank == 1) {
    out = in;
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status TransposeGradient(GradientContext& g) {
  g.Set(0, g.Op("Transpose", {g.Grad(0), g.Op("InvertPermutation", {g.Input(1)})}));
  return g.status();
}
absl::Status ConjugateTransposeGradient(GradientContext& g) {
  g.Set(0, g.Op("ConjugateTranspose", {g.Grad(0), g.Op("InvertPermutation", {g.Input(1)})}));
  return g.status();
}

absl::Status ComputeTranspose(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(const Ints perm, ReadPermutation(ctx.input(1), in.rank()));
  TensorShape shape = in.shape();
  const Strides strides = DenseStrides(shape.dims());
  StridedCopy copy;
  // Moving dimensions of size 1 moves nothing.
  bool same_order = true;
  int64_t last = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t d = perm[static_cast<size_t>(i)];
    shape.set_dim(i, in.dim(static_cast<int>(d)));
    if (shape.dim(i) == 1) continue;
    same_order = same_order && d > last;
    last = d;
  }
  if (same_order) return PassOnReshaped(ctx, shape);
  const Strides to = DenseStrides(shape.dims());
  for (int i = 0; i < shape.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    copy.Add(shape.dim(i), to[k], strides[static_cast<size_t>(perm[k])]);
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

template <class C>
void Conjugate(KernelContext& ctx, Tensor* t) {
  C* x = t->data<C>();
  ctx.threads()->ParallelFor(t->num_elements(), 0.5, [x](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = std::conj(x[i]);
  });
}

absl::Status ComputeConjugateTranspose(KernelContext& ctx) {
  TROUPE_RETURN_IF_ERROR(ComputeTranspose(ctx));
  Tensor* out = ctx.output(0);
  if (!IsComplex(out->dtype())) return absl::OkStatus();
  if (!out->BufferUnique()) *out = out->Clone();  // it was passed on and somebody else reads it
  if (!out->valid()) return ResourceExhausted("no memory for a copy of the output");
  if (out->dtype() == DType::kComplex64)
    Conjugate<std::complex<float>>(ctx, out);
  else
    Conjugate<std::complex<double>>(ctx, out);
  return absl::OkStatus();
}

TROUPE_OP("Transpose")
    .Input("x: T")
    .Input("perm: Tperm")
    .Output("y: T")
    .Attr("T: type")
    .Attr("Tperm: {int32, int64} = DT_INT32")
    .Shape(TransposeShape)
    .Gradient(TransposeGradient)
    .Doc("`x` with its dimensions in the order `perm`: dimension i of the result is dimension perm[i] of `x`.");
TROUPE_KERNEL("Transpose").Device("CPU").Types("T", MovableTypes()).HostMemory("perm").Function<ComputeTranspose>();

TROUPE_OP("ConjugateTranspose")
    .Input("x: T")
    .Input("perm: Tperm")
    .Output("y: T")
    .Attr("T: type")
    .Attr("Tperm: {int32, int64} = DT_INT32")
    .Shape(TransposeShape)
    .Gradient(ConjugateTransposeGradient)
    .Doc("As Transpose, with every element replaced by its complex conjugate.");
TROUPE_KERNEL("ConjugateTranspose")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("perm")
    .Function<ComputeConjugateTranspose>();

}  // namespace
}  // namespace troupe::array
