// Cumsum and Cumprod: running sums and products along one axis.
//
// out[i] is the fold of x[0..i], without x[i] when exclusive, from the other end when reverse.
// Floats are accumulated in double.
#include <algorithm>
#include <complex>
#include <string_view>
#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::math {
namespace {

constexpr int64_t kColumns = 128;

// `columns` neighbouring scans of n elements that are `stride` apart (negative from the end).
using ScanLoop = void (*)(const void* x, void* out, int64_t n, int64_t stride, int64_t columns, bool exclusive);

template <class T>
struct AccumulatorOf {
  using Type = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
};
template <class T>
struct AccumulatorOf<std::complex<T>> {
  using Type = std::complex<double>;
};

template <bool kSum, class T>
void Scan(const void* in, void* out, int64_t n, int64_t stride, int64_t columns, bool exclusive) {
  using Acc = typename AccumulatorOf<T>::Type;
  const T* x = static_cast<const T*>(in);
  T* z = static_cast<T*>(out);
  Acc acc[kColumns];
  for (int64_t j = 0; j < columns; ++j) acc[j] = Acc(kSum ? 0 : 1);
  for (int64_t i = 0; i < n; ++i, x += stride, z += stride) {
    for (int64_t j = 0; j < columns; ++j) {
      const Acc before = acc[j], v = static_cast<Acc>(x[j]);
      if constexpr (kSum) {
        acc[j] = before + v;
      } else {
        acc[j] = before * v;
      }
      z[j] = static_cast<T>(exclusive ? before : acc[j]);
    }
  }
}

struct State {
  ScanLoop loop;
  int64_t size;
  bool exclusive, reverse;
};

absl::Status ComputeScan(KernelContext& ctx) {
  const State& s = *static_cast<const State*>(ctx.state());
  const Tensor& x = ctx.input(0);
  const Tensor& at = ctx.input(1);
  if (at.rank() != 0) return InvalidArgument("ScanOp: axis must be a scalar, not ", at.shape().DebugString());
  int64_t axis = at.dtype() == DType::kInt32 ? *at.data<int32_t>() : *at.data<int64_t>();
  if (axis < -x.rank() || axis >= x.rank()) {
    return InvalidArgument("ScanOp: Expected scan axis in the range [", -x.rank(), ", ", x.rank(), "), but got ", axis);
  }
  if (axis < 0) axis += x.rank();
  int64_t inner = 1;
  for (int i = static_cast<int>(axis) + 1; i < x.rank(); ++i) inner *= x.dim(i);
  const int64_t n = x.dim(static_cast<int>(axis)), total = x.num_elements();
  const char* px = static_cast<const char*>(x.raw());
  const TensorShape shape = x.shape();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, shape));
  if (total == 0) return absl::OkStatus();
  char* z = static_cast<char*>(out->raw());
  ctx.threads()->ParallelFor(total / n, static_cast<double>(n), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end;) {
      const int64_t column = c % inner, m = std::min({inner - column, end - c, kColumns});
      const int64_t first = (c / inner * n + (s.reverse ? n - 1 : 0)) * inner + column;
      s.loop(px + first * s.size, z + first * s.size, n, s.reverse ? -inner : inner, m, s.exclusive);
      c += m;
    }
  });
  return absl::OkStatus();
}

template <bool kSum>
absl::StatusOr<PreparedKernel> MakeScan(KernelInit& init) {
  State s{};
  const DType type = init.output_type(0);
  s.size = static_cast<int64_t>(SizeOf(type));
  s.exclusive = init.Attr<bool>("exclusive");
  s.reverse = init.Attr<bool>("reverse");
  s.loop = VisitNumeric(type, ScanLoop{nullptr}, []<class T>() -> ScanLoop {
    if constexpr (std::is_same_v<T, bool>) {
      return nullptr;
    } else {
      return Scan<kSum, T>;
    }
  });
  if (s.loop == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(type));
  PreparedKernel k;
  k.compute = ComputeScan;
  k.state = std::make_shared<State>(s);
  return k;
}

absl::StatusOr<PreparedKernel> MakeCumsum(KernelInit& init) { return MakeScan<true>(init); }
absl::StatusOr<PreparedKernel> MakeCumprod(KernelInit& init) { return MakeScan<false>(init); }

// Without gradient. `folds`: what it computes.
OpBuilder ScanOp(std::string_view name, std::string_view folds) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("axis: Tidx")
      .Output("out: T")
      .Attr("exclusive: bool = false")
      .Attr("reverse: bool = false")
      .Attr("T: numbertype")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(shape_fn::Unchanged)
      .Doc(StrCat("Running ", folds,
                  " of x along an axis; exclusive leaves out the element itself, reverse starts from the end."));
}

absl::Status CumsumGradient(GradientContext& g) {
  g.Set(0, g.Op("Cumsum", {g.Grad(0), g.Input(1)},
                {{"exclusive", g.Attr<bool>("exclusive")}, {"reverse", !g.Attr<bool>("reverse")}}));
  return g.status();
}

const OpRegistrar cumsum = ScanOp("Cumsum", "sums").Gradient(CumsumGradient);

TROUPE_KERNEL("Cumsum").Device("CPU").Types("T", kNumbers).HostMemory("axis").Factory(MakeCumsum);

absl::Status CumprodGradient(GradientContext& g) {
  const bool exclusive = g.Attr<bool>("exclusive"), reverse = g.Attr<bool>("reverse");
  const Value x = In(g, 0), dy = Grad(g), axis = In(g, 1);
  const Value sum = {&g,
                     g.Op("Cumsum", {(Out(g) * dy).out, axis.out}, {{"exclusive", exclusive}, {"reverse", !reverse}})};
  return SetUnary(g, Apply("DivNoNan", sum, x));
}

const OpRegistrar cumprod = ScanOp("Cumprod", "products").Gradient(CumprodGradient);

TROUPE_KERNEL("Cumprod").Device("CPU").Types("T", kNumbers).HostMemory("axis").Factory(MakeCumprod);

}  // namespace
}  // namespace troupe::math
