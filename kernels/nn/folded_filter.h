// The constant filter of a convolution with the factors of a constant normalisation in it.
//
// The library keeps such a filter in a layout of its own. So the filter is computed when somebody
// reads it, and stays only for ways of computing that read it in every call: a network's filters
// are most of its memory.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_KERNELS_NN_FOLDED_FILTER_H_
#define TROUPE_KERNELS_NN_FOLDED_FILTER_H_

#include <mutex>
#include <utility>
#include <vector>

#include "troupe/tensor.h"

namespace troupe {

class FoldedFilter {
 public:
  // `factors`: by output channel, which is the last dimension of `filter`, or its last two. Both
  // are float32.
  FoldedFilter(Allocator* allocator, Tensor filter, std::vector<float> factors)
      : allocator_(allocator), filter_(std::move(filter)), factors_(std::move(factors)) {}
  // Whether no number of it overflows, or underflows but for a factor of 0.
  bool IsOrdinary() const;
  // The product, of the filter's shape. Throws std::bad_alloc.
  Tensor Make() const;
  // The same, made at the first call; stays as long as this.
  const float* Kept();

 private:
  Allocator* const allocator_;
  const Tensor filter_;
  const std::vector<float> factors_;
  std::mutex mu_;
  Tensor kept_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_FOLDED_FILTER_H_
