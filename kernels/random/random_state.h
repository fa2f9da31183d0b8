// The random stream of a node.
//
// A stream belongs to (session, node): every signature, step and thread that runs the node takes
// the next stretch of one sequence, so no number comes twice. Seeds 0, 0 mean a stream that nobody
// can foresee. Snapshots of a session's state keep streams as well as variables.
//
// Thread rule: Reserve may be called from any thread and never blocks.
#ifndef TROUPE_KERNELS_RANDOM_RANDOM_STATE_H_
#define TROUPE_KERNELS_RANDOM_RANDOM_STATE_H_

#include <atomic>
#include <string>
#include <utility>

#include "kernels/random/philox.h"
#include "troupe/kernel.h"

namespace troupe::random {

class RandomState : public Resource {
 public:
  // `env` gives the seeds of a stream that nobody can foresee.
  RandomState(int64_t seed, int64_t seed2, Env* env);
  // The stream that begins at `start`, of which so many results have been used.
  RandomState(const Philox& start, uint64_t used) : start_(start), used_(used) {}
  // A stream at the next unused place, which may be read for `results` results of 128 bits.
  Philox Reserve(uint64_t results) {
    Philox p = start_;
    p.Skip(used_.fetch_add(results, std::memory_order_relaxed));
    return p;
  }
  std::string DebugString() const override;
  // Saved as "counter" (4 x uint32) and "key" (2 x uint32) of the stream's first place, and "used"
  // (uint64). So a stream without a seed goes on with its own numbers, too.
  void Save(const StateVisitor& visit) const override;

 private:
  const Philox start_;
  std::atomic<uint64_t> used_{0};
};

// What a random op keeps of its node: attrs "seed" and "seed2", and its stream.
class RandomSource {
 public:
  explicit RandomSource(KernelInit& init);
  absl::StatusOr<Philox> Reserve(const KernelContext& ctx, uint64_t results);
  // For a tensor of `numbers` numbers of a distribution.
  absl::StatusOr<Philox> ReserveNumbers(const KernelContext& ctx, int64_t numbers);

 private:
  const int64_t seed_, seed2_;
  const std::pair<std::string, std::string> key_;
  ResourceCache<RandomState> state_;
};

// The shape that input `i` (an int32 or int64 vector) names. INVALID_ARGUMENT for another rank,
// negative or overflowing dimensions.
absl::StatusOr<TensorShape> ShapeInput(const KernelContext& ctx, int i);

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_RANDOM_STATE_H_
