// StridedSlice: x[begin:end:strides] with five masks; and StridedSliceGrad: zeros in the shape of
// what was sliced, with the slice's gradient where the slice was taken.
//
// What x[a:b:c, ..., None, i] means: begin, end, strides and five bit masks, resolved against a
// shape.
//
// Bit k of a mask speaks about entry k of begin, end and strides ("sparse" entries):
//   begin_mask, end_mask   the entry's begin (end) is ignored: everything from (to) the end in the
//                          stride's direction
//   ellipsis_mask          the entry stands for as many whole dimensions as are left over; at most
//                          one; none = one behind the last entry
//   new_axis_mask          the entry takes no dimension and puts in one of size 1
//   shrink_axis_mask       the entry takes the single index `begin`, and its dimension is left out
//                          of the result
#include <algorithm>
#include <cstdint>

#include "kernels/array/share_rows.h"
#include "kernels/common/int_args.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"
#include "troupe/attr_value.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::array {
namespace {

struct SliceMasks {
  int64_t begin = 0, end = 0, ellipsis = 0, new_axis = 0, shrink_axis = 0;
};

struct SlicePlan {
  // One per dimension of the sliced value: first index, step, and how many (-1 = unknown).
  Ints begin, stride, size;
  // The result with one entry per dimension of the value (where shrunk ones are 1), and as the op
  // gives it (-1 = unknown).
  Ints final_dims;
  // Every element in order: the result is the value under another shape.
  bool whole = false;
  // As `whole` but for dimension 0, of which a range is taken with step 1.
  bool rows = false;
};

constexpr int64_t kNewAxis = -1;
constexpr int64_t kMaxEntries = 32;  // bits of a mask

bool Bit(int64_t mask, int64_t k) { return k < kMaxEntries && ((mask >> k) & 1) != 0; }

// One entry per dimension of the value.
struct Dense {
  Ints entry;      // the sparse entry it comes from, or -1: the whole dimension
  Ints result_of;  // the result's dimensions: a dimension of the value, or kNewAxis; shrunk ones are left out
};

absl::StatusOr<Dense> Expand(int rank, int64_t n, const SliceMasks& m) {
  Dense d;
  int64_t ellipsis = -1, new_axes_behind = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (ellipsis >= 0 && Bit(m.new_axis, k) && !Bit(m.ellipsis, k)) ++new_axes_behind;
    if (!Bit(m.ellipsis, k)) continue;
    if (ellipsis >= 0)
      return InvalidArgument("multiple ellipses in slice spec not allowed: entries ", ellipsis, " and ", k);
    ellipsis = k;
  }
  auto whole = [&](int64_t up_to) {
    while (static_cast<int64_t>(d.entry.size()) < up_to) {
      d.result_of.push_back(static_cast<int64_t>(d.entry.size()));
      d.entry.push_back(-1);
    }
  };
  for (int64_t k = 0; k < n; ++k) {
    if (Bit(m.ellipsis, k)) {
      whole(std::min<int64_t>(rank, rank - (n - k) + 1 + new_axes_behind));
    } else if (Bit(m.new_axis, k)) {
      d.result_of.push_back(kNewAxis);
    } else {
      const auto at = static_cast<int64_t>(d.entry.size());
      if (at == rank)
        return InvalidArgument("index out of range using input dim ", at, "; input has only ", rank, " dims");
      if (!Bit(m.shrink_axis, k)) d.result_of.push_back(at);
      d.entry.push_back(k);
    }
  }
  whole(rank);
  return d;
}

// The result is known only where the dimension and both bounds are, or the entry takes all or one.
absl::Status PlanDimension(int i, int64_t dim, const int64_t* begin, const int64_t* end, int64_t stride,
                           bool begin_masked, bool end_masked, bool shrink, SlicePlan* plan) {
  int64_t first = -1, size = -1;
  if (stride == 0) return InvalidArgument("strides[", i, "] must be non-zero");
  if (shrink) {
    if (stride < 0) return InvalidArgument("only stride 1 allowed on non-range indexing");
    size = 1;  // a single index is not masked
    if (dim >= 0 && begin != nullptr) {
      first = *begin < 0 ? *begin + dim : *begin;
      if (first < 0 || first >= dim)
        return InvalidArgument("slice index ", *begin, " of dimension ", i, " out of bounds");
    }
    stride = 1;
  } else if (dim >= 0 && (begin_masked || begin != nullptr) && (end_masked || end != nullptr)) {
    const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? dim : dim - 1;
    auto bound = [&](int64_t v) { return std::clamp(v < 0 ? v + dim : v, low, high); };
    first = begin_masked ? (stride > 0 ? low : high) : bound(*begin);
    const int64_t last = end_masked ? (stride > 0 ? high : low) : bound(*end);
    const int64_t way = last - first;
    size = way == 0 || (way < 0) != (stride < 0) ? 0 : way / stride + (way % stride != 0 ? 1 : 0);
  }
  plan->begin.push_back(first);
  plan->stride.push_back(stride);
  plan->size.push_back(size);
  const bool all = dim >= 0 && first == 0 && size == dim && (stride == 1 || dim == 1);
  plan->whole = plan->whole && all;
  plan->rows = plan->rows && (i == 0 ? stride == 1 : all);
  return absl::OkStatus();
}

