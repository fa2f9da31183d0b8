// ScatterNd: zeros with slices added at index tuples; slices at equal tuples add up, in order.
// TensorScatterUpdate and TensorScatterAdd: the same on a given value.
#include "kernels/array/index_tuples.h"
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status CheckUpdates(const IndexTuples& at, const Tensor& updates, const TensorShape& shape) {
  TensorShape want = at.outer;
  want.Append(at.slice_shape);
  if (updates.shape() == want) return absl::OkStatus();
  return InvalidArgument("updates must have shape ", want.DebugString(), " (the tuples' shape and that of a slice of ",
                         shape.DebugString(), "), got ", updates.shape().DebugString());
}

// to[offset] += from, or = from for types that do not add.
void ScatterSlices(const IndexTuples& at, const Tensor& updates, bool add, Tensor* out) {
  auto each = [&](auto&& f) {
    for (size_t i = 0; i < at.offsets.size(); ++i) {
      if (at.offsets[i] >= 0) f(at.offsets[i], static_cast<int64_t>(i) * at.slice);
    }
  };
  if (add && updates.dtype() == DType::kString) {
    auto* to = out->data<std::string>();
    const auto* from = updates.data<std::string>();
    each([&](int64_t t, int64_t f) {
      for (int64_t k = 0; k < at.slice; ++k) to[t + k] += from[f + k];
    });
  } else if (add) {
    VisitNumeric(updates.dtype(), false, [&]<class T>() {
      T* to = out->data<T>();
      const T* from = updates.data<T>();
      each([&](int64_t t, int64_t f) {
        for (int64_t k = 0; k < at.slice; ++k) {
          if constexpr (std::is_same_v<T, bool>)
            to[t + k] = to[t + k] || from[f + k];
          else
            to[t + k] = static_cast<T>(to[t + k] + from[f + k]);
        }
      });
      return true;
    });
  } else {
    VisitElement(updates.dtype(), false, [&]<class E>() {
      E* to = static_cast<E*>(out->raw());
      const E* from = static_cast<const E*>(updates.raw());
      each([&](int64_t t, int64_t f) { std::copy(from + f, from + f + at.slice, to + t); });
      return true;
    });
  }
}

absl::Status CheckUpdatesShape(InferenceContext& c, int indices_at, int updates_at, const PartialTensorShape& shape) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape indices, c.WithRankAtLeast(indices_at, 1));
  if (!indices.known_rank() || !shape.known_rank() || indices.dim(indices.rank() - 1) < 0) return absl::OkStatus();
  const int64_t n = indices.dim(indices.rank() - 1);
  if (n > shape.rank())
    return InvalidArgument("index tuples of ", n, " elements do not fit a value of rank ", shape.rank());
  PartialTensorShape want = PartialTensorShape::OfRank(0);
  for (int k = 0; k + 1 < indices.rank(); ++k) want.AddDim(indices.dim(k));
  for (int k = static_cast<int>(n); k < shape.rank(); ++k) want.AddDim(shape.dim(k));
  if (c.input(updates_at).IsCompatibleWith(want)) return absl::OkStatus();
  return InvalidArgument("updates must have shape ", want.DebugString(), ", got ", c.input(updates_at).DebugString());
}

absl::Status ScatterNdShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 1).status());
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape shape, c.InputAsShape(2));
  TROUPE_RETURN_IF_ERROR(CheckUpdatesShape(c, 0, 1, shape));
  c.set_output(0, shape);
  return absl::OkStatus();
}
absl::Status TensorScatterShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(CheckUpdatesShape(c, 1, 2, c.input(0)));
  return shape_fn::Unchanged(c);
}

