#include "kernels/random/random_kernel.h"

namespace troupe::random {

absl::StatusOr<Philox> StreamOfSeed(const KernelContext& ctx, int i) {
  const Tensor& seed = ctx.input(i);
  if (seed.rank() != 1 || seed.dim(0) != 2)
    return InvalidArgument("seed must have shape [2], not ", seed.shape().DebugString());
  uint64_t s[2];
  for (int k = 0; k < 2; ++k) {
    s[k] = static_cast<uint64_t>(seed.dtype() == DType::kInt64 ? seed.data<int64_t>()[k] : seed.data<int32_t>()[k]);
  }
  // Weak seeds are scrambled by the generator itself.
  const Philox::Words counter = {static_cast<uint32_t>(s[0]), static_cast<uint32_t>(s[0] >> 32),
                                 static_cast<uint32_t>(s[1]), static_cast<uint32_t>(s[1] >> 32)};
  const Philox::Words mix = Philox(counter, {0x3ec8f720u, 0x02461e29u})();
  return Philox({0, 0, mix[2], mix[3]}, {mix[0], mix[1]});
}

absl::Status CheckSeedShape(InferenceContext& c, int seed) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape s, c.WithRank(seed, 1));
  return MergeDims(s.dim(0), 2).status();
}

absl::Status StatelessShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(CheckSeedShape(c, 1));
  return shape_fn::FromShapeInput0(c);
}

OpBuilder NumbersOp(std::string_view name, std::string_view numbers) {
  return OpBuilder(name)
      .Input("shape: T")
      .Output("output: dtype")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Attr("dtype: {half, bfloat16, float, double}")
      .Attr("T: {int32, int64}")
      .Stateful()
      .Shape(shape_fn::FromShapeInput0)
      .NotDifferentiable(kWhyNoGradient)
      .Doc(StrCat(numbers,
                  ", in a tensor of this shape. Equal seeds give equal sequences; seeds 0, 0 one that differs each "
                  "time."));
}
OpBuilder StatelessNumbersOp(std::string_view name, std::string_view numbers) {
  return OpBuilder(name)
      .Input("shape: T")
      .Input("seed: Tseed")
      .Output("output: dtype")
      .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
      .Attr("T: {int32, int64} = DT_INT32")
      .Attr("Tseed: {int32, int64} = DT_INT64")
      .Shape(StatelessShape)
      .NotDifferentiable(kWhyNoGradient)
      .Doc(StrCat(numbers,
                  ", in a tensor of this shape: the same ones whenever the two numbers of `seed` are the same."));
}

}  // namespace troupe::random
