// TopK and TopKV2 (k as an input): the k largest elements of each row.
#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "kernels/common/types.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// A number whose unsigned order is the order of the values: one sort serves every type.
template <class T>
uint64_t Key(T v) {
  if constexpr (std::is_same_v<T, double>) {
    const uint64_t b = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
    return b >> 63 ? ~b : b | uint64_t{1} << 63;
  } else if constexpr (std::is_integral_v<T> && !std::is_signed_v<T>) {
    return v;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(v)) ^ uint64_t { 1 } << 63;
  } else {
    return Key(static_cast<double>(static_cast<float>(v)));
  }
}

template <class T>
void FillKeys(const void* row, std::vector<uint64_t>* keys) {
  const T* x = static_cast<const T*>(row);
  for (size_t i = 0; i < keys->size(); ++i) (*keys)[i] = Key(x[i]);
}

void KeysOf(DType t, const void* row, std::vector<uint64_t>* keys) {
  switch (t) {
    case DType::kFloat:
      return FillKeys<float>(row, keys);
    case DType::kDouble:
      return FillKeys<double>(row, keys);
    case DType::kHalf:
      return FillKeys<Half>(row, keys);
    case DType::kBfloat16:
      return FillKeys<BFloat16>(row, keys);
    case DType::kInt8:
      return FillKeys<int8_t>(row, keys);
    case DType::kInt16:
      return FillKeys<int16_t>(row, keys);
    case DType::kInt32:
      return FillKeys<int32_t>(row, keys);
    case DType::kInt64:
      return FillKeys<int64_t>(row, keys);
    case DType::kUint8:
      return FillKeys<uint8_t>(row, keys);
    case DType::kUint16:
      return FillKeys<uint16_t>(row, keys);
    case DType::kUint32:
      return FillKeys<uint32_t>(row, keys);
    case DType::kUint64:
      return FillKeys<uint64_t>(row, keys);
    default:
      return;
  }
}

// k = -1: not known.
absl::Status TopKShape(InferenceContext& c, int64_t k) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.WithRankAtLeast(0, 1));
  if (x.known_rank()) {
    const int64_t columns = x.dim(x.rank() - 1);
    if (columns >= 0 && k > columns)
      return InvalidArgument("input must have at least k columns. Had ", columns, ", needed ", k);
    x.set_dim(x.rank() - 1, k);
  }
  c.set_output(0, x);
  c.set_output(1, x);
  return absl::OkStatus();
}

// The gradient goes to the elements that were picked: it is scattered to row * columns + column.
absl::Status TopKGradient(GradientContext& g) {
  auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
  auto scalar = [&g](int32_t v) { return g.Const(Tensor::Scalar<int32_t>(v)); };
  auto shape_of = [&g](NodeOut x) { return g.Op("Shape", {x}, {{"out_type", DType::kInt32}}); };
  auto last = [&](NodeOut shape) {
    return g.Op("StridedSlice", {shape, ints({-1}), ints({0}), ints({1})},
                {{"end_mask", int64_t{1}}, {"shrink_axis_mask", int64_t{1}}});
  };
  NodeOut picked = g.Output(1);
  if (!picked.valid()) return g.status();
  if (BaseType(picked.dtype()) != DType::kInt32) picked = g.Op("Cast", {picked}, {{"DstT", DType::kInt32}});
  const NodeOut in_shape = shape_of(g.Input(0)), columns = last(in_shape), k = last(shape_of(g.Output(1)));
  const NodeOut rows = g.Op("Reshape", {picked, g.Op("Pack", {GradArg(std::vector<NodeOut>{scalar(-1), k})})});
  const NodeOut count =
      g.Op("StridedSlice", {shape_of(rows), ints({0}), ints({1}), ints({1})}, {{"shrink_axis_mask", int64_t{1}}});
  const NodeOut starts = g.Op("Range", {scalar(0), g.Op("Mul", {count, columns}), columns});
  const NodeOut flat = g.Op("Reshape", {g.Op("Add", {rows, g.Op("ExpandDims", {starts, scalar(-1)})}), ints({-1, 1})});
  const NodeOut size = g.Op("ExpandDims", {g.Op("Size", {g.Input(0)}, {{"out_type", DType::kInt32}}), scalar(0)});
  const NodeOut scattered = g.Op("ScatterNd", {flat, g.Op("Reshape", {g.Grad(0), ints({-1})}), size});
  g.Set(0, g.Op("Reshape", {scattered, in_shape}));
  return g.status();
}

