// OneHot: a new dimension in which the element that an index names is `on_value` and all others are
// `off_value`.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::StatusOr<int> DepthAxis(int64_t axis, int indices_rank) {
  if (axis < -1 || axis > indices_rank)
    return InvalidArgument("expected axis to be -1 or between [0, ", indices_rank, "], but received: ", axis);
  return static_cast<int>(axis == -1 ? indices_rank : axis);
}

absl::Status OneHotShape(InferenceContext& c) {
  for (int i = 1; i <= 3; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  TROUPE_ASSIGN_OR_RETURN(const KnownInt depth, ConstantScalar(c, 1, "depth"));
  if (depth.known && depth.value < 0) return InvalidArgument("depth must be non-negative, got ", depth.value);
  TROUPE_ASSIGN_OR_RETURN(const int64_t attr, c.Attr<int64_t>("axis"));
  const PartialTensorShape& in = c.input(0);
  if (attr < -1) return InvalidArgument("axis must be >= -1, got ", attr);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const int axis, DepthAxis(attr, in.rank()));
  Ints dims(in.dims().begin(), in.dims().end());
  dims.insert(dims.begin() + axis, depth.known ? depth.value : -1);
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

class OneHotKernel {
 public:
  explicit OneHotKernel(KernelInit& init) : axis_(init.Attr<int64_t>("axis")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& indices = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(const int axis, DepthAxis(axis_, indices.rank()));
    if (ctx.input(1).rank() != 0)
      return InvalidArgument("depth must be a scalar, but got: ", ctx.input(1).shape().DebugString());
    const int64_t depth = IntAt(ctx.input(1));
    if (depth < 0) return InvalidArgument("depth must be non-negative, got: ", depth);
    const Tensor &on = ctx.input(2), &off = ctx.input(3);
    if (on.rank() != 0) return InvalidArgument("on_value must be a scalar, but got: ", on.shape().DebugString());
    if (off.rank() != 0) return InvalidArgument("off_value must be a scalar, but got: ", off.shape().DebugString());
    TensorShape shape = indices.shape();
    shape.InsertDim(axis, depth);
    TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    FillElements(ctx.threads(), out->dtype(), out->raw(), off.raw(), out->num_elements());
    if (out->num_elements() == 0) return absl::OkStatus();
    int64_t suffix = 1;
    for (int k = axis; k < indices.rank(); ++k) suffix *= indices.dim(k);
    // Indices out of range give a row without `on_value`.
    VisitElement(out->dtype(), false, [&]<class E>() {
      E* to = static_cast<E*>(out->raw());
      const E& v = *static_cast<const E*>(on.raw());
      switch (indices.dtype()) {
        case DType::kUint8:
          return Set(indices.flat<uint8_t>(), depth, suffix, v, to);
        case DType::kInt8:
          return Set(indices.flat<int8_t>(), depth, suffix, v, to);
        case DType::kInt32:
          return Set(indices.flat<int32_t>(), depth, suffix, v, to);
        default:
          return Set(indices.flat<int64_t>(), depth, suffix, v, to);
      }
    });
    return absl::OkStatus();
  }

 private:
  template <class Index, class E>
  static bool Set(absl::Span<const Index> indices, int64_t depth, int64_t suffix, const E& on, E* out) {
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto index = static_cast<int64_t>(indices[i]);
      if (index < 0 || index >= depth) continue;
      const int64_t row = static_cast<int64_t>(i) / suffix, column = static_cast<int64_t>(i) % suffix;
      out[(row * depth + index) * suffix + column] = on;
    }
    return true;
  }
  int64_t axis_;
};

TROUPE_OP("OneHot")
    .Input("indices: TI")
    .Input("depth: int32")
    .Input("on_value: T")
    .Input("off_value: T")
    .Output("output: T")
    .Attr("axis: int = -1")
    .Attr("T: type")
    .Attr("TI: {uint8, int8, int32, int64} = DT_INT64")
    .Shape(OneHotShape)
    .NotDifferentiable("indices are not differentiable")
    .Doc(
        "`indices` with a new dimension `axis` of size `depth` (-1: the last): `on_value` at the index, `off_value` "
        "elsewhere.");
TROUPE_KERNEL("OneHot").Device("CPU").Types("T", MovableTypes()).HostMemory("depth").Class<OneHotKernel>();

}  // namespace
}  // namespace troupe::array
