// In which order a training run uses its examples: each of them once in an epoch, in an order that
// is a function of the seed and the number of the epoch.
//
//   train::EpochOrder order(examples, seed);
//   for (int64_t i = 0; i < batch; ++i) Use(order.At((step * parts + part) * batch + i));
//
// Positions count on from one epoch to the next, so nothing is left over at its end, and a batch
// may begin in one epoch and end in the next. A step's position follows from its number: whoever
// computes it, also again or in place of another one, uses the same examples, and no file has to
// keep a place in the data.
//
// Thread rule: as for a std::vector, At counting as a change: it keeps the order of one epoch, 8
// bytes for each example, and draws another one when it is asked for it.
#ifndef TROUPE_TRAIN_EPOCH_ORDER_H_
#define TROUPE_TRAIN_EPOCH_ORDER_H_

#include <cstdint>
#include <vector>

#include "troupe/export.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class EpochOrder {
 public:
  // `examples` below 1 is taken for 1.
  EpochOrder(int64_t examples, int64_t seed);
  int64_t examples() const { return examples_; }
  // The number of the example at this position, from 0 to examples() - 1. A negative position is
  // taken for 0.
  int64_t At(int64_t position);
  // In which epoch it is.
  int64_t EpochOf(int64_t position) const { return position < 0 ? 0 : position / examples_; }

 private:
  const int64_t examples_, seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;  // of the epoch
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_EPOCH_ORDER_H_