// The k largest of each row of input 0, largest first, and their columns; of equal ones the one
// further left comes first.
absl::Status ComputeTopK(KernelContext& ctx, int64_t k) {
  const Tensor& x = ctx.input(0);
  if (x.rank() < 1) return InvalidArgument("input must be >= 1-D, got shape ", x.shape().DebugString());
  if (k < 0) return InvalidArgument("Need k >= 0, got ", k);
  TensorShape shape = x.shape();
  const int64_t columns = shape.dim(shape.rank() - 1), rows = columns == 0 ? 0 : shape.num_elements() / columns;
  if (columns < k) return InvalidArgument("input must have at least k columns. Had ", columns, ", needed ", k);
  shape.set_dim(shape.rank() - 1, k);
  TROUPE_ASSIGN_OR_RETURN(Tensor * values, ctx.AllocateOutput(0, shape));
  TROUPE_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(1, shape));
  const size_t size = SizeOf(x.dtype());
  const char* from = static_cast<const char*>(x.raw());
  char* to = static_cast<char*>(values->raw());
  const DType index_type = indices->dtype();
  void* index = indices->raw();
  ctx.threads()->ParallelFor(rows, 10 + 8.0 * static_cast<double>(columns), [&](int64_t b, int64_t e) {
    std::vector<uint64_t> keys(columns);
    std::vector<int64_t> order(columns);
    for (int64_t r = b; r < e; ++r) {
      KeysOf(x.dtype(), from + r * columns * size, &keys);
      std::iota(order.begin(), order.end(), int64_t{0});
      std::partial_sort(order.begin(), order.begin() + k, order.end(),
                        [&](int64_t i, int64_t j) { return keys[i] != keys[j] ? keys[i] > keys[j] : i < j; });
      for (int64_t i = 0; i < k; ++i) {
        std::memcpy(to + (r * k + i) * size, from + (r * columns + order[i]) * size, size);
        switch (index_type) {
          case DType::kInt16:
            static_cast<int16_t*>(index)[r * k + i] = static_cast<int16_t>(order[i]);
            break;
          case DType::kInt64:
            static_cast<int64_t*>(index)[r * k + i] = order[i];
            break;
          default:
            static_cast<int32_t*>(index)[r * k + i] = static_cast<int32_t>(order[i]);
        }
      }
    }
  });
  return absl::OkStatus();
}

TROUPE_OP("TopK")
    .Input("input: T")
    .Output("values: T")
    .Output("indices: int32")
    .Attr("k: int >= 0")
    .Attr("sorted: bool = true")
    .Attr("T: realnumbertype")
    .Deprecated(7, "Use TopKV2 instead")
    .Shape([](InferenceContext& c) {
      TROUPE_ASSIGN_OR_RETURN(int64_t k, c.Attr<int64_t>("k"));
      return TopKShape(c, k);
    })
    .Gradient(TopKGradient)
    .Doc(
        "The k largest elements of each row of input and their columns, largest first; of equal ones the one further "
        "left comes first.");

class TopKKernel {
 public:
  explicit TopKKernel(KernelInit& init) : k_(init.Attr<int64_t>("k")) {}
  absl::Status Compute(KernelContext& ctx) { return ComputeTopK(ctx, k_); }

 private:
  const int64_t k_;
};
TROUPE_CPU_KERNEL("TopK").Class<TopKKernel>();

// The value of a scalar int16, int32 or int64; -1 for another rank.
int64_t ScalarOf(const Tensor& t) {
  if (t.rank() != 0) return -1;
  if (t.dtype() == DType::kInt16) return t.scalar<int16_t>();
  return t.dtype() == DType::kInt32 ? t.scalar<int32_t>() : t.scalar<int64_t>();
}

TROUPE_OP("TopKV2")
    .Input("input: T")
    .Input("k: Tk")
    .Output("values: T")
    .Output("indices: index_type")
    .Attr("sorted: bool = true")
    .Attr("T: realnumbertype")
    .Attr("Tk: {int16, int32, int64} = DT_INT32")
    .Attr("index_type: {int16, int32, int64} = DT_INT32")
    .Shape([](InferenceContext& c) {
      const Tensor* k = c.input_tensor(1);
      return TopKShape(c, k == nullptr ? -1 : ScalarOf(*k));
    })
    .Gradient(TopKGradient)
    .Doc("As TopK, with k as an input.");

absl::Status ComputeTopKV2(KernelContext& ctx) {
  const Tensor& k = ctx.input(1);
  if (k.rank() != 0) return InvalidArgument("k must be scalar, got shape ", k.shape().DebugString());
  return ComputeTopK(ctx, ScalarOf(k));
}
TROUPE_CPU_KERNEL("TopKV2").HostMemory("k").Function<ComputeTopKV2>();

}  // namespace
}  // namespace troupe
