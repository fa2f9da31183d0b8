// Range: start, start + delta, ... before limit.
#include <cmath>

#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
template <class T>
Wide<T> Printable(T v) {
  return static_cast<Wide<T>>(v);
}

// How many numbers; start, limit and delta are of the op's type, the arithmetic of integers is
// exact.
template <class T>
absl::StatusOr<int64_t> RangeSize(T start, T limit, T delta) {
  if (delta == T(0)) return InvalidArgument("range requires delta != 0");
  if (delta > T(0) && start > limit)
    return InvalidArgument("range requires start <= limit when delta > 0: ", Printable(start), "/", Printable(limit));
  if (delta < T(0) && start < limit)
    return InvalidArgument("range requires start >= limit when delta < 0: ", Printable(start), "/", Printable(limit));
  if constexpr (std::is_integral_v<T>) {
    const auto way = delta > T(0) ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    const uint64_t step = delta > T(0) ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
    const uint64_t size = way / step + (way % step != 0 ? 1 : 0);
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return InvalidArgument("range has too many elements: ", size);
    return static_cast<int64_t>(size);
  } else {
    // Difference and quotient are rounded to the type, so that half types count as TensorFlow does.
    const auto steps = static_cast<double>(T((limit - start) / delta));
    const double size = std::ceil(std::abs(steps));
    if (!(size < 9.2e18)) return InvalidArgument("range has too many elements: ", size);
    return static_cast<int64_t>(size);
  }
}

template <class F>
absl::Status VisitRangeType(DType t, F&& f) {
  switch (t) {
    case DType::kFloat:
      return f.template operator()<float>();
    case DType::kDouble:
      return f.template operator()<double>();
    case DType::kHalf:
      return f.template operator()<Half>();
    case DType::kBfloat16:
      return f.template operator()<BFloat16>();
    case DType::kInt8:
      return f.template operator()<int8_t>();
    case DType::kInt16:
      return f.template operator()<int16_t>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kUint16:
      return f.template operator()<uint16_t>();
    case DType::kUint32:
      return f.template operator()<uint32_t>();
    case DType::kUint64:
      return f.template operator()<uint64_t>();
    default:
      return InvalidArgument("range does not count in ", Name(t));
  }
}

absl::Status RangeShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  c.set_output(0, PartialTensorShape{-1});
  const Tensor *start = c.input_tensor(0), *limit = c.input_tensor(1), *delta = c.input_tensor(2);
  if (start == nullptr || limit == nullptr || delta == nullptr) return absl::OkStatus();
  return VisitRangeType(start->dtype(), [&]<class T>() -> absl::Status {
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, RangeSize<T>(start->scalar<T>(), limit->scalar<T>(), delta->scalar<T>()));
    c.set_output(0, PartialTensorShape{n});
    return absl::OkStatus();
  });
}

absl::Status ComputeRange(KernelContext& ctx) {
  static constexpr const char* kNames[] = {"start", "limit", "delta"};
  for (int i = 0; i < 3; ++i) {
    if (ctx.input(i).num_elements() != 1)
      return InvalidArgument(kNames[i], " must be a scalar, got shape ", ctx.input(i).shape().DebugString());
  }
  return VisitRangeType(ctx.output_type(0), [&]<class T>() -> absl::Status {
    const Wide<T> start = ctx.input(0).scalar<T>(), delta = ctx.input(2).scalar<T>();
    TROUPE_ASSIGN_OR_RETURN(const int64_t n,
                            RangeSize<T>(ctx.input(0).scalar<T>(), ctx.input(1).scalar<T>(), ctx.input(2).scalar<T>()));
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({n})));
    T* y = out->data<T>();
    ctx.threads()->ParallelFor(n, 1.0, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = static_cast<T>(static_cast<Wide<T>>(start + static_cast<Wide<T>>(i) * delta));
    });
    return absl::OkStatus();
  });
}

TROUPE_OP("Range")
    .Input("start: Tidx")
    .Input("limit: Tidx")
    .Input("delta: Tidx")
    .Output("output: Tidx")
    .Attr("Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = DT_INT32")
    .Shape(RangeShape)
    .NotDifferentiable("the number of its elements depends on its inputs")
    .Doc("The numbers start, start + delta, start + 2 delta, ... before `limit`.");
TROUPE_KERNEL("Range")
    .Device("CPU")
    .HostMemory("start")
    .HostMemory("limit")
    .HostMemory("delta")
    .HostMemory("output")
    .Function<ComputeRange>();

}  // namespace
}  // namespace troupe::array