absl::Status ScatterNdGradient(GradientContext& g) {
  g.Set(1, g.Op("GatherNd", {g.Grad(0), g.Input(0)}));
  return g.status();
}
absl::Status TensorScatterUpdateGradient(GradientContext& g) {
  const NodeOut updates = g.Op("GatherNd", {g.Grad(0), g.Input(1)});
  g.Set(2, updates);
  g.Set(0, g.Op("TensorScatterUpdate", {g.Grad(0), g.Input(1), g.Op("ZerosLike", {updates})}));
  return g.status();
}
absl::Status TensorScatterAddGradient(GradientContext& g) {
  g.Set(0, g.Grad(0));
  g.Set(2, g.Op("GatherNd", {g.Grad(0), g.Input(1)}));
  return g.status();
}

class ScatterNdKernel {
 public:
  explicit ScatterNdKernel(KernelInit& init) : policy_(ReadBadIndexPolicy(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(ctx.input(2)));
    TROUPE_ASSIGN_OR_RETURN(const IndexTuples at, ReadIndexTuples(ctx.input(0), shape));
    TROUPE_RETURN_IF_ERROR(CheckUpdates(at, ctx.input(1), shape));
    if (at.bad >= 0 && policy_ == BadIndexPolicy::kError) return at.BadTuple(ctx.input(0), shape);
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
    ScatterSlices(at, ctx.input(1), true, out);
    return absl::OkStatus();
  }

 private:
  BadIndexPolicy policy_;
};

// `add`: whether the slices are added to what is there, or replace it.
template <bool add>
class TensorScatterKernel {
 public:
  explicit TensorScatterKernel(KernelInit& init) : policy_(ReadBadIndexPolicy(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    const TensorShape shape = ctx.input(0).shape();
    TROUPE_ASSIGN_OR_RETURN(const IndexTuples at, ReadIndexTuples(ctx.input(1), shape));
    TROUPE_RETURN_IF_ERROR(CheckUpdates(at, ctx.input(2), shape));
    if (at.bad >= 0 && policy_ == BadIndexPolicy::kError) return at.BadTuple(ctx.input(1), shape);
    Tensor out = ctx.TakeInput(0);
    if (!out.BufferUnique()) out = out.Clone(ctx.allocator());
    if (!out.valid()) return ResourceExhausted("no memory for an output of shape ", shape.DebugString());
    ScatterSlices(at, ctx.input(2), add, &out);
    ctx.set_output(0, std::move(out));
    return absl::OkStatus();
  }

 private:
  const BadIndexPolicy policy_;
};

TROUPE_OP("ScatterNd")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Input("shape: Tindices")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr(kBadIndicesAttr)
    .Shape(ScatterNdShape)
    .Gradient(ScatterNdGradient)
    .Doc(
        "Zeros of `shape` with the slices `updates` added at the index tuples `indices`. Slices at equal tuples add "
        "up.");
TROUPE_KERNEL("ScatterNd")
    .Device("CPU")
    .Types("T", {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16,
                 DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
                 DType::kComplex64, DType::kComplex128, DType::kBool, DType::kString})
    .HostMemory("shape")
    .Class<ScatterNdKernel>();

TROUPE_OP("TensorScatterUpdate")
    .Input("tensor: T")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tindices: {int16, int32, int64, uint16}")
    .Attr(kBadIndicesAttr)
    .Shape(TensorScatterShape)
    .Gradient(TensorScatterUpdateGradient)
    .Doc(
        "`tensor` with the slices at the index tuples `indices` replaced by `updates`; of slices at equal tuples the "
        "last one stays.");
TROUPE_KERNEL("TensorScatterUpdate").Device("CPU").Types("T", MovableTypes()).Class<TensorScatterKernel<false>>();

TROUPE_OP("TensorScatterAdd")
    .Input("tensor: T")
    .Input("indices: Tindices")
    .Input("updates: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tindices: {int32, int64}")
    .Attr(kBadIndicesAttr)
    .Shape(TensorScatterShape)
    .Gradient(TensorScatterAddGradient)
    .Doc("`tensor` with `updates` added to the slices at the index tuples `indices`.");
TROUPE_KERNEL("TensorScatterAdd").Device("CPU").Types("T", NumberTypes()).Class<TensorScatterKernel<true>>();

}  // namespace
}  // namespace troupe::array
