// Gather and GatherV2: slices of a value picked by their indices along a dimension.
//
// With params [B..., M..., d, N...] where B are the `batch_dims` first dimensions and d is
// dimension `axis`, and indices [B..., K...], the result is
// [B..., M..., K..., N...]. An index outside [0, d) is an error that names its place.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/common/op_file.h"
#include "kernels/common/slices.h"

namespace troupe::array {
namespace {

struct GatherSizes {
  int64_t batch = 1, outer = 1, dim = 1, picks = 1, slice = 1;
};

// Copies slices; gives the flat position of the first bad index it meets, or -1.
template <class E, class Index>
int64_t GatherSlices(KernelContext& ctx, const GatherSizes& n, const E* params, const Index* indices, E* out) {
  std::atomic<int64_t> bad{-1};
  const double cost = 4 + static_cast<double>(n.slice) * (std::is_trivially_copyable_v<E> ? 0.1 * sizeof(E) : 20.0);
  ctx.threads()->ParallelFor(n.batch * n.outer * n.picks, cost, [&](int64_t begin, int64_t end) {
    int64_t row = begin / n.picks, pick = begin % n.picks;  // row = (batch, outer)
    const Index* from = indices + row / n.outer * n.picks;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = from[pick];
      if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(n.dim)) {
        bad.store(from + pick - indices, std::memory_order_relaxed);
        return;
      }
      const E* src = params + (row * n.dim + index) * n.slice;
      E* dst = out + i * n.slice;
      if (n.slice == 1) {
        *dst = *src;
      } else if constexpr (std::is_trivially_copyable_v<E>) {
        std::memcpy(static_cast<void*>(dst), src, static_cast<size_t>(n.slice) * sizeof(E));
      } else {
        std::copy(src, src + n.slice, dst);
      }
      if (++pick == n.picks) {
        pick = 0;
        ++row;
        from = indices + row / n.outer * n.picks;
      }
    }
  });
  return bad.load();
}

absl::Status BadIndex(const Tensor& indices, int64_t flat, int64_t dim) {
  std::string at;
  int64_t rest = flat;
  for (int k = indices.rank(); k-- > 0;) {
    at = StrCat(rest % indices.dim(k), at.empty() ? "" : ",", at);
    rest /= indices.dim(k);
  }
  return InvalidArgument("indices", at.empty() ? "" : StrCat("[", at, "]"), " = ", IntAt(indices, flat),
                         " is not in [0, ", dim, ")");
}

absl::Status GatherAlong(KernelContext& ctx, int64_t axis_arg, int64_t batch_arg) {
  const Tensor& params = ctx.input(0);
  const Tensor& indices = ctx.input(1);
  if (params.rank() == 0) return InvalidArgument("params must be at least a vector, got a scalar");
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_arg, params.rank()));
  if (batch_arg < -indices.rank() || batch_arg > indices.rank()) {
    return InvalidArgument("batch_dims must be in the range [", -indices.rank(), ", ", indices.rank(), "], got ",
                           batch_arg);
  }
  const int batch = static_cast<int>(batch_arg < 0 ? batch_arg + indices.rank() : batch_arg);
  if (batch > axis) return InvalidArgument("batch_dims (", batch, ") must be less than or equal to axis (", axis, ")");
  TensorShape shape;
  GatherSizes n;
  for (int k = 0; k < batch; ++k) {
    if (params.dim(k) != indices.dim(k)) {
      return InvalidArgument("params.shape[", k, "]: ", params.dim(k), " should be equal to indices.shape[", k,
                             "]: ", indices.dim(k));
    }
    n.batch *= params.dim(k);
    shape.AddDim(params.dim(k));
  }
  for (int k = batch; k < axis; ++k) {
    n.outer *= params.dim(k);
    shape.AddDim(params.dim(k));
  }
  n.dim = params.dim(axis);
  for (int k = batch; k < indices.rank(); ++k) {
    n.picks *= indices.dim(k);
    shape.AddDim(indices.dim(k));
  }
  for (int k = axis + 1; k < params.rank(); ++k) {
    n.slice *= params.dim(k);
    shape.AddDim(params.dim(k));
  }
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  if (out->num_elements() == 0) return absl::OkStatus();
  const int64_t bad = VisitElement(params.dtype(), int64_t{-1}, [&]<class E>() {
    const E* from = static_cast<const E*>(params.raw());
    E* to = static_cast<E*>(out->raw());
    switch (indices.dtype()) {
      case DType::kInt16:
        return GatherSlices(ctx, n, from, indices.data<int16_t>(), to);
      case DType::kInt32:
        return GatherSlices(ctx, n, from, indices.data<int32_t>(), to);
      default:
        return GatherSlices(ctx, n, from, indices.data<int64_t>(), to);
    }
  });
  return bad < 0 ? absl::OkStatus() : BadIndex(indices, bad, n.dim);
}

