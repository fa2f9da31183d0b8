// GatherNd: elements or slices of a value picked by index tuples: output[i..., :] =
// params[indices[i..., 0], ..., indices[i..., n-1], :].
#include "kernels/array/index_tuples.h"
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status GatherNdShape(InferenceContext& c) {
  const PartialTensorShape& params = c.input(0);
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape indices, c.WithRankAtLeast(1, 1));
  if (!indices.known_rank() || !params.known_rank() || indices.dim(indices.rank() - 1) < 0) return shape_fn::Unknown(c);
  const int64_t n = indices.dim(indices.rank() - 1);
  if (n > params.rank())
    return InvalidArgument("index tuples of ", n, " elements do not fit params of rank ", params.rank());
  PartialTensorShape out = PartialTensorShape::OfRank(0);
  for (int k = 0; k + 1 < indices.rank(); ++k) out.AddDim(indices.dim(k));
  for (int k = static_cast<int>(n); k < params.rank(); ++k) out.AddDim(params.dim(k));
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status GatherNdGradient(GradientContext& g) {
  DType index = g.input_type(1);
  NodeOut indices = g.Input(1);
  if (index == DType::kInt16) {
    index = DType::kInt32;
    indices = g.Op("Cast", {indices}, {{"DstT", index}});
  }
  g.Set(0, g.Op("ScatterNd", {indices, g.Grad(0), ShapeOf(g, g.Input(0), index)}));
  return g.status();
}

class GatherNdKernel {
 public:
  explicit GatherNdKernel(KernelInit& init) : policy_(ReadBadIndexPolicy(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& params = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(const IndexTuples at, ReadIndexTuples(ctx.input(1), params.shape()));
    TensorShape shape = at.outer;
    shape.Append(at.slice_shape);
    TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
    if (at.bad >= 0 && policy_ == BadIndexPolicy::kError) return at.BadTuple(ctx.input(1), params.shape());
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    VisitElement(params.dtype(), false, [&]<class E>() {
      const E* from = static_cast<const E*>(params.raw());
      E* to = static_cast<E*>(out->raw());
      const double cost =
          3 + static_cast<double>(at.slice) * (std::is_trivially_copyable_v<E> ? 0.1 * sizeof(E) : 20.0);
      ctx.threads()->ParallelFor(static_cast<int64_t>(at.offsets.size()), cost, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t offset = at.offsets[static_cast<size_t>(i)];
          if (offset >= 0)
            std::copy(from + offset, from + offset + at.slice, to + i * at.slice);
          else
            std::fill(to + i * at.slice, to + (i + 1) * at.slice, E{});
        }
      });
      return true;
    });
    return absl::OkStatus();
  }

 private:
  BadIndexPolicy policy_;
};

TROUPE_OP("GatherNd")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Output("output: Tparams")
    .Attr("Tparams: type")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr(kBadIndicesAttr)
    .Shape(GatherNdShape)
    .Gradient(GatherNdGradient)
    .Doc(
        "The slices of `params` that the index tuples in the last dimension of `indices` name. `bad_indices_policy` is "
        "ERROR (also '' and DEFAULT) or\n"
        "IGNORE, which gives zeros for a tuple that is out of range.");
TROUPE_KERNEL("GatherNd").Device("CPU").Types("Tparams", MovableTypes()).Class<GatherNdKernel>();

}  // namespace
}  // namespace troupe::array
