#include "kernels/random/random_state.h"

#include "kernels/random/distributions.h"
#include "troupe/resource_state.h"

namespace troupe::random {
namespace {

constexpr char kKind[] = "random stream";

Philox StreamOf(int64_t seed, int64_t seed2, Env* env) {
  if (seed == 0 && seed2 == 0) {
    const uint64_t first = env->Unforeseeable();
    return Philox(first, env->Unforeseeable());
  }
  return Philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2));
}

absl::StatusOr<std::shared_ptr<Resource>> MakeStream(const std::string&, const ResourceState& state) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor counter, state.Get("counter", DType::kUint32, TensorShape({4})));
  TROUPE_ASSIGN_OR_RETURN(const Tensor key, state.Get("key", DType::kUint32, TensorShape({2})));
  TROUPE_ASSIGN_OR_RETURN(const Tensor used, state.Get("used", DType::kUint64, TensorShape()));
  const uint32_t *c = counter.data<uint32_t>(), *k = key.data<uint32_t>();
  return std::make_shared<RandomState>(Philox({c[0], c[1], c[2], c[3]}, {k[0], k[1]}), used.scalar<uint64_t>());
}
const ResourceKind kind(kKind, MakeStream);

}  // namespace

RandomState::RandomState(int64_t seed, int64_t seed2, Env* env) : start_(StreamOf(seed, seed2, env)) {}

void RandomState::Save(const StateVisitor& visit) const {
  visit(ResourceState{kKind,
                      {{"counter", Tensor::Vector<uint32_t>(start_.counter())},
                       {"key", Tensor::Vector<uint32_t>(start_.key())},
                       {"used", Tensor::Scalar(used_.load(std::memory_order_relaxed))}}});
}

std::string RandomState::DebugString() const {
  return StrCat("random stream, ", used_.load(std::memory_order_relaxed), " x 128 bits used");
}

RandomSource::RandomSource(KernelInit& init)
    : seed_(init.Attr<int64_t>("seed")),
      seed2_(init.Attr<int64_t>("seed2")),
      key_(init.ResourceKey(/*per_session=*/true)) {}

absl::StatusOr<Philox> RandomSource::Reserve(const KernelContext& ctx, uint64_t results) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<RandomState> state,
                          state_.Get(ctx.device()->containers(), key_.first, key_.second, [&] {
                            return std::make_shared<RandomState>(seed_, seed2_, ctx.device()->env());
                          }));
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
