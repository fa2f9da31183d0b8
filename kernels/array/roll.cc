// Roll: elements shifted along some dimensions; what leaves at one end comes in at the other.
#include <algorithm>

#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// By how much each dimension is shifted, at least 0 and less than its size. An axis that comes
// several times is shifted by the sum.
absl::StatusOr<Ints> ShiftsOf(const Tensor& shift, const Tensor& axis, const TensorShape& shape) {
  if (shape.rank() < 1) return InvalidArgument("input must be 1-D or higher, got a scalar");
  if (shift.rank() > 1 || axis.rank() > 1)
    return InvalidArgument("shift and axis must be scalars or vectors, got shapes ", shift.shape().DebugString(),
                           " and ", axis.shape().DebugString());
  if (shift.num_elements() != axis.num_elements())
    return InvalidArgument("shift and axis must have the same size, got ", shift.num_elements(), " and ",
                           axis.num_elements());
  Ints shifts(static_cast<size_t>(shape.rank()));
  for (int64_t i = 0; i < axis.num_elements(); ++i) {
    TROUPE_ASSIGN_OR_RETURN(const int d, NormalizeAxis(IntAt(axis, i), shape.rank()));
    const int64_t size = std::max<int64_t>(shape.dim(d), 1);
    int64_t& by = shifts[static_cast<size_t>(d)];
    by = (by + IntAt(shift, i) % size + size) % size;
  }
  return shifts;
}

absl::Status RollShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape input, c.WithRankAtLeast(0, 1));
  int64_t sizes[2];
  for (int i = 0; i < 2; ++i) {
    const PartialTensorShape& s = c.input(i + 1);
    if (s.known_rank() && s.rank() > 1)
      return InvalidArgument(i == 0 ? "shift" : "axis", " must be a scalar or a vector, got shape ", s.DebugString());
    sizes[i] = !s.known_rank() ? -1 : s.rank() == 0 ? 1 : s.dim(0);
  }
  TROUPE_RETURN_IF_ERROR(MergeDims(sizes[0], sizes[1]).status());
  c.set_output(0, std::move(input));
  return absl::OkStatus();
}

absl::Status RollGradient(GradientContext& g) {
  g.Set(0, g.Op("Roll", {g.Grad(0), g.Op("Neg", {g.Input(1)}), g.Input(2)}));
  return g.status();
}

absl::Status ComputeRoll(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const TensorShape shape = in.shape();
  TROUPE_ASSIGN_OR_RETURN(const Ints shifts, ShiftsOf(ctx.input(1), ctx.input(2), shape));
  int last = shape.rank() - 1;  // of those that are shifted
  while (last >= 0 && shifts[static_cast<size_t>(last)] == 0) --last;
  if (last < 0 || in.num_elements() == 0) return PassOn(ctx);
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));

  // A row is what lies within one index of the dimensions before the last one that is shifted. It
  // goes to another row as a whole, in two pieces that change places.
  const Strides strides = DenseStrides(shape.dims());
  const int64_t stride = strides[static_cast<size_t>(last)], row = shape.dim(last) * stride;
  const int64_t behind = shifts[static_cast<size_t>(last)] * stride;  // how much leaves at the end
  VisitElement(in.dtype(), false, [&]<class E>() {
    const E* const from = static_cast<const E*>(in.raw());
    E* const to = static_cast<E*>(out->raw());
    const double cost = 10 + 0.1 * static_cast<double>(row) * sizeof(E);
    ctx.threads()->ParallelFor(in.num_elements() / row, cost, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        int64_t target = 0;
        for (int d = 0; d < last; ++d) {
          const auto k = static_cast<size_t>(d);
          target += (r * row / strides[k] + shifts[k]) % shape.dim(d) * strides[k];
        }
        std::copy_n(from + r * row, row - behind, to + target + behind);
        std::copy_n(from + r * row + (row - behind), behind, to + target);
      }
    });
    return true;
  });
  return absl::OkStatus();
}

TROUPE_OP("Roll")
    .Input("input: T")
    .Input("shift: Tshift")
    .Input("axis: Taxis")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tshift: {int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .Shape(RollShape)
    .Gradient(RollGradient)
    .Doc(
        "`input` with its elements shifted by `shift` along the dimensions `axis`, towards larger indices; what leaves "
        "at the end comes in at the beginning. Negative axes count from the end; an axis that comes several times is "
        "shifted by the sum.");
TROUPE_KERNEL("Roll")
    .Device("CPU")
    .HostMemory("shift")
    .HostMemory("axis")
    .Types("T", MovableTypes())
    .Function<ComputeRoll>();

}  // namespace
}  // namespace troupe::array
