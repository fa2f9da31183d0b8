// MatrixBandPart: matrices with everything outside a band around the diagonal set to zero.
#include <algorithm>

#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status BandShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape in, c.WithRankAtLeast(0, 2));
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
  c.set_output(0, std::move(in));
  return absl::OkStatus();
}

absl::Status BandGradient(GradientContext& g) {
  g.Set(0, g.Op("MatrixBandPart", {g.Grad(0), g.Input(1), g.Input(2)}));
  return g.status();
}

absl::Status ComputeBand(KernelContext& ctx) {
  const TensorShape shape = ctx.input(0).shape();
  if (shape.rank() < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", shape.DebugString());
  TROUPE_ASSIGN_OR_RETURN(const int64_t lower, ReadScalar(ctx.input(1), "num_lower"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t upper, ReadScalar(ctx.input(2), "num_upper"));
  const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  if (lower > rows)
    return InvalidArgument("num_lower must be negative or less or equal to number of rows (", rows, ") got: ", lower);
  if (upper > columns)
    return InvalidArgument("num_upper must be negative or less or equal to number of columns (", columns,
                           ") got: ", upper);
  Tensor out = ctx.TakeInput(0);
  if (!out.BufferUnique()) out = out.Clone(ctx.allocator());
  if (!out.valid()) return ResourceExhausted("no memory for a copy of the input");
  const int64_t lines = columns == 0 ? 0 : out.num_elements() / columns;
  VisitElement(out.dtype(), false, [&]<class E>() {
    E* x = static_cast<E*>(out.raw());
    ctx.threads()->ParallelFor(lines, 1.0 * static_cast<double>(columns), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t r = line % rows;
        // The band of this row is [first, behind).
        const int64_t first = lower < 0 ? 0 : std::clamp<int64_t>(r - lower, 0, columns);
        const int64_t behind = upper < 0 ? columns : std::clamp<int64_t>(r + upper + 1, first, columns);
        std::fill(x + line * columns, x + line * columns + first, E{});
        std::fill(x + line * columns + behind, x + (line + 1) * columns, E{});
      }
    });
    return true;
  });
  ctx.set_output(0, std::move(out));
  return absl::OkStatus();
}

TROUPE_OP("MatrixBandPart")
    .Input("input: T")
    .Input("num_lower: Tindex")
    .Input("num_upper: Tindex")
    .Output("band: T")
    .Attr("T: type")
    .Attr("Tindex: {int32, int64} = DT_INT64")
    .Shape(BandShape)
    .Gradient(BandGradient)
    .Doc(
        "The matrices in the last two dimensions of `input` with zeros outside the diagonal, `num_lower` diagonals "
        "below and `num_upper` above it; a negative\n"
        "number keeps them all.");
TROUPE_KERNEL("MatrixBandPart")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("num_lower")
    .HostMemory("num_upper")
    .Function<ComputeBand>();

}  // namespace
}  // namespace troupe::array
