#include "kernels/array/strided_slice_spec.h"

#include <algorithm>

namespace troupe::array {
namespace {

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

}  // namespace

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

}  // namespace troupe::array
