// InvertPermutation: y[x[i]] = i.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status ComputeInvertPermutation(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.rank() != 1) return InvalidArgument("invert_permutation expects a vector, got shape ", x.shape().DebugString());
  const int64_t n = x.num_elements();
  const Ints from = ReadInts(x);
  Ints to(from.size(), -1);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = from[static_cast<size_t>(i)];
    if (d < 0 || d >= n) return InvalidArgument(d, " is not between 0 and ", n);
    if (to[static_cast<size_t>(d)] != -1) return InvalidArgument(d, " is duplicated in the input");
    to[static_cast<size_t>(d)] = i;
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({n})));
  return WriteInts(to, out);
}

TROUPE_OP("InvertPermutation")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(shape_fn::UnchangedWithRank1)
    .NotDifferentiable("indices are not differentiable")
    .Doc("The inverse of the permutation `x`: y[x[i]] = i.");
TROUPE_KERNEL("InvertPermutation").Device("CPU").Function<ComputeInvertPermutation>();

}  // namespace
}  // namespace troupe::array