absl::Status GatherShapeFor(InferenceContext& c, KnownInt axis_arg, int64_t batch) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape params, c.WithRankAtLeast(0, 1));
  const PartialTensorShape& indices = c.input(1);
  if (indices.known_rank()) {
    if (batch < -indices.rank() || batch > indices.rank()) {
      return InvalidArgument("batch_dims must be in the range [", -indices.rank(), ", ", indices.rank(), "], got ",
                             batch);
    }
    if (batch < 0) batch += indices.rank();
  }
  if (!params.known_rank() || !indices.known_rank()) return shape_fn::Unknown(c);
  if (!axis_arg.known) {
    c.set_output(0, PartialTensorShape::OfRank(params.rank() - 1 + indices.rank() - static_cast<int>(batch)));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_arg.value, params.rank()));
  if (batch > axis) return InvalidArgument("batch_dims (", batch, ") must be less than or equal to axis (", axis, ")");
  PartialTensorShape out{};
  for (int k = 0; k < axis; ++k) {
    int64_t d = params.dim(k);
    if (k < batch) {
      TROUPE_ASSIGN_OR_RETURN(d, MergeDims(d, indices.dim(k)));
    }
    out.AddDim(d);
  }
  for (int k = static_cast<int>(batch); k < indices.rank(); ++k) out.AddDim(indices.dim(k));
  for (int k = axis + 1; k < params.rank(); ++k) out.AddDim(params.dim(k));
  if (!out.known_rank()) out = PartialTensorShape::OfRank(0);
  c.set_output(0, out);
  return absl::OkStatus();
}

// The gradient of slices of dimension 0: each slice of the gradient is added at its index.
NodeOut SlicesOfRows(GradientContext& g) {
  const DType index = BaseType(g.Input(1).dtype());
  const DType type = index == DType::kInt64 ? DType::kInt64 : DType::kInt32;
  NodeOut indices = g.Input(1);
  if (index != type) indices = g.Op("Cast", {indices}, {{"DstT", type}});
  return RowsGradient(g, g.Grad(0), indices, ShapeOf(g, g.Input(0), type), g.InputShape(0));
}

absl::Status GatherGradient(GradientContext& g) {
  g.Set(0, SlicesOfRows(g));
  return g.status();
}

// Elements [begin, end) of an int64 vector.
NodeOut Part(GradientContext& g, NodeOut vector, NodeOut begin, NodeOut size) {
  const std::vector<NodeOut> one_begin = {begin}, one_size = {size};
  return g.Op("Slice",
              {vector, g.Op("Pack", std::vector<GradArg>{one_begin}), g.Op("Pack", std::vector<GradArg>{one_size})});
}
NodeOut Product(GradientContext& g, NodeOut vector) { return g.Op("Prod", {vector, Int(g, 0)}); }
NodeOut Long(GradientContext& g, int64_t v) { return g.Const(Tensor::Scalar<int64_t>(v)); }
NodeOut Vector(GradientContext& g, std::vector<NodeOut> scalars) {
  return g.Op("Pack", std::vector<GradArg>{std::move(scalars)});
}

