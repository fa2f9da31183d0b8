#include "actors/step/step_cost.h"

#include <new>
#include <string>

namespace troupe {

bool CheapFeeds::Saw(const std::vector<Tensor>& feeds, int64_t nanos, int64_t limit) {
  const bool covered = Cover(absl::Span<const Tensor>(feeds));
  if (nanos > limit) {
    if (covered) known_ = false;
    return !covered;
  }
  if (covered) return true;
  known_ = false;  // until both are of these feeds
  shapes_.clear();
  characters_.clear();
  for (const Tensor& t : feeds) {
    shapes_.push_back(t.shape());
    characters_.push_back(Characters(t));
  }
  return known_ = true;
}

bool CheapFeeds::Cover(const FeedValues& feeds) const {
  if (!known_ || feeds.size() != shapes_.size()) return false;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const Tensor& t = feeds[i];
    if (t.rank() != shapes_[i].rank()) return false;
    for (int d = 0; d < t.rank(); ++d) {
      if (t.dim(d) > shapes_[i].dim(d)) return false;
    }
    if (Characters(t) > characters_[i]) return false;
  }
  return true;
}

int64_t CheapFeeds::Characters(const Tensor& feed) {
  if (feed.dtype() != DType::kString) return 0;
  int64_t n = 0;
  const auto* strings = feed.data<std::string>();
  for (int64_t i = 0; i < feed.num_elements(); ++i) n += static_cast<int64_t>(strings[i].size());
  return n;
}

void StepCost::Saw(const std::vector<Tensor>& feeds, int64_t nanos) {
  measured_nanos_ = nanos;
  try {
    const bool lane = for_lane_.Saw(feeds, nanos, kLimitedNanos);
    const bool lending = for_lending_.Saw(feeds, nanos, lend_nanos_);
    // Another process may have had the processor; the next step tells.
    if (!lane || !lending) measure_next_ = true;
  } catch (const std::bad_alloc&) {
    // They know nothing then.
  }
}

void StepCost::Overran() {
  measured_nanos_ = -1;
  for_lane_.Forget();
  for_lending_.Forget();
  measure_next_ = true;
}

bool StepCost::CheapFor(bool limited, bool user_kernels, const FeedValues& feeds) const {
  if (limited) return !user_kernels && for_lane_.Cover(feeds);
  return measured_nanos_ >= 0 && measured_nanos_ <= kUsersNanos;
}

bool StepCost::ShortFor(int64_t nanos, const FeedValues& feeds) const {
  return for_lending_.Cover(feeds) && (nanos >= lend_nanos_ || measured_nanos_ <= nanos);
}

}  // namespace troupe
