// ArgMax and ArgMin: where along one axis the extreme element is; of equal ones the first. NaN
// never wins; where all are NaN the index is 0.
#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::math {
namespace {

// Indices for `columns` neighbouring outputs; the elements of one output are `stride` apart.
using ArgLoop = void (*)(const void* x, int64_t n, int64_t stride, int64_t columns, int64_t* index);
constexpr int64_t kColumns = 256;

template <bool kMax, class T>
void FindExtremes(const void* in, int64_t n, int64_t stride, int64_t columns, int64_t* index) {
  // 16-bit floats compare as floats.
  using V = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
  const T* x = static_cast<const T*>(in);
  V best[kColumns];
  bool none[kColumns];  // no number so far
  for (int64_t j = 0; j < columns; ++j) {
    best[j] = static_cast<V>(x[j]);
    none[j] = best[j] != best[j];
    index[j] = 0;
  }
  for (int64_t i = 1; i < n; ++i) {
    const T* row = x + i * stride;
    for (int64_t j = 0; j < columns; ++j) {
      const V v = static_cast<V>(row[j]);
      if ((kMax ? v > best[j] : v < best[j]) || (none[j] && v == v)) {
        best[j] = v;
        none[j] = false;
        index[j] = i;
      }
    }
  }
}

struct State {
  ArgLoop loop;
  DType out_type;
  size_t in_size;
};

absl::StatusOr<int> AxisOf(const Tensor& dim, int rank) {
  if (dim.rank() != 0)
    return InvalidArgument("dim must be a scalar, but received tensor of shape: ", dim.shape().DebugString());
  const int64_t axis = dim.dtype() == DType::kInt64   ? *dim.data<int64_t>()
                       : dim.dtype() == DType::kInt16 ? *dim.data<int16_t>()
                                                      : *dim.data<int32_t>();
  if (axis < -rank || axis >= rank) {
    return InvalidArgument("Expected dimension in the range [", -rank, ", ", rank, "), but got ", axis);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

template <class T>
void Store(const int64_t* index, int64_t n, void* out, int64_t at) {
  for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[at + i] = static_cast<T>(index[i]);
}
void StoreAs(DType type, const int64_t* index, int64_t n, void* out, int64_t at) {
  if (type == DType::kInt64) return Store<int64_t>(index, n, out, at);
  if (type == DType::kInt32) return Store<int32_t>(index, n, out, at);
  Store<int16_t>(index, n, out, at);
}

absl::Status ComputeArgReduce(KernelContext& ctx) {
  const State& s = *static_cast<const State*>(ctx.state());
  const Tensor& x = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(const int axis, AxisOf(ctx.input(1), x.rank()));
  const int64_t n = x.dim(axis);
  if (n == 0) return InvalidArgument("Reduction axis ", axis, " is empty in shape ", x.shape().DebugString());
  TensorShape shape = x.shape();
  shape.RemoveDim(axis);
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  int64_t inner = 1;
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  const char* px = static_cast<const char*>(x.raw());
  void* z = out->raw();
  ctx.threads()->ParallelFor(shape.num_elements(), static_cast<double>(n), [&](int64_t begin, int64_t end) {
    int64_t index[kColumns];
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % inner, m = std::min({inner - column, end - at, kColumns});
      s.loop(px + (at / inner * n * inner + column) * s.in_size, n, inner, m, index);
      StoreAs(s.out_type, index, m, z, at);
      at += m;
    }
  });
  return absl::OkStatus();
}

template <bool kMax>
absl::StatusOr<PreparedKernel> MakeArgReduce(KernelInit& init) {
  State s{};
  const DType type = init.input_type(0);
  s.out_type = init.output_type(0);
  s.in_size = SizeOf(type);
  s.loop = VisitNumeric(type, ArgLoop{nullptr}, []<class T>() -> ArgLoop {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      return nullptr;
    } else if constexpr (std::is_same_v<T, bool>) {
      return FindExtremes<kMax, uint8_t>;
    } else {
      return FindExtremes<kMax, T>;
    }
  });
  if (s.loop == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(type));
  PreparedKernel k;
  k.compute = ComputeArgReduce;
  k.state = std::make_shared<State>(s);
  return k;
}

absl::StatusOr<PreparedKernel> MakeArgMax(KernelInit& init) { return MakeArgReduce<true>(init); }
absl::StatusOr<PreparedKernel> MakeArgMin(KernelInit& init) { return MakeArgReduce<false>(init); }

// Input 0 without the dimension that input 1 names.
absl::Status ArgReduceShape(InferenceContext& c) {
  const PartialTensorShape& in = c.input(0);
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  if (!in.known_rank()) return absl::OkStatus();
  if (in.rank() <= 1) {
    c.set_output(0, PartialTensorShape(TensorShape()));
    return absl::OkStatus();
  }
  const Tensor* dim = c.input_tensor(1);
  if (dim == nullptr) {
    c.set_output(0, PartialTensorShape::OfRank(in.rank() - 1));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const int axis, AxisOf(*dim, in.rank()));
  PartialTensorShape out{TensorShape()};
  for (int i = 0; i < in.rank(); ++i) {
    if (i != axis) out.AddDim(in.dim(i));
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

// The types of the kernels' inputs.
const std::vector<DType>& ArgReduceTypes() {
  static const std::vector<DType> types = [] {
    std::vector<DType> t(kReals.begin(), kReals.end());
    t.push_back(DType::kBool);
    return t;
  }();
  return types;
}

// Without Tidx, output_type and doc.
OpBuilder ArgReduceOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("dimension: Tidx")
      .Output("output: output_type")
      .Attr(
          "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, quint8, "
          "qint32, qint16, quint16, bool}")
      .Shape(ArgReduceShape)
      .NotDifferentiable("an index is piecewise constant");
}

const OpRegistrar arg_max = ArgReduceOp("ArgMax")
                                .Attr("Tidx: {int16, int32, int64} = DT_INT32")
                                .Attr("output_type: {int16, uint16, int32, int64} = DT_INT64")
                                .Doc("The index of the largest element along a dimension; of equal ones the first.");

TROUPE_KERNEL("ArgMax")
    .Device("CPU")
    .Types("T", ArgReduceTypes())
    .Types("output_type", {DType::kInt16, DType::kUint16, DType::kInt32, DType::kInt64})
    .HostMemory("dimension")
    .Factory(MakeArgMax);

const OpRegistrar arg_min = ArgReduceOp("ArgMin")
                                .Attr("Tidx: {int32, int64} = DT_INT32")
                                .Attr("output_type: {int32, int64} = DT_INT64")
                                .Doc("The index of the smallest element along a dimension; of equal ones the first.");

TROUPE_KERNEL("ArgMin")
    .Device("CPU")
    .Types("T", ArgReduceTypes())
    .Types("output_type", {DType::kInt32, DType::kInt64})
    .HostMemory("dimension")
    .Factory(MakeArgMin);

}  // namespace
}  // namespace troupe::math
