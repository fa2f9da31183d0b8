// Unique, UniqueV2 and their versions with counts: the different elements (slices, with an axis) in
// the order of their first appearance, and where each element went.
//
// Elements are compared as values: 0 equals -0, a NaN equals nothing.
#include <algorithm>

#include "absl/hash/hash.h"
#include "kernels/common/op_file.h"
#include "kernels/common/row_index.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// The elements of one slice as bytes that are equal when the elements are.
template <class T>
void AppendKey(const T& v, std::string* key) {
  if constexpr (std::is_same_v<T, std::string>) {
    const size_t n = v.size();
    key->append(reinterpret_cast<const char*>(&n), sizeof(n));
    key->append(v);
  } else {
    const T zero(0);
    const T& w = v == zero ? zero : v;  // -0 is 0
    key->append(reinterpret_cast<const char*>(&w), sizeof(T));
  }
}
template <class T>
bool EqualsItself(const T& v) {
  return v == v;
}

struct Found {
  std::vector<int64_t> first;  // of each different slice
  std::vector<int64_t> index;  // slice -> which different one
  std::vector<int64_t> counts;
};

// `data` holds n slices of m elements, one behind the other.
template <class T>
Found FindUnique(const T* data, int64_t n, int64_t m) {
  Found f;
  f.index.resize(static_cast<size_t>(n));
  RowIndex seen;  // of the different ones that equal themselves
  std::string key;
  for (int64_t i = 0; i < n; ++i) {
    key.clear();
    bool comparable = true;
    for (int64_t k = 0; k < m; ++k) {
      AppendKey(data[i * m + k], &key);
      comparable = comparable && EqualsItself(data[i * m + k]);
    }
    const auto next = static_cast<int64_t>(f.first.size());
    int64_t at = next;
    if (comparable) {
      const size_t hash = absl::Hash<std::string>()(key);
      seen.Reserve(1);
      at = seen.Find(hash, [&](int64_t row) {
        return std::equal(data + i * m, data + (i + 1) * m, data + f.first[static_cast<size_t>(row)] * m);
      });
      if (at < 0) seen.Insert(hash, at = next);
    }
    if (at == next) {
      f.first.push_back(i);
      f.counts.push_back(0);
    }
    f.index[static_cast<size_t>(i)] = at;
    ++f.counts[static_cast<size_t>(at)];
  }
  return f;
}

absl::Status UniqueAlong(KernelContext& ctx, int axis) {
  const Tensor& x = ctx.input(0);
  const TensorShape shape = x.shape();
  const int64_t n = shape.dim(axis);
  int64_t outer = 1, inner = 1;
  for (int k = 0; k < axis; ++k) outer *= shape.dim(k);
  for (int k = axis + 1; k < shape.rank(); ++k) inner *= shape.dim(k);
  // Slices one behind the other: dimension `axis` goes to the front.
  Tensor slices = x;
  if (outer != 1) {
    TROUPE_ASSIGN_OR_RETURN(slices, ctx.AllocateTemp(x.dtype(), TensorShape({n, outer, inner})));
    StridedCopy copy;
    copy.Add(n, outer * inner, inner);
    copy.Add(outer, inner, n * inner);
    copy.Add(inner, 1, 1);
    copy.Run(ctx.threads(), x.dtype(), slices.raw(), x.raw());
  }
  Found f;
  if (x.dtype() == DType::kString) {
    f = FindUnique(slices.data<std::string>(), n, outer * inner);
  } else {
    VisitNumeric(x.dtype(), false, [&]<class T>() {
      f = FindUnique(slices.data<T>(), n, outer * inner);
      return true;
    });
  }
  const auto num = static_cast<int64_t>(f.first.size());
  TensorShape out_shape = shape;
  out_shape.set_dim(axis, num);
  TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, out_shape));
  for (int64_t u = 0; u < num; ++u) {
    StridedCopy copy;
    copy.Add(outer, num * inner, inner);
    copy.Add(inner, 1, 1);
    copy.dst_offset = u * inner;
    copy.src_offset = f.first[static_cast<size_t>(u)] * outer * inner;
    copy.Run(ctx.threads(), x.dtype(), y->raw(), slices.raw());
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * idx, ctx.AllocateOutput(1, TensorShape({n})));
  TROUPE_RETURN_IF_ERROR(WriteInts(f.index, idx));
  if (ctx.num_outputs() == 2) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(Tensor * count, ctx.AllocateOutput(2, TensorShape({num})));
  return WriteInts(f.counts, count);
}

