// DynamicPartition: slices sorted into several values by a number that comes with each; their order
// is kept.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status PartitionShape(InferenceContext& c) {
  const PartialTensorShape &data = c.input(0), &partitions = c.input(1);
  if (!data.known_rank() || !partitions.known_rank()) return shape_fn::Unknown(c);
  if (data.rank() < partitions.rank()) {
    return InvalidArgument("data.shape ", data.DebugString(), " must start with partitions.shape ",
                           partitions.DebugString());
  }
  PartialTensorShape out{-1};
  for (int k = 0; k < data.rank(); ++k) {
    if (k < partitions.rank())
      TROUPE_RETURN_IF_ERROR(MergeDims(data.dim(k), partitions.dim(k)).status());
    else
      out.AddDim(data.dim(k));
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, out);
  return absl::OkStatus();
}

// The slices' own positions, partitioned the same way, tell where their gradients go back to.
absl::Status PartitionGradient(GradientContext& g) {
  const int n = g.num_outputs();
  const NodeOut shape = ShapeOf(g, g.Input(1));
  const NodeOut positions = g.Op("Range", {Int(g, 0), g.Op("Prod", {shape, Int(g, 0)}), Int(g, 1)});
  const NodeOut parts =
      g.Op("DynamicPartition", {g.Op("Reshape", {positions, shape}), g.Input(1)}, {{"num_partitions", n}});
  if (!parts.valid()) return g.status();
  std::vector<NodeOut> indices, grads;
  for (int i = 0; i < n; ++i) {
    indices.push_back({parts.node, i});
    grads.push_back(g.Grad(i));
  }
  const NodeOut flat = g.Op("ParallelDynamicStitch", std::vector<GradArg>{indices, grads});
  g.Set(0, g.Op("Reshape", {flat, ShapeOf(g, g.Input(0))}));
  return g.status();
}

absl::Status ComputePartition(KernelContext& ctx) {
  const Tensor &data = ctx.input(0), &partitions = ctx.input(1);
  bool prefix = data.rank() >= partitions.rank();
  for (int k = 0; prefix && k < partitions.rank(); ++k) prefix = data.dim(k) == partitions.dim(k);
  if (!prefix) {
    return InvalidArgument("data.shape must start with partitions.shape, got data.shape = ", data.shape().DebugString(),
                           ", partitions.shape = ", partitions.shape().DebugString());
  }
  const int n = ctx.num_outputs();
  std::vector<int64_t> counts(static_cast<size_t>(n));
  const auto which = partitions.flat<int32_t>();
  for (size_t i = 0; i < which.size(); ++i) {
    if (which[i] < 0 || which[i] >= n)
      return InvalidArgument("partitions[", i, "] = ", which[i], " is not in [0, ", n, ")");
    ++counts[static_cast<size_t>(which[i])];
  }
  TensorShape slice;
  for (int k = partitions.rank(); k < data.rank(); ++k) slice.AddDim(data.dim(k));
  const int64_t m = slice.num_elements();
  for (int i = 0; i < n; ++i) {
    TensorShape shape({counts[static_cast<size_t>(i)]});
    shape.Append(slice);
    TROUPE_RETURN_IF_ERROR(ctx.AllocateOutput(i, shape).status());
  }
  VisitElement(data.dtype(), false, [&]<class E>() {
    std::vector<E*> to;
    to.reserve(n);
    for (int i = 0; i < n; ++i) to.push_back(static_cast<E*>(ctx.output(i)->raw()));
    const E* from = static_cast<const E*>(data.raw());
    for (int32_t p : which) {
      to[static_cast<size_t>(p)] = std::copy(from, from + m, to[static_cast<size_t>(p)]);
      from += m;
    }
    return true;
  });
  return absl::OkStatus();
}

TROUPE_OP("DynamicPartition")
    .Input("data: T")
    .Input("partitions: int32")
    .Output("outputs: num_partitions * T")
    .Attr("num_partitions: int >= 1")
    .Attr("T: type")
    .Shape(PartitionShape)
    .Gradient(PartitionGradient)
    .Doc(
        "`num_partitions` values: output p holds the slices data[i..., :] for which partitions[i...] = p, in their "
        "order.");
TROUPE_KERNEL("DynamicPartition").Device("CPU").Types("T", MovableTypes()).Function<ComputePartition>();

}  // namespace
}  // namespace troupe::array