// Any axis and batch_dims: params are seen as [B * M * d, N] rows, and pick k of (batch b, outer m)
// is row (b * M + m) * d + index.
absl::Status GatherV2Gradient(GradientContext& g) {
  const int64_t batch = g.Attr<int64_t>("batch_dims");
  const Node* axis_node = g.node().input(2).node;
  if (batch == 0 && axis_node != nullptr && axis_node->IsConstant()) {
    TROUPE_ASSIGN_OR_RETURN(const Tensor axis, axis_node->Attr<Tensor>("value"));
    if (axis.num_elements() == 1 && IntAt(axis) == 0) {
      g.Set(0, SlicesOfRows(g));
      return g.status();
    }
  }
  const DType i64 = DType::kInt64;
  const AttrMap to_i64 = {{"DstT", i64}};
  const NodeOut params = g.Input(0), indices = g.Input(1);
  const NodeOut shape = ShapeOf(g, params, i64), picks_shape = ShapeOf(g, indices, i64);
  const NodeOut rank = g.Op("Size", {shape}, {{"out_type", i64}});
  const NodeOut axis_arg = g.input_type(2) == i64 ? g.Input(2) : g.Op("Cast", {g.Input(2)}, to_i64);
  const NodeOut is_negative = g.Op("Cast", {g.Op("Less", {axis_arg, Long(g, 0)})}, to_i64);
  const NodeOut axis = g.Op("AddV2", {axis_arg, g.Op("Mul", {is_negative, rank})});
  const NodeOut picks_rank = g.Op("Size", {picks_shape}, {{"out_type", i64}});
  const NodeOut b = batch >= 0 ? Long(g, batch) : g.Op("AddV2", {picks_rank, Long(g, batch)});
  const NodeOut rest = Long(g, -1);
  const NodeOut num_batch = Product(g, Part(g, shape, Long(g, 0), b));
  const NodeOut num_outer = Product(g, Part(g, shape, b, g.Op("Sub", {axis, b})));
  const NodeOut dim =
      g.Op("Reshape", {Part(g, shape, axis, Long(g, 1)), g.Const(Tensor(DType::kInt32, TensorShape({0})))});
  const NodeOut num_slice = Product(g, Part(g, shape, g.Op("AddV2", {axis, Long(g, 1)}), rest));
  const NodeOut num_picks = Product(g, Part(g, picks_shape, b, rest));
  const NodeOut rows = g.Op("Mul", {num_batch, num_outer});
  const NodeOut first = g.Op("Mul", {g.Op("Range", {Long(g, 0), rows, Long(g, 1)}), dim});
  const NodeOut wide = BaseType(indices.dtype()) == i64 ? indices : g.Op("Cast", {indices}, to_i64);
  const NodeOut flat = g.Op("AddV2", {g.Op("Reshape", {wide, Vector(g, {num_batch, Long(g, 1), num_picks})}),
                                      g.Op("Reshape", {first, Vector(g, {num_batch, num_outer, Long(g, 1)})})});
  const NodeOut num_rows = g.Op("Mul", {rows, dim});
  const NodeOut added =
      g.Op("ScatterNd", {g.Op("Reshape", {flat, Vector(g, {g.Op("Mul", {rows, num_picks}), Long(g, 1)})}),
                         g.Op("Reshape", {g.Grad(0), Vector(g, {g.Op("Mul", {rows, num_picks}), num_slice})}),
                         Vector(g, {num_rows, num_slice})});
  g.Set(0, g.Op("Reshape", {added, shape}));
  return g.status();
}

absl::Status GatherShape(InferenceContext& c) { return GatherShapeFor(c, {true, 0}, 0); }
absl::Status GatherV2Shape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
  TROUPE_ASSIGN_OR_RETURN(const KnownInt axis, ConstantScalar(c, 2, "axis"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t batch, c.Attr<int64_t>("batch_dims"));
  return GatherShapeFor(c, axis, batch);
}
absl::Status ComputeGather(KernelContext& ctx) { return GatherAlong(ctx, 0, 0); }

class GatherV2Kernel {
 public:
  explicit GatherV2Kernel(KernelInit& init) : batch_dims_(init.Attr<int64_t>("batch_dims")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t axis, ReadScalar(ctx.input(2), "axis"));
    return GatherAlong(ctx, axis, batch_dims_);
  }

 private:
  int64_t batch_dims_;
};

TROUPE_OP("Gather")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Output("output: Tparams")
    .Attr("validate_indices: bool = true")
    .Attr("Tparams: type")
    .Attr("Tindices: {int32, int64}")
    .Shape(GatherShape)
    .Gradient(GatherGradient)
    .Doc("The slices of dimension 0 of `params` that `indices` names: output[i..., :] = params[indices[i...], :].");
TROUPE_KERNEL("Gather").Device("CPU").Types("Tparams", MovableTypes()).Function<ComputeGather>();

TROUPE_OP("GatherV2")
    .Input("params: Tparams")
    .Input("indices: Tindices")
    .Input("axis: Taxis")
    .Output("output: Tparams")
    .Attr("batch_dims: int = 0")
    .Attr("Tparams: type")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr("Taxis: {int32, int64}")
    .Shape(GatherV2Shape)
    .Gradient(GatherV2Gradient)
    .Doc(
        "The slices of dimension `axis` of `params` that `indices` names. The first `batch_dims` dimensions of both go "
        "together.");
TROUPE_KERNEL("GatherV2").Device("CPU").Types("Tparams", MovableTypes()).HostMemory("axis").Class<GatherV2Kernel>();

}  // namespace
}  // namespace troupe::array
