#include "kernels/random/random_state.h"

#include <random>

#include "kernels/random/distributions.h"

namespace troupe::random {
namespace {

uint64_t Unforeseeable() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

Philox StreamOf(int64_t seed, int64_t seed2) {
  if (seed == 0 && seed2 == 0) return Philox(Unforeseeable(), Unforeseeable());
  return Philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2));
}

}  // namespace

RandomState::RandomState(int64_t seed, int64_t seed2) : start_(StreamOf(seed, seed2)) {}

std::string RandomState::DebugString() const {
  return StrCat("random stream, ", used_.load(std::memory_order_relaxed), " x 128 bits used");
}

RandomSource::RandomSource(KernelInit& init)
    : seed_(init.Attr<int64_t>("seed")),
      seed2_(init.Attr<int64_t>("seed2")),
      key_(init.ResourceKey(/*per_session=*/true)) {}

absl::StatusOr<Philox> RandomSource::Reserve(const KernelContext& ctx, uint64_t results) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<RandomState> state,
                          state_.Get(ctx.device()->containers(), key_.first, key_.second,
                                     [this] { return std::make_shared<RandomState>(seed_, seed2_); }));
  return state->Reserve(results);
}

absl::StatusOr<Philox> RandomSource::ReserveNumbers(const KernelContext& ctx, int64_t numbers) {
  return Reserve(ctx, static_cast<uint64_t>(numbers) * kReserved);
}

absl::StatusOr<TensorShape> ShapeInput(const KernelContext& ctx, int i) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 1) return InvalidArgument("the shape must be a vector, but has shape ", t.shape().DebugString());
  std::vector<int64_t> dims(t.num_elements());
  for (size_t d = 0; d < dims.size(); ++d)
    dims[d] = t.dtype() == DType::kInt64 ? t.data<int64_t>()[d] : t.data<int32_t>()[d];
  return TensorShape::Make(dims);
}

}  // namespace troupe::random
