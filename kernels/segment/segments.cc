// Sums, means, products and extremes of rows by segment: SegmentSum and its sorted relatives,
// UnsortedSegmentSum and its unsorted ones.
#include <algorithm>
#include <complex>
#include <limits>
#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::math {
namespace {

enum class SegmentOp : uint8_t { kSum, kMean, kProd, kMax, kMin };

// Folds the rows of data into out, which has `segments` rows of `columns` elements; ids are
// checked. Ids below 0 are skipped. Extremes start from infinity where every segment that is looked
// at has a row (`sorted`), and from the largest or least finite number elsewhere, which is what a
// segment without rows is.
using SegmentLoop = void (*)(const void* data, const int64_t* ids, int64_t rows, int64_t columns, int64_t segments,
                             SegmentOp op, bool sorted, void* out);

struct State {
  SegmentLoop loop;
  SegmentOp op;
  bool sorted;
};

template <class T>
struct IsComplexType : std::false_type {};
template <class T>
struct IsComplexType<std::complex<T>> : std::true_type {};

// 16-bit floats are folded as floats.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <class V>
void FoldRow(SegmentOp op, V* acc, const V* x, int64_t n) {
  using U = std::conditional_t<std::is_integral_v<V>, std::make_unsigned<V>, std::type_identity<V>>::type;
  if (op == SegmentOp::kSum || op == SegmentOp::kMean) {
    for (int64_t j = 0; j < n; ++j) acc[j] = static_cast<V>(static_cast<U>(acc[j]) + static_cast<U>(x[j]));
  } else if (op == SegmentOp::kProd) {
    // Small types would be multiplied as int, which could overflow.
    using P = std::conditional_t<std::is_integral_v<V>, uint64_t, V>;
    for (int64_t j = 0; j < n; ++j) acc[j] = static_cast<V>(static_cast<P>(acc[j]) * static_cast<P>(x[j]));
  } else if constexpr (!IsComplexType<V>::value) {
    if (op == SegmentOp::kMax) {
      for (int64_t j = 0; j < n; ++j) acc[j] = acc[j] < x[j] || x[j] != x[j] ? x[j] : acc[j];
    } else {
      for (int64_t j = 0; j < n; ++j) acc[j] = x[j] < acc[j] || x[j] != x[j] ? x[j] : acc[j];
    }
  }
}

template <class T>
void Fold(const void* data, const int64_t* ids, int64_t rows, int64_t columns, int64_t segments, SegmentOp op,
          bool sorted, void* out) {
  using V = Wide<T>;
  const T* x = static_cast<const T*>(data);
  T* z = static_cast<T*>(out);
  std::vector<V> wide(std::is_same_v<V, T> ? 0 : segments * columns), row(std::is_same_v<V, T> ? 0 : columns);
  std::vector<int64_t> count(op == SegmentOp::kMean ? segments : 0);
  V* acc;
  if constexpr (std::is_same_v<V, T>) {
    acc = z;
  } else {
    acc = wide.data();
  }
  V identity = V(op == SegmentOp::kProd ? 1 : 0);
  if constexpr (!IsComplexType<V>::value) {
    const bool infinite = sorted && std::numeric_limits<V>::has_infinity;
    if (op == SegmentOp::kMax)
      identity = infinite ? -std::numeric_limits<V>::infinity() : static_cast<V>(std::numeric_limits<T>::lowest());
    if (op == SegmentOp::kMin)
      identity = infinite ? std::numeric_limits<V>::infinity() : static_cast<V>(std::numeric_limits<T>::max());
  }
  std::fill(acc, acc + segments * columns, identity);
  for (int64_t i = 0; i < rows; ++i) {
    if (ids[i] < 0) continue;
    if (op == SegmentOp::kMean) ++count[ids[i]];
    if constexpr (std::is_same_v<V, T>) {
      FoldRow<V>(op, acc + ids[i] * columns, x + i * columns, columns);
    } else {
      for (int64_t j = 0; j < columns; ++j) row[j] = static_cast<V>(x[i * columns + j]);
      FoldRow<V>(op, acc + ids[i] * columns, row.data(), columns);
    }
  }
  if (op == SegmentOp::kMean) {
    for (int64_t s = 0; s < segments; ++s) {
      for (int64_t j = 0; j < columns && count[s] > 1; ++j)
        acc[s * columns + j] = static_cast<V>(acc[s * columns + j] / static_cast<V>(count[s]));
    }
  }
  if constexpr (!std::is_same_v<V, T>) {
    for (int64_t i = 0; i < segments * columns; ++i) z[i] = static_cast<T>(acc[i]);
  }
}

int64_t IntAt(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kInt64) return t.data<int64_t>()[i];
  return t.dtype() == DType::kInt16 ? t.data<int16_t>()[i] : t.data<int32_t>()[i];
}

