#include "troupe/resource_container.h"

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
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Listing> list;
  for (const auto& [key, object] : entries_) list.push_back({key.first, key.second, object->DebugString()});
  return list;
}

}  // namespace troupe
