#include "troupe/resource_container.h"

#include <algorithm>

#include "kernels/device/resource_calls.h"

namespace troupe {

absl::Status ResourceContainers::Delete(const std::string& container, const std::string& name) {
  std::shared_ptr<Resource> dead;  // destroyed outside of the lock
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = entries_.find({container, name});
  if (it == entries_.end()) return NotFound("no resource '", name, "' in container '", container, "'");
  dead = std::move(it->second);
  entries_.erase(it);
  epoch_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

void ResourceContainers::Clear(const std::string& container) {
  std::vector<std::shared_ptr<Resource>> dead;
  std::lock_guard<std::mutex> lock(mu_);
  for (auto it = entries_.lower_bound({container, std::string()});
       it != entries_.end() && it->first.first == container;) {
    dead.push_back(std::move(it->second));
    it = entries_.erase(it);
  }
  // What others keep of other containers stays good while nothing went.
  if (!dead.empty()) epoch_.fetch_add(1, std::memory_order_release);
}

void ResourceContainers::ClearAll() {
  decltype(entries_) dead;
  std::lock_guard<std::mutex> lock(mu_);
  dead.swap(entries_);
  used_.store(false, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
}

std::vector<ResourceContainers::Listing> ResourceContainers::List() const {
  std::vector<Listing> list;
  for (const Entry& e : Entries()) list.push_back({e.container, e.name, DescriptionOf(*e.object)});
  return list;
}

std::vector<ResourceContainers::Entry> ResourceContainers::Entries() const {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Entry> list;
  for (const auto& [key, object] : entries_) list.push_back({key.first, key.second, object});
  return list;
}

absl::Status ResourceContainers::Put(const std::vector<Entry>& entries, const std::vector<std::string>& whole) {
  std::vector<std::shared_ptr<Resource>> dead;  // destroyed outside of the lock
  std::lock_guard<std::mutex> lock(mu_);
  for (const Entry& e : entries) {
    const auto it = entries_.find({e.container, e.name});
    if (it == entries_.end() || it->second == nullptr) continue;
    TROUPE_RETURN_IF_ERROR(Annotate(e.object->TakePlaceOf(*it->second),
                                    StrCat("resource '", e.name, "' of container '", e.container, "'")));
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto each = it++;
    if (std::find(whole.begin(), whole.end(), each->first.first) == whole.end()) continue;
    dead.push_back(std::move(each->second));
    entries_.erase(each);
  }
  for (const Entry& e : entries) {
    std::shared_ptr<Resource>& place = entries_[{e.container, e.name}];
    if (place != nullptr) dead.push_back(std::move(place));
    place = e.object;
  }
  if (!entries_.empty()) used_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace troupe