absl::Status ComputeSegments(KernelContext& ctx) {
  const State& s = *static_cast<const State*>(ctx.state());
  const Tensor& data = ctx.input(0);
  const Tensor& segment_ids = ctx.input(1);
  std::vector<int64_t> ids(segment_ids.num_elements());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = IntAt(segment_ids, static_cast<int64_t>(i));
  int64_t segments = 0;
  if (s.sorted) {
    if (segment_ids.rank() != 1) return InvalidArgument("segment_ids should be a vector.");
    if (data.rank() < 1) return InvalidArgument("input must be at least rank 1");
    if (data.dim(0) != static_cast<int64_t>(ids.size())) {
      return InvalidArgument("segment_ids should be the same size as dimension 0 of input.");
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0) return InvalidArgument("segment ids must be >= 0");
      if (i > 0 && ids[i] < ids[i - 1]) return InvalidArgument("segment ids are not increasing");
    }
    segments = ids.empty() ? 0 : ids.back() + 1;
  } else {
    const Tensor& num = ctx.input(2);
    if (num.rank() != 0)
      return InvalidArgument("num_segments should be a scalar, not shape ", num.shape().DebugString());
    segments = IntAt(num, 0);
    if (segments < 0) return InvalidArgument("Input num_segments == ", segments, " must not be negative.");
    bool starts = segment_ids.rank() <= data.rank();
    for (int i = 0; starts && i < segment_ids.rank(); ++i) starts = data.dim(i) == segment_ids.dim(i);
    if (!starts) {
      return InvalidArgument("data.shape = ", data.shape().DebugString(),
                             " does not start with segment_ids.shape = ", segment_ids.shape().DebugString());
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= segments)
        return InvalidArgument("segment_ids[", i, "] = ", ids[i], " is out of range [0, ", segments, ")");
    }
  }
  std::vector<int64_t> dims = {segments};
  int64_t columns = 1;
  for (int i = segment_ids.rank(); i < data.rank(); ++i) {
    dims.push_back(data.dim(i));
    columns *= data.dim(i);
  }
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  if (out->num_elements() == 0) return absl::OkStatus();
  s.loop(data.raw(), ids.data(), static_cast<int64_t>(ids.size()), columns, segments, s.op, s.sorted, out->raw());
  if (s.sorted && (s.op == SegmentOp::kMax || s.op == SegmentOp::kMin)) {
    // Segments without rows are zero.
    std::vector<bool> seen(segments, false);
    for (int64_t id : ids) seen[id] = true;
    const size_t bytes = static_cast<size_t>(columns) * SizeOf(out->dtype());
    for (int64_t i = 0; i < segments; ++i) {
      if (!seen[i]) std::memset(static_cast<char*>(out->raw()) + i * bytes, 0, bytes);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PreparedKernel> MakeSegmentKernel(KernelInit& init, SegmentOp op, bool sorted) {
  State s{};
  s.op = op;
  s.sorted = sorted;
  s.loop = VisitNumeric(init.output_type(0), SegmentLoop{nullptr}, []<class T>() -> SegmentLoop {
    if constexpr (std::is_same_v<T, bool>) {
      return nullptr;
    } else {
      return Fold<T>;
    }
  });
  if (s.loop == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(init.output_type(0)));
  PreparedKernel k;
  k.compute = ComputeSegments;
  k.state = std::make_shared<State>(s);
  return k;
}

absl::Status RowsShape(InferenceContext& c, int64_t segments, int skip) {
  const PartialTensorShape& data = c.input(0);
  if (!data.known_rank() || skip > data.rank()) return absl::OkStatus();
  PartialTensorShape out({segments});
  for (int i = skip; i < data.rank(); ++i) out.AddDim(data.dim(i));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

// Sorted: ids do not fall, segments are 0 to the last id, those without rows are 0 (1 for Prod).
template <SegmentOp kOp>
absl::StatusOr<PreparedKernel> SegmentFactory(KernelInit& init) {
  return MakeSegmentKernel(init, kOp, true);
}
// Unsorted: input 2 says how many segments, rows with negative ids are left out, segments without
// rows are the identity of the op.
template <SegmentOp kOp>
absl::StatusOr<PreparedKernel> UnsortedSegmentFactory(KernelInit& init) {
  return MakeSegmentKernel(init, kOp, false);
}

absl::Status SegmentShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRankAtLeast(0, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  return RowsShape(c, -1, 1);
}

absl::Status UnsortedSegmentShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
  if (!c.input(1).known_rank()) return absl::OkStatus();
  const Tensor* num = c.input_tensor(2);
  const int64_t segments = num == nullptr ? -1 : IntAt(*num, 0);
  if (segments < -1) return InvalidArgument("Input num_segments == ", segments, " must not be negative.");
  return RowsShape(c, segments, c.input(1).rank());
}

// The definition of a fold over sorted ids, without its gradient. `result`: of the rows.
OpBuilder SortedOp(std::string_view name, std::string_view types, std::string_view result) {
  return OpBuilder(name)
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .Output("output: T")
      .Attr(StrCat("T: ", types))
      .Attr("Tindices: {int32, int64}")
      .Shape(SegmentShape)
      .Doc(StrCat("The ", result, " of the rows of data that have the same segment id. Ids must not fall."));
}
// The same over ids in any order.
OpBuilder UnsortedOp(std::string_view name, std::string_view types, std::string_view result,
                     std::string_view index_types = "{int32, int64}") {
  return OpBuilder(name)
      .Input("data: T")
      .Input("segment_ids: Tindices")
      .Input("num_segments: Tnumsegments")
      .Output("output: T")
      .Attr(StrCat("T: ", types))
      .Attr(StrCat("Tindices: ", index_types))
      .Attr("Tnumsegments: {int32, int64} = DT_INT32")
      .Shape(UnsortedSegmentShape)
      .Doc(StrCat("The ", result,
                  " of the rows of data that have the same segment id. Rows with negative ids are left out."));
}
constexpr char kNoGradient[] = "only the sums and means of segments have a gradient";

const OpRegistrar segment_sum = SortedOp("SegmentSum", "numbertype", "sum").Gradient([](GradientContext& g) {
  // Every row of the data gets the gradient of its segment.
  const NodeOut axis = g.Const(Tensor::Scalar(int32_t{0}));
  g.Set(0, g.Op("GatherV2", {g.Grad(0), g.Input(1), axis}));
  return g.status();
});
TROUPE_KERNEL("SegmentSum").Device("CPU").Types("T", kNumbers).Factory(SegmentFactory<SegmentOp::kSum>);

const OpRegistrar segment_mean = SortedOp("SegmentMean", "numbertype", "mean").Gradient([](GradientContext& g) {
  const NodeOut axis = g.Const(Tensor::Scalar(int32_t{0}));
  const Value rows = {&g, g.Op("SegmentSum", {Apply("OnesLike", In(g, 0)).out, g.Input(1)})};
  const Value scaled = Apply("DivNoNan", Grad(g), rows);
  g.Set(0, g.Op("GatherV2", {scaled.out, g.Input(1), axis}));
  return g.status();
});
TROUPE_KERNEL("SegmentMean").Device("CPU").Types("T", kNumbers).Factory(SegmentFactory<SegmentOp::kMean>);

const OpRegistrar segment_prod = SortedOp("SegmentProd", "numbertype", "product").NotDifferentiable(kNoGradient);
TROUPE_KERNEL("SegmentProd").Device("CPU").Types("T", kNumbers).Factory(SegmentFactory<SegmentOp::kProd>);

const OpRegistrar segment_max = SortedOp("SegmentMax", "realnumbertype", "maximum").NotDifferentiable(kNoGradient);
TROUPE_CPU_KERNEL("SegmentMax").Factory(SegmentFactory<SegmentOp::kMax>);

const OpRegistrar segment_min = SortedOp("SegmentMin", "realnumbertype", "minimum").NotDifferentiable(kNoGradient);
TROUPE_CPU_KERNEL("SegmentMin").Factory(SegmentFactory<SegmentOp::kMin>);

const OpRegistrar unsorted_segment_sum =
    UnsortedOp("UnsortedSegmentSum", "numbertype", "sum", "{int16, int32, int64}").Gradient([](GradientContext& g) {
      // Every row gets the gradient of its segment, rows without one get zero.
      const NodeOut axis = g.Const(Tensor::Scalar(int32_t{0})), flat = g.Const(Tensor::Vector<int32_t>({-1}));
      const Value ids = Apply("Reshape", In(g, 1), {&g, flat}), zero = Number(ids, 0);
      const Value rows = {&g, g.Op("GatherV2", {g.Grad(0), Apply("Maximum", ids, zero).out, axis})};
      const NodeOut kept =
          g.Op("Select", {Apply("GreaterEqual", ids, zero).out, rows.out, Apply("ZerosLike", rows).out});
      g.Set(0, g.Op("Reshape", {kept, Apply("Shape", In(g, 0)).out}));
      return g.status();
    });
TROUPE_KERNEL("UnsortedSegmentSum")
    .Device("CPU")
    .Types("T", kNumbers)
    .HostMemory("num_segments")
    .Factory(UnsortedSegmentFactory<SegmentOp::kSum>);

const OpRegistrar unsorted_segment_prod =
    UnsortedOp("UnsortedSegmentProd", "numbertype", "product").NotDifferentiable(kNoGradient);
TROUPE_KERNEL("UnsortedSegmentProd")
    .Device("CPU")
    .Types("T", kNumbers)
    .HostMemory("num_segments")
    .Factory(UnsortedSegmentFactory<SegmentOp::kProd>);

const OpRegistrar unsorted_segment_max =
    UnsortedOp("UnsortedSegmentMax", "realnumbertype", "maximum").NotDifferentiable(kNoGradient);
TROUPE_CPU_KERNEL("UnsortedSegmentMax").HostMemory("num_segments").Factory(UnsortedSegmentFactory<SegmentOp::kMax>);

const OpRegistrar unsorted_segment_min =
    UnsortedOp("UnsortedSegmentMin", "realnumbertype", "minimum").NotDifferentiable(kNoGradient);
TROUPE_CPU_KERNEL("UnsortedSegmentMin").HostMemory("num_segments").Factory(UnsortedSegmentFactory<SegmentOp::kMin>);

}  // namespace
}  // namespace troupe::math