absl::StatusOr<SliceMasks> ReadSliceMasks(const AttrMap& attrs) {
  SliceMasks m;
  TROUPE_ASSIGN_OR_RETURN(m.begin, GetAttr<int64_t>(attrs, "begin_mask"));
  TROUPE_ASSIGN_OR_RETURN(m.end, GetAttr<int64_t>(attrs, "end_mask"));
  TROUPE_ASSIGN_OR_RETURN(m.ellipsis, GetAttr<int64_t>(attrs, "ellipsis_mask"));
  TROUPE_ASSIGN_OR_RETURN(m.new_axis, GetAttr<int64_t>(attrs, "new_axis_mask"));
  TROUPE_ASSIGN_OR_RETURN(m.shrink_axis, GetAttr<int64_t>(attrs, "shrink_axis_mask"));
  return m;
}

SliceMasks ReadSliceMasks(KernelInit& init) {
  const absl::StatusOr<SliceMasks> masks = ReadSliceMasks(init.node().attrs());
  if (masks.ok()) return *masks;
  init.Fail(masks.status());
  return {};
}

AttrMap SliceMaskAttrs(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"})
    attrs.Set(name, g.Attr<int64_t>(name));
  return attrs;
}

// `shape` may have unknown dimensions but must have a rank; `begin` and `end` may be null when they
// are not known. INVALID_ARGUMENT for entries that do not fit each other or the shape, strides of
// 0, single indices out of range.
absl::StatusOr<SlicePlan> PlanStridedSlice(const PartialTensorShape& shape, const Tensor* begin, const Tensor* end,
                                           const Tensor& strides, const SliceMasks& masks) {
  const int64_t n = strides.num_elements();
  for (const Tensor* t : {begin, end, &strides}) {
    if (t != nullptr && (t->rank() != 1 || t->num_elements() != n || n >= kMaxEntries)) {
      return InvalidArgument("begin, end and strides must be vectors of one size below ", kMaxEntries,
                             ", but the shapes are ", begin ? begin->shape().DebugString() : "?", ", ",
                             end ? end->shape().DebugString() : "?", " and ", strides.shape().DebugString());
    }
  }
  TROUPE_ASSIGN_OR_RETURN(const Dense dense, Expand(shape.rank(), n, masks));
  SlicePlan plan;
  plan.whole = true;
  plan.rows = shape.rank() > 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t k = dense.entry[static_cast<size_t>(i)];
    if (k < 0) {
      TROUPE_RETURN_IF_ERROR(PlanDimension(i, shape.dim(i), nullptr, nullptr, 1, true, true, false, &plan));
      continue;
    }
    const int64_t b = begin ? IntAt(*begin, k) : 0, e = end ? IntAt(*end, k) : 0;
    TROUPE_RETURN_IF_ERROR(PlanDimension(i, shape.dim(i), begin ? &b : nullptr, end ? &e : nullptr, IntAt(strides, k),
                                         Bit(masks.begin, k), Bit(masks.end, k), Bit(masks.shrink_axis, k), &plan));
  }
  for (int64_t at : dense.result_of) plan.final_dims.push_back(at == kNewAxis ? 1 : plan.size[static_cast<size_t>(at)]);
  return plan;
}

absl::Status StridedSliceShape(InferenceContext& c) {
  for (int i = 1; i <= 3; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  const Tensor* strides = c.input_tensor(3);
  if (!c.input(0).known_rank() || strides == nullptr) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const SliceMasks masks, ReadSliceMasks(c.node().attrs()));
  TROUPE_ASSIGN_OR_RETURN(const SlicePlan plan,
                          PlanStridedSlice(c.input(0), c.input_tensor(1), c.input_tensor(2), *strides, masks));
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(plan.final_dims)));
  c.set_output_handle(0, c.input_handle(0));
  return absl::OkStatus();
}

