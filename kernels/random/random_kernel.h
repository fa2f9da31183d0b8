// The kernels of ops that fill a tensor with numbers of one distribution: of a node's own stream,
// and of a seed that is an input.
//
// Thread rule: as for all kernels (troupe/kernel.h).
#ifndef TROUPE_KERNELS_RANDOM_RANDOM_KERNEL_H_
#define TROUPE_KERNELS_RANDOM_RANDOM_KERNEL_H_

#include "kernels/random/fill.h"
#include "kernels/random/random_state.h"
#include "troupe/shape_inference.h"

namespace troupe::random {

inline constexpr char kWhyNoGradient[] = "random numbers do not depend on its inputs";

template <template <class> class Distribution>
absl::Status FillFloating(KernelContext& ctx, const Philox& start, Tensor* out) {
  const int64_t n = out->num_elements();
  switch (out->dtype()) {
    case DType::kFloat:
      Fill(ctx.threads(), start, Distribution<float>(), out->data<float>(), n);
      break;
    case DType::kDouble:
      Fill(ctx.threads(), start, Distribution<double>(), out->data<double>(), n);
      break;
    case DType::kHalf:
      Fill(ctx.threads(), start, Distribution<Half>(), out->data<Half>(), n);
      break;
    case DType::kBfloat16:
      Fill(ctx.threads(), start, Distribution<BFloat16>(), out->data<BFloat16>(), n);
      break;
    default:
      return Unimplemented("this distribution is not defined for ", Name(out->dtype()));
  }
  return absl::OkStatus();
}

// Input 0 is the shape.
template <template <class> class Distribution>
class RandomKernel {
 public:
  explicit RandomKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ShapeInput(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    TROUPE_ASSIGN_OR_RETURN(const Philox start, source_.ReserveNumbers(ctx, shape.num_elements()));
    return FillFloating<Distribution>(ctx, start, out);
  }

 private:
  RandomSource source_;
};

// The stream of seed input `i` (two integers). INVALID_ARGUMENT for another shape.
absl::StatusOr<Philox> StreamOfSeed(const KernelContext& ctx, int i);

// Input 0 is the shape, input 1 the seed.
template <template <class> class Distribution>
absl::Status ComputeStateless(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ShapeInput(ctx, 0));
  TROUPE_ASSIGN_OR_RETURN(const Philox start, StreamOfSeed(ctx, 1));
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
  return FillFloating<Distribution>(ctx, start, out);
}

// Integers in [input `low`, input `low + 1`), both scalars, by `reserve()` for the stream.
template <class Reserve>
absl::Status FillUniformInt(KernelContext& ctx, int low, Reserve&& reserve) {
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ShapeInput(ctx, 0));
  const Tensor &lo = ctx.input(low), &hi = ctx.input(low + 1);
  if (lo.rank() != 0 || hi.rank() != 0) {
    return InvalidArgument("minval and maxval must be scalars, but have shapes ", lo.shape().DebugString(), " and ",
                           hi.shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
  const int64_t n = shape.num_elements();
  if (n == 0) return absl::OkStatus();
  const auto fill = [&]<class T>() -> absl::Status {
    const T from = lo.scalar<T>(), to = hi.scalar<T>();
    if (from >= to) return InvalidArgument("minval must be less than maxval, but they are ", from, " and ", to);
    TROUPE_ASSIGN_OR_RETURN(const Philox start, reserve());
    Fill(ctx.threads(), start, UniformInt<T>(from, to), out->data<T>(), n);
    return absl::OkStatus();
  };
  return out->dtype() == DType::kInt64 ? fill.template operator()<int64_t>() : fill.template operator()<int32_t>();
}

// The definition of an op that fills a tensor with numbers of a distribution, from the node's own
// stream. `numbers` are what it draws, as the doc says it.
OpBuilder NumbersOp(std::string_view name, std::string_view numbers);
// The same from the stream of a seed that is an input.
OpBuilder StatelessNumbersOp(std::string_view name, std::string_view numbers);
// Shape functions of the stateless ops: the shape at input 0, a seed of two numbers at input 1.
absl::Status StatelessShape(InferenceContext& c);
absl::Status CheckSeedShape(InferenceContext& c, int seed);

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_RANDOM_KERNEL_H_
