#include "graph/core/near_names.h"

#include <algorithm>
#include <numeric>

namespace troupe {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t before = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = before + (a[i] == b[j] ? 0 : 1);
      before = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

bool EndAlike(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.size() > b.size() && a.ends_with(b) && a[a.size() - b.size() - 1] == '/';
}

void NearNames::Offer(std::string_view candidate) {
  size_t distance = 0;
  if (candidate.empty() || name_.empty()) return;
  if (!EndAlike(candidate, name_)) {
    const size_t longest = std::max(candidate.size(), name_.size());
    const size_t limit = std::min<size_t>(3, longest / 3);
    if (longest - std::min(candidate.size(), name_.size()) > limit) return;
    // Only what lies between the first and the last difference.
    std::string_view a = candidate, b = name_;
    while (!a.empty() && !b.empty() && a.front() == b.front()) {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
    while (!a.empty() && !b.empty() && a.back() == b.back()) {
      a.remove_suffix(1);
      b.remove_suffix(1);
    }
    if (std::max(a.size(), b.size()) > 64) return;
    distance = EditDistance(a, b);
    if (distance > limit) return;
  }
  const auto at = std::upper_bound(near_.begin(), near_.end(), distance,
                                   [](size_t d, const auto& entry) { return d < entry.first; });
  if (at == near_.end() && near_.size() == kKept) return;
  near_.emplace(at, distance, std::string(candidate));
  if (near_.size() > kKept) near_.pop_back();
}

std::vector<std::string> NearNames::Best(size_t most) const {
  std::vector<std::string> best;
  for (size_t i = 0; i < std::min(most, near_.size()); ++i) best.push_back(near_[i].second);
  return best;
}

}  // namespace troupe
