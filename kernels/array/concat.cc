// Concat and ConcatV2: values one behind the other along a dimension; they differ in where the
// dimension's number stands among the inputs.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// Inputs [first, first + n) are the values, input `axis` the dimension.
struct ConcatLayout {
  int first, n, axis;
};
ConcatLayout V1(int num_inputs) { return {1, num_inputs - 1, 0}; }
ConcatLayout V2(int num_inputs) { return {0, num_inputs - 1, num_inputs - 1}; }

absl::Status ConcatShapeFor(InferenceContext& c, ConcatLayout at) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(at.axis, 0).status());
  int rank = -1;
  for (int i = at.first; i < at.first + at.n; ++i) {
    if (!c.input(i).known_rank()) continue;
    if (rank >= 0 && c.input(i).rank() != rank) {
      return InvalidArgument("ranks of all values must match: value ", i - at.first, " has shape ",
                             c.input(i).DebugString(), ", not rank ", rank);
    }
    rank = c.input(i).rank();
  }
  TROUPE_ASSIGN_OR_RETURN(const KnownInt dim, ConstantScalar(c, at.axis, "axis"));
  if (rank < 0) return shape_fn::Unknown(c);
  if (rank == 0) return InvalidArgument("cannot concatenate scalars (pack them instead)");
  if (!dim.known) {
    c.set_output(0, PartialTensorShape::OfRank(rank));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim.value, rank));
  PartialTensorShape out = PartialTensorShape::OfRank(rank);
  int64_t total = 0;
  for (int i = at.first; i < at.first + at.n; ++i) {
    PartialTensorShape in = c.input(i).known_rank() ? c.input(i) : PartialTensorShape::OfRank(rank);
    total = AddDims(total, in.dim(axis));
    in.set_dim(axis, -1);
    absl::StatusOr<PartialTensorShape> merged = out.MergeWith(in);
    if (!merged.ok()) {
      return InvalidArgument("dimensions but ", axis, " of all values must be equal: value ", i - at.first,
                             " has shape ", c.input(i).DebugString(), ", those before ", out.DebugString());
    }
    out = *std::move(merged);
  }
  out.set_dim(axis, total);
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status ConcatGradientFor(GradientContext& g, ConcatLayout at) {
  if (at.n == 1) {
    g.Set(at.first, g.Grad(0));
    return g.status();
  }
  std::vector<NodeOut> values;
  for (int i = at.first; i < at.first + at.n; ++i) values.push_back(g.Input(i));
  NodeOut axis = g.Input(at.axis);
  if (g.input_type(at.axis) != DType::kInt32) axis = g.Op("Cast", {axis}, {{"DstT", DType::kInt32}});
  const NodeOut sizes = g.Op("ShapeN", std::vector<GradArg>{values});
  if (!sizes.valid()) return g.status();
  std::vector<NodeOut> all_sizes;
  for (int i = 0; i < at.n; ++i) all_sizes.push_back({sizes.node, i});
  const NodeOut offset = g.Op("ConcatOffset", std::vector<GradArg>{axis, all_sizes});
  if (!offset.valid()) return g.status();
  for (int i = 0; i < at.n; ++i)
    g.Set(at.first + i, g.Op("Slice", {g.Grad(0), NodeOut{offset.node, i}, all_sizes[static_cast<size_t>(i)]}));
  return g.status();
}

absl::Status ComputeConcatFor(KernelContext& ctx, ConcatLayout at) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t dim, ReadScalar(ctx.input(at.axis), "axis"));
  const Tensor& first = ctx.input(at.first);
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim, first.rank(), "the dimension to concatenate along"));
  TensorShape shape = first.shape();
  int64_t total = 0;
  for (int i = at.first; i < at.first + at.n; ++i) {
    const Tensor& in = ctx.input(i);
    if (in.rank() != first.rank()) {
      return InvalidArgument("ranks of all values must match: value 0 has shape ", shape.DebugString(), ", value ",
                             i - at.first, " has ", in.shape().DebugString());
    }
    for (int k = 0; k < in.rank(); ++k) {
      if (k != axis && in.dim(k) != first.dim(k)) {
        return InvalidArgument("dimension ", k, " of all values must be equal: value 0 has shape ",
                               first.shape().DebugString(), ", value ", i - at.first, " has ",
                               in.shape().DebugString());
      }
    }
    total += in.dim(axis);
  }
  shape.set_dim(axis, total);
  // The only value with elements is the result.
  for (int i = at.first; i < at.first + at.n; ++i) {
    if (ctx.input(i).dim(axis) == total) {
      ctx.set_output(0, ctx.TakeInput(i));
      return absl::OkStatus();
    }
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  if (out->num_elements() == 0) return absl::OkStatus();
  int64_t inner = 1, outer = 1;
  for (int k = 0; k < axis; ++k) outer *= shape.dim(k);
  for (int k = axis + 1; k < shape.rank(); ++k) inner *= shape.dim(k);
  int64_t offset = 0;
  for (int i = at.first; i < at.first + at.n; ++i) {
    const Tensor& in = ctx.input(i);
    const int64_t run = in.dim(axis) * inner;
    StridedCopy copy;
    copy.Add(outer, total * inner, run);
    copy.Add(run, 1, 1);
    copy.dst_offset = offset;
    copy.Run(ctx.threads(), out->dtype(), out->raw(), in.raw());
    offset += run;
  }
  return absl::OkStatus();
}

absl::Status ConcatShape(InferenceContext& c) { return ConcatShapeFor(c, V1(c.num_inputs())); }
absl::Status ConcatV2Shape(InferenceContext& c) { return ConcatShapeFor(c, V2(c.num_inputs())); }
absl::Status ConcatGradient(GradientContext& g) { return ConcatGradientFor(g, V1(g.num_inputs())); }
absl::Status ConcatV2Gradient(GradientContext& g) { return ConcatGradientFor(g, V2(g.num_inputs())); }
absl::Status ComputeConcat(KernelContext& ctx) { return ComputeConcatFor(ctx, V1(ctx.num_inputs())); }
absl::Status ComputeConcatV2(KernelContext& ctx) { return ComputeConcatFor(ctx, V2(ctx.num_inputs())); }

TROUPE_OP("Concat")
    .Input("concat_dim: int32")
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 2")
    .Attr("T: type")
    .Shape(ConcatShape)
    .Gradient(ConcatGradient)
    .Doc("The N `values`, equal in all dimensions but `concat_dim`, one behind the other along that dimension.");
TROUPE_KERNEL("Concat").Device("CPU").Types("T", MovableTypes()).HostMemory("concat_dim").Function<ComputeConcat>();

TROUPE_OP("ConcatV2")
    .Input("values: N * T")
    .Input("axis: Tidx")
    .Output("output: T")
    .Attr("N: int >= 2")
    .Attr("T: type")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(ConcatV2Shape)
    .Gradient(ConcatV2Gradient)
    .Doc(
        "The N `values`, equal in all dimensions but `axis`, one behind the other along that dimension; a negative "
        "`axis` counts from the end.");
TROUPE_KERNEL("ConcatV2").Device("CPU").Types("T", MovableTypes()).HostMemory("axis").Function<ComputeConcatV2>();

}  // namespace
}  // namespace troupe::array
