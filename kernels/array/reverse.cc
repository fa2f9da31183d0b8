// Reverse and ReverseV2: dimensions walked from their end. They differ in how the dimensions are
// named: one bool each, or a list of axes.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// Which dimensions input 1 names.
absl::StatusOr<std::vector<bool>> Reversed(const Tensor& which, int rank) {
  if (which.rank() != 1)
    return InvalidArgument("the dimensions to reverse must be a vector, got shape ", which.shape().DebugString());
  std::vector<bool> reversed(static_cast<size_t>(rank));
  if (which.dtype() == DType::kBool) {
    if (which.num_elements() != rank)
      return InvalidArgument("dims must have ", rank, " elements, one per dimension, not ", which.num_elements());
    for (int i = 0; i < rank; ++i) reversed[static_cast<size_t>(i)] = which.data<bool>()[i];
    return reversed;
  }
  for (int64_t axis : ReadInts(which)) {
    TROUPE_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis, rank));
    if (reversed[static_cast<size_t>(d)]) return InvalidArgument("axis ", d, " specified more than once");
    reversed[static_cast<size_t>(d)] = true;
  }
  return reversed;
}

absl::Status ReverseShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape which, c.WithRank(1, 1));
  PartialTensorShape out = c.input(0);
  if (c.input_type(1) == DType::kBool && which.dim(0) >= 0) {
    TROUPE_ASSIGN_OR_RETURN(out, c.WithRank(0, static_cast<int>(which.dim(0))));
  }
  if (const Tensor* t = c.input_tensor(1); t != nullptr && out.known_rank())
    TROUPE_RETURN_IF_ERROR(Reversed(*t, out.rank()).status());
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status ReverseGradient(GradientContext& g) {
  g.Set(0, g.Op(g.node().op().name, {g.Grad(0), g.Input(1)}));
  return g.status();
}

absl::Status ComputeReverse(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const TensorShape shape = in.shape();
  TROUPE_ASSIGN_OR_RETURN(const std::vector<bool> reversed, Reversed(ctx.input(1), shape.rank()));
  const Strides strides = DenseStrides(shape.dims());
  StridedCopy copy;
  bool same = true;
  for (int i = 0; i < shape.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    const bool turn = reversed[k] && shape.dim(i) > 1;
    same = same && !turn;
    copy.Add(shape.dim(i), strides[k], turn ? -strides[k] : strides[k]);
    if (turn) copy.src_offset += (shape.dim(i) - 1) * strides[k];
  }
  if (same) return PassOn(ctx);
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

TROUPE_OP("Reverse")
    .Input("tensor: T")
    .Input("dims: bool")
    .Output("output: T")
    .Attr(
        "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, float, double, complex64, "
        "complex128, string}")
    .Shape(ReverseShape)
    .Gradient(ReverseGradient)
    .Doc("`tensor` with the dimensions i for which dims[i] is true reversed.");
TROUPE_KERNEL("Reverse").Device("CPU").HostMemory("dims").Function<ComputeReverse>();

TROUPE_OP("ReverseV2")
    .Input("tensor: T")
    .Input("axis: Tidx")
    .Output("output: T")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Attr(
        "T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, float, double, complex64, "
        "complex128, string}")
    .Shape(ReverseShape)
    .Gradient(ReverseGradient)
    .Doc("`tensor` with the dimensions `axis` reversed; negative ones count from the end.");
TROUPE_KERNEL("ReverseV2").Device("CPU").HostMemory("axis").Function<ComputeReverse>();

}  // namespace
}  // namespace troupe::array
