#include "troupe/checkpoint.h"

#include <algorithm>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/first_format.h"
#include "graph/core/near_names.h"
#include "troupe/files.h"

namespace troupe {
namespace {

// The paths of a checkpoint of the first format.
absl::StatusOr<std::vector<std::string>> FirstFormatPaths(const std::string& pattern) {
  const absl::StatusOr<files::FileStat> one = files::Stat(pattern);
  if (one.ok() && !one->is_directory) return std::vector<std::string>{pattern};
  return files::Match(pattern);
}

}  // namespace

CheckpointReader::~CheckpointReader() = default;

absl::StatusOr<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& prefix) {
  if (prefix.empty()) return InvalidArgument("a checkpoint is opened without a name");
  if (files::Exists(IndexPath(prefix))) return BundleReader::Open(prefix);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FirstFormatPaths(prefix));
  if (paths.empty()) {
    return NotFound(prefix, ": there is no checkpoint: neither ", IndexPath(prefix), " nor a file of the first format");
  }
  return FirstFormatReader::Open(paths);
}

const CheckpointReader::Entry* CheckpointReader::Find(std::string_view name) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const Entry& e, std::string_view n) { return std::string_view(e.name) < n; });
  return it != entries_.end() && it->name == name ? &*it : nullptr;
}

absl::StatusOr<Tensor> CheckpointReader::Read(std::string_view name) const {
  const Entry* const entry = Find(name);
  return ReadSlice(name, TensorSlice::Full(entry != nullptr ? entry->shape.rank() : 0));
}

std::vector<std::string> CheckpointReader::NamesLike(std::string_view name, size_t most) const {
  std::vector<std::pair<size_t, const Entry*>> near;
  for (const Entry& e : entries_) {
    // A name that differs in its scope alone is near, however long the scope is.
    const bool ends_alike = EndAlike(e.name, name);
    const size_t longest = std::max(e.name.size(), name.size());
    if (!ends_alike &&
        (longest > 1000 || std::max(e.name.size(), name.size()) > 2 * std::min(e.name.size(), name.size()) + 2)) {
      continue;
    }
    const size_t distance = ends_alike ? 0 : EditDistance(e.name, name);
    if (distance <= longest / 2) near.emplace_back(distance, &e);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(most, near.size()); ++i) names.push_back(near[i].second->name);
  return names;
}

bool CheckpointExists(const std::string& prefix) {
  if (files::Exists(IndexPath(prefix))) return true;
  const absl::StatusOr<std::vector<std::string>> paths = FirstFormatPaths(prefix);
  return paths.ok() && !paths->empty();
}

}  // namespace troupe
