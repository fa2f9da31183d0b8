// Bitcast: the same bytes under another dtype. A smaller element adds a dimension at the end, a
// bigger one takes the last dimension away.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

// `last` = size of the last dimension (-1 = unknown); `ratio` small elements make a big one.
absl::Status CheckLast(int rank, int64_t last, int64_t ratio, DType from, DType to) {
  if (rank == 0)
    return InvalidArgument("cannot bitcast from ", Name(from), " to ", Name(to),
                           ": a scalar has no dimension to take away");
  if (last >= 0 && last != ratio) {
    return InvalidArgument("cannot bitcast from ", Name(from), " to ", Name(to), ": the last dimension is ", last,
                           ", not ", ratio);
  }
  return absl::OkStatus();
}

absl::Status BitcastShape(InferenceContext& c) {
  const DType from = BaseType(c.input_type(0)), to = c.node().output_type(0);
  const auto a = static_cast<int64_t>(SizeOf(from)), b = static_cast<int64_t>(SizeOf(to));
  const PartialTensorShape& in = c.input(0);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  Ints dims(in.dims().begin(), in.dims().end());
  if (a > b) dims.push_back(a / b);
  if (a < b) {
    TROUPE_RETURN_IF_ERROR(CheckLast(in.rank(), dims.empty() ? -1 : dims.back(), b / a, from, to));
    dims.pop_back();
  }
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

absl::Status ComputeBitcast(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const DType from = in.dtype(), to = ctx.output_type(0);
  const auto a = static_cast<int64_t>(SizeOf(from)), b = static_cast<int64_t>(SizeOf(to));
  TensorShape shape = in.shape();
  if (a > b) shape.AddDim(a / b);
  if (a < b) {
    TROUPE_RETURN_IF_ERROR(
        CheckLast(shape.rank(), shape.rank() == 0 ? -1 : shape.dim(shape.rank() - 1), b / a, from, to));
    shape.RemoveDim(shape.rank() - 1);
  }
  ctx.set_output(0, in.WithType(to, shape));
  return absl::OkStatus();
}

TROUPE_OP("Bitcast")
    .Input("input: T")
    .Output("output: type")
    .Attr(
        "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, "
        "complex128, qint8, quint8, qint16, quint16, qint32}")
    .Attr(
        "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, "
        "complex128, qint8, quint8, qint16, quint16, qint32}")
    .Shape(BitcastShape)
    .NotDifferentiable("bits are not differentiable")
    .Doc(
        "The bytes of `input` as elements of dtype `type`. When those are smaller, a last dimension is added; when "
        "they are bigger, the last dimension\n"
        "must hold exactly one and goes.");
TROUPE_KERNEL("Bitcast").Device("CPU").Function<ComputeBitcast, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
