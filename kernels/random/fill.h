// Filling a tensor from one place of a random stream, by as many threads as there are, with the
// numbers that one thread would give.
//
// Thread rule: any thread; the work is shared out among `threads`, and done when the call returns.
#ifndef TROUPE_KERNELS_RANDOM_FILL_H_
#define TROUPE_KERNELS_RANDOM_FILL_H_

#include <algorithm>

#include "kernels/random/distributions.h"
#include "kernels/random/uniform_loop.h"
#include "troupe/compute_threads.h"

namespace troupe::random {

template <class T, class Distribution>
void Fill(ComputeThreads* threads, const Philox& start, const Distribution& distribution, T* out, int64_t n) {
  constexpr int kGroup = Distribution::kGroup;
  const int64_t groups = (n + kGroup - 1) / kGroup;
  threads->ParallelFor(groups, Distribution::kCost * kGroup, [&](int64_t begin, int64_t end) {
    Philox philox = start;
    if constexpr (!Distribution::kVariable) philox.Skip(static_cast<uint64_t>(begin));
    if constexpr (std::is_same_v<Distribution, Uniform<float>>) {
      // Whole batches by the vector loop; what is left below.
      const int64_t batched = (std::min(end, n / kGroup) - begin) / kUniformBatch * kUniformBatch;
      if (batched > 0) {
        PickUniformLoop().fill(philox.counter().data(), philox.key().data(), out + begin * kGroup, batched);
        philox.Skip(static_cast<uint64_t>(batched));
        begin += batched;
      }
    }
    for (int64_t g = begin; g < end; ++g) {
      T last[kGroup];
      const bool whole = (g + 1) * kGroup <= n;
      T* const to = whole ? out + g * kGroup : last;
      if constexpr (Distribution::kVariable) {
        // Each group has room for all that it may use, whatever it uses.
        Philox own = start;
        own.Skip(static_cast<uint64_t>(g) * kGroup * kReserved / Philox::kWords);
        PhiloxWords words(own);
        distribution(words, to);
      } else {
        distribution(philox, to);
      }
      if (!whole) std::copy(last, last + (n - g * kGroup), out + g * kGroup);
    }
  });
}

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_FILL_H_