absl::Status ComputeUnique(KernelContext& ctx) {
  if (ctx.input(0).rank() != 1)
    return InvalidArgument("unique expects a vector, got shape ", ctx.input(0).shape().DebugString());
  return UniqueAlong(ctx, 0);
}

absl::Status ComputeUniqueV2(KernelContext& ctx) {
  const Tensor& axis = ctx.input(1);
  if (axis.rank() != 1) return InvalidArgument("axis must be a vector, got shape ", axis.shape().DebugString());
  if (axis.num_elements() == 0) return ComputeUnique(ctx);
  if (axis.num_elements() != 1) return InvalidArgument("unique takes no or one axis, got ", axis.num_elements());
  TROUPE_ASSIGN_OR_RETURN(const int at, NormalizeAxis(IntAt(axis), ctx.input(0).rank()));
  return UniqueAlong(ctx, at);
}

absl::Status UniqueShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape x, c.WithRank(0, 1));
  c.set_output(0, PartialTensorShape{-1});
  c.set_output(1, x);
  if (c.num_outputs() > 2) c.set_output(2, PartialTensorShape{-1});
  return absl::OkStatus();
}

absl::Status UniqueV2Shape(InferenceContext& c) {
  const PartialTensorShape& x = c.input(0);
  const Tensor* axis = c.input_tensor(1);
  if (c.num_outputs() > 2) c.set_output(2, PartialTensorShape{-1});
  c.set_output(1, PartialTensorShape{-1});
  if (axis == nullptr) {
    if (x.known_rank()) c.set_output(0, PartialTensorShape::OfRank(x.rank()));
    return absl::OkStatus();
  }
  if (axis->num_elements() == 0) return UniqueShape(c);
  if (!x.known_rank()) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(const int at, NormalizeAxis(IntAt(*axis), x.rank()));
  PartialTensorShape y = x;
  y.set_dim(at, -1);
  c.set_output(0, y);
  c.set_output(1, PartialTensorShape{x.dim(at)});
  return absl::OkStatus();
}

const std::vector<DType>& UniqueTypes() {
  static const auto* types = new std::vector<DType>{
      DType::kFloat, DType::kDouble, DType::kHalf,   DType::kBfloat16, DType::kInt8,   DType::kInt16, DType::kInt32,
      DType::kInt64, DType::kUint8,  DType::kUint16, DType::kUint32,   DType::kUint64, DType::kBool,  DType::kString};
  return *types;
}
constexpr const char* kWhy = "which elements are equal is not differentiable";

TROUPE_OP("Unique")
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: type")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .NotDifferentiable(kWhy)
    .Doc(
        "The different elements of the vector `x` in the order of their first appearance, and `idx` with x[i] = "
        "y[idx[i]].");
TROUPE_KERNEL("Unique").Device("CPU").Types("T", UniqueTypes()).Function<ComputeUnique>();

TROUPE_OP("UniqueWithCounts")
    .Input("x: T")
    .Output("y: T")
    .Output("idx: out_idx")
    .Output("count: out_idx")
    .Attr("T: type")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueShape)
    .NotDifferentiable(kWhy)
    .Doc("As Unique, with how often each element of `y` comes.");
TROUPE_KERNEL("UniqueWithCounts").Device("CPU").Types("T", UniqueTypes()).Function<ComputeUnique>();

TROUPE_OP("UniqueV2")
    .Input("x: T")
    .Input("axis: Taxis")
    .Output("y: T")
    .Output("idx: out_idx")
    .Attr("T: type")
    .Attr("Taxis: {int32, int64} = DT_INT64")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueV2Shape)
    .NotDifferentiable(kWhy)
    .Doc(
        "The different slices of `x` along dimension `axis` (a vector of one; empty for a vector `x`), and where each "
        "slice went.");
TROUPE_KERNEL("UniqueV2").Device("CPU").Types("T", UniqueTypes()).HostMemory("axis").Function<ComputeUniqueV2>();

TROUPE_OP("UniqueWithCountsV2")
    .Input("x: T")
    .Input("axis: Taxis")
    .Output("y: T")
    .Output("idx: out_idx")
    .Output("count: out_idx")
    .Attr("T: type")
    .Attr("Taxis: {int32, int64} = DT_INT64")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(UniqueV2Shape)
    .NotDifferentiable(kWhy)
    .Doc("As UniqueV2, with how often each slice of `y` comes.");
TROUPE_KERNEL("UniqueWithCountsV2")
    .Device("CPU")
    .Types("T", UniqueTypes())
    .HostMemory("axis")
    .Function<ComputeUniqueV2>();

}  // namespace
}  // namespace troupe::array
