// DynamicStitch and ParallelDynamicStitch: slices put at their indices into one value; of slices
// with equal indices the last one stays.
#include <algorithm>

#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

// Inputs [0, n) are indices, [n, 2n) the data: data[i] has the shape indices[i].shape + slice
// shape.
absl::Status StitchShape(InferenceContext& c) {
  const int n = c.num_inputs() / 2;
  PartialTensorShape slice;
  int64_t size = 0;
  for (int i = 0; i < n; ++i) {
    const PartialTensorShape &indices = c.input(i), &data = c.input(n + i);
    const Tensor* t = c.input_tensor(i);
    if (t == nullptr) {
      size = -1;
    } else if (size >= 0) {
      for (int64_t v : ReadInts(*t)) size = std::max(size, v + 1);
    }
    if (!indices.known_rank() || !data.known_rank()) continue;
    if (data.rank() < indices.rank()) {
      return InvalidArgument("data[", i, "].shape ", data.DebugString(), " does not start with indices[", i, "].shape ",
                             indices.DebugString());
    }
    PartialTensorShape tail = PartialTensorShape::OfRank(0);
    for (int k = 0; k < data.rank(); ++k) {
      if (k < indices.rank())
        TROUPE_RETURN_IF_ERROR(MergeDims(indices.dim(k), data.dim(k)).status());
      else
        tail.AddDim(data.dim(k));
    }
    TROUPE_ASSIGN_OR_RETURN(slice, slice.MergeWith(tail));
  }
  if (!slice.known_rank()) return shape_fn::Unknown(c);
  PartialTensorShape out{size};
  for (int64_t d : slice.dims()) out.AddDim(d);
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status StitchGradient(GradientContext& g) {
  const int n = g.num_inputs() / 2;
  for (int i = 0; i < n; ++i) g.Set(n + i, g.Op("GatherV2", {g.Grad(0), g.Input(i), Int(g, 0)}));
  return g.status();
}

absl::Status ComputeStitch(KernelContext& ctx) {
  const int n = ctx.num_inputs() / 2;
  int64_t size = 0;
  TensorShape slice;
  for (int i = 0; i < n; ++i) {
    const Tensor &indices = ctx.input(i), &data = ctx.input(n + i);
    bool prefix = data.rank() >= indices.rank();
    for (int k = 0; prefix && k < indices.rank(); ++k) prefix = data.dim(k) == indices.dim(k);
    if (!prefix) {
      return InvalidArgument("data[", i, "].shape = ", data.shape().DebugString(), " does not start with indices[", i,
                             "].shape = ", indices.shape().DebugString());
    }
    TensorShape tail;
    for (int k = indices.rank(); k < data.rank(); ++k) tail.AddDim(data.dim(k));
    if (i == 0) slice = tail;
    if (slice != tail) {
      return InvalidArgument("slices of all data must have one shape: those of data[0] have ", slice.DebugString(),
                             ", those of data[", i, "] ", tail.DebugString());
    }
    for (int32_t v : indices.flat<int32_t>()) {
      if (v < 0) return InvalidArgument("indices[", i, "] has ", v, ", which is negative");
      size = std::max<int64_t>(size, v + int64_t{1});
    }
  }
  TensorShape shape({size});
  shape.Append(slice);
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  // Slices that no index names are zeros.
  ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  const int64_t m = slice.num_elements();
  VisitElement(out->dtype(), false, [&]<class E>() {
    E* to = static_cast<E*>(out->raw());
    for (int i = 0; i < n; ++i) {
      const E* from = static_cast<const E*>(ctx.input(n + i).raw());
      for (int32_t v : ctx.input(i).flat<int32_t>()) {
        std::copy(from, from + m, to + v * m);
        from += m;
      }
    }
    return true;
  });
  return absl::OkStatus();
}

TROUPE_OP("DynamicStitch")
    .Input("indices: N * int32")
    .Input("data: N * T")
    .Output("merged: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Shape(StitchShape)
    .Gradient(StitchGradient)
    .Doc(
        "One value with merged[indices[m][i...]] = data[m][i...]; where an index comes twice the last one wins, slices "
        "that no index names are zeros.");
TROUPE_KERNEL("DynamicStitch").Device("CPU").Types("T", MovableTypes()).Function<ComputeStitch>();

TROUPE_OP("ParallelDynamicStitch")
    .Input("indices: N * int32")
    .Input("data: N * T")
    .Output("merged: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Shape(StitchShape)
    .Gradient(StitchGradient)
    .Doc("As DynamicStitch, for indices that differ: which of slices with equal indices stays is not promised.");
TROUPE_KERNEL("ParallelDynamicStitch").Device("CPU").Types("T", MovableTypes()).Function<ComputeStitch>();

}  // namespace
}  // namespace troupe::array
