#include "troupe/train/epoch_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace troupe::train {

EpochOrder::EpochOrder(int64_t examples, int64_t seed) : examples_(std::max<int64_t>(1, examples)), seed_(seed) {}

int64_t EpochOrder::At(int64_t position) {
  position = std::max<int64_t>(0, position);
  if (const int64_t epoch = position / examples_; epoch != epoch_) {
    order_.resize(static_cast<size_t>(examples_));
    std::iota(order_.begin(), order_.end(), 0);
    std::mt19937_64 random(static_cast<uint64_t>(seed_) * 1000003 + static_cast<uint64_t>(epoch));
    // Not std::shuffle, which may be another one in another library.
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
    epoch_ = epoch;
  }
  return order_[static_cast<size_t>(position % examples_)];
}

}  // namespace troupe::train
