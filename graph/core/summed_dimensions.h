// Over which dimensions the gradient of a broadcasting op is summed for each of its two inputs.
//
// Thread rule: a pure function.
#ifndef TROUPE_GRAPH_CORE_SUMMED_DIMENSIONS_H_
#define TROUPE_GRAPH_CORE_SUMMED_DIMENSIONS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

// For shapes `a` and `b`; nothing when they do not broadcast. Equal shapes need no sum; otherwise a
// dimension of size 1 on both sides counts as broadcast, so that sums that keep it stay trivial.
inline std::optional<std::array<std::vector<int64_t>, 2>> SummedDimensions(const std::vector<int64_t>& a,
                                                                           const std::vector<int64_t>& b) {
  std::array<std::vector<int64_t>, 2> summed;
  if (a == b) return summed;
  const size_t rank = std::max(a.size(), b.size());
  for (size_t k = 0; k < rank; ++k) {
    const int64_t x = k + a.size() < rank ? 1 : a[k + a.size() - rank];
    const int64_t y = k + b.size() < rank ? 1 : b[k + b.size() - rank];
    if (x != y && x != 1 && y != 1) return std::nullopt;
    if (x == 1) summed[0].push_back(static_cast<int64_t>(k));
    if (y == 1) summed[1].push_back(static_cast<int64_t>(k));
  }
  return summed;
}

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_SUMMED_DIMENSIONS_H_