absl::Status StridedSliceGradient(GradientContext& g) {
  NodeOut spec[3] = {g.Input(1), g.Input(2), g.Input(3)};
  DType index = g.input_type(1);
  if (index == DType::kInt16) {  // which StridedSliceGrad does not take
    index = DType::kInt32;
    for (NodeOut& s : spec) s = g.Op("Cast", {s}, {{"DstT", index}});
  }
  g.Set(0, g.Op("StridedSliceGrad", {ShapeOf(g, g.Input(0), index), spec[0], spec[1], spec[2], g.Grad(0)},
                SliceMaskAttrs(g)));
  return g.status();
}

class StridedSliceKernel {
 public:
  explicit StridedSliceKernel(KernelInit& init) : masks_(ReadSliceMasks(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const TensorShape in_shape = in.shape();
    TROUPE_ASSIGN_OR_RETURN(const SlicePlan plan,
                            PlanStridedSlice(in_shape, &ctx.input(1), &ctx.input(2), ctx.input(3), masks_));
    const TensorShape shape(absl::MakeConstSpan(plan.final_dims));
    if (plan.whole) return PassOnReshaped(ctx, shape);
    if (plan.rows && plan.size[0] > 0 && RowsAreAligned(in, plan.begin[0]) && RowsAreAligned(in, plan.size[0])) {
      TROUPE_RETURN_IF_ERROR(ShareRows(ctx, 0, in, plan.begin[0], plan.begin[0] + plan.size[0]));
      ctx.set_output(0, std::move(*ctx.output(0)).ReshapedMove(shape));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(plan.size);
    StridedCopy copy;
    for (size_t k = 0; k < plan.size.size(); ++k) {
      copy.Add(plan.size[k], to[k], from[k] * plan.stride[k]);
      copy.src_offset += plan.begin[k] * from[k];
    }
    copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
    return absl::OkStatus();
  }

 private:
  const SliceMasks masks_;
};

TROUPE_OP("StridedSlice")
    .Input("input: T")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int16, int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Shape(StridedSliceShape)
    .Gradient(StridedSliceGradient)
    .Doc(
        "The elements of `input` at begin, begin + stride, ... before end, in every dimension. The masks say where a "
        "bound is left out, where an entry\n"
        "stands for all remaining dimensions, adds a dimension or takes a single index.");
TROUPE_KERNEL("StridedSlice")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("begin")
    .HostMemory("end")
    .HostMemory("strides")
    .Class<StridedSliceKernel>();

absl::Status StridedSliceGradShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(0));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status StridedSliceGradGradient(GradientContext& g) {
  g.Set(4, g.Op("StridedSlice", {g.Grad(0), g.Input(1), g.Input(2), g.Input(3)}, SliceMaskAttrs(g)));
  return g.status();
}

class StridedSliceGradKernel {
 public:
  explicit StridedSliceGradKernel(KernelInit& init) : masks_(ReadSliceMasks(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ReadShape(ctx.input(0)));
    TROUPE_ASSIGN_OR_RETURN(const SlicePlan plan,
                            PlanStridedSlice(shape, &ctx.input(1), &ctx.input(2), ctx.input(3), masks_));
    const Tensor& dy = ctx.input(4);
    if (dy.shape() != TensorShape(absl::MakeConstSpan(plan.final_dims))) {
      return InvalidArgument("shape of dy was ", dy.shape().DebugString(), " instead of [",
                             StrJoin(plan.final_dims, ","), "]");
    }
    if (plan.whole) {
      ctx.set_output(0, ctx.TakeInput(4).ReshapedMove(shape));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
    const Strides to = DenseStrides(shape.dims()), from = DenseStrides(plan.size);
    StridedCopy copy;
    for (size_t k = 0; k < plan.size.size(); ++k) {
      copy.Add(plan.size[k], to[k] * plan.stride[k], from[k]);
      copy.dst_offset += plan.begin[k] * to[k];
    }
    copy.Run(ctx.threads(), out->dtype(), out->raw(), dy.raw());
    return absl::OkStatus();
  }

 private:
  const SliceMasks masks_;
};

TROUPE_OP("StridedSliceGrad")
    .Input("shape: Index")
    .Input("begin: Index")
    .Input("end: Index")
    .Input("strides: Index")
    .Input("dy: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Attr("begin_mask: int = 0")
    .Attr("end_mask: int = 0")
    .Attr("ellipsis_mask: int = 0")
    .Attr("new_axis_mask: int = 0")
    .Attr("shrink_axis_mask: int = 0")
    .Shape(StridedSliceGradShape)
    .Gradient(StridedSliceGradGradient)
    .Doc("The gradient of StridedSlice: zeros of `shape` with `dy` at the elements that the slice takes.");
TROUPE_KERNEL("StridedSliceGrad")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("shape")
    .HostMemory("begin")
    .HostMemory("end")
    .HostMemory("strides")
    .Class<StridedSliceGradKernel>();

}  // namespace
}  // namespace troupe::array
