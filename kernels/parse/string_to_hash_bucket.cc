// StringToHashBucket, StringToHashBucketFast and StringToHashBucketStrong: texts as numbers below
// num_buckets, by one of three hash functions (farm_hash.h).
#include "kernels/common/op_file.h"
#include "kernels/parse/farm_hash.h"

namespace troupe::parse {
namespace {

constexpr char kTextsAreHashed[] = "its input is text";

TROUPE_OP("StringToHashBucket")
    .Input("string_tensor: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable(kTextsAreHashed)
    .Doc("A number of [0, num_buckets) for each text, by MurmurHash. StringToHashBucketFast is better.");

TROUPE_OP("StringToHashBucketFast")
    .Input("input: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable(kTextsAreHashed)
    .Doc("A number of [0, num_buckets) for each text, by FarmHash's fingerprint.");

TROUPE_OP("StringToHashBucketStrong")
    .Input("input: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Attr("key: list(int)")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable(kTextsAreHashed)
    .Doc(
        "A number of [0, num_buckets) for each text, by SipHash with the two numbers of `key`, which nobody foresees.");

template <class F>
absl::Status Compute(KernelContext& ctx, uint64_t buckets, const F& hash) {
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
  const auto texts = ctx.input(0).flat<std::string>();
  for (size_t i = 0; i < texts.size(); ++i) out->data<int64_t>()[i] = static_cast<int64_t>(hash(texts[i]) % buckets);
  return absl::OkStatus();
}

template <uint64_t (*Hash)(std::string_view)>
class BucketKernel {
 public:
  explicit BucketKernel(KernelInit& init) : buckets_(static_cast<uint64_t>(init.Attr<int64_t>("num_buckets"))) {}
  absl::Status Compute(KernelContext& ctx) { return parse::Compute(ctx, buckets_, Hash); }

 private:
  const uint64_t buckets_;
};
TROUPE_KERNEL("StringToHashBucket").Device("CPU").Class<BucketKernel<MurmurHash64>>();
TROUPE_KERNEL("StringToHashBucketFast").Device("CPU").Class<BucketKernel<Fingerprint64>>();

class StrongBucketKernel {
 public:
  explicit StrongBucketKernel(KernelInit& init)
      : buckets_(static_cast<uint64_t>(init.Attr<int64_t>("num_buckets"))),
        key_(init.Attr<std::vector<int64_t>>("key")) {
    if (key_.size() != 2) init.Fail(InvalidArgument("key must be two numbers"));
  }
  absl::Status Compute(KernelContext& ctx) {
    return parse::Compute(ctx, buckets_, [this](std::string_view text) {
      return SipHash(static_cast<uint64_t>(key_[0]), static_cast<uint64_t>(key_[1]), text);
    });
  }

 private:
  const uint64_t buckets_;
  const std::vector<int64_t> key_;
};
TROUPE_KERNEL("StringToHashBucketStrong").Device("CPU").Class<StrongBucketKernel>();

}  // namespace
}  // namespace troupe::parse
