#include "actors/signature/signature_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/signature/signature.h"
#include "graph/core/hash_map.h"

namespace troupe {

void SignatureCache::Add(const std::string& key, const std::shared_ptr<Signature>& signature) {
  std::lock_guard<std::mutex> adding(adding_);
  if (bound_ > 0 && size() >= bound_) MakeRoom();
  const uint64_t now = time_.fetch_add(2, std::memory_order_relaxed) + 2;
  try {
    for (Replica& r : replicas_) {
      std::shared_ptr<Signature> counted(signature.get(), [keep = signature](Signature*) {});
      Entry old;  // goes after the lock
      std::lock_guard<std::mutex> lock(r.mu);
      Entry& e = r.map.try_emplace(key, Entry{nullptr, signature->stale_flag(), 0}).first->second;
      old = std::exchange(e, Entry{std::move(counted), signature->stale_flag(), now});
    }
  } catch (...) {
    RemoveFromAll(signature.get());
    throw;
  }
}

// An eighth of them at once, so that looking through all is paid by many.
void SignatureCache::MakeRoom() {
  HashMap<std::string, uint64_t> used;
  for (Replica& r : replicas_) {
    std::lock_guard<std::mutex> lock(r.mu);
    for (const auto& [key, entry] : r.map) {
      uint64_t& latest = used[key];
      latest = std::max(latest, entry.used);
    }
  }
  std::vector<std::pair<uint64_t, std::string>> oldest;
  oldest.reserve(used.size());
  for (auto& [key, time] : used) oldest.emplace_back(time, key);
  const size_t going = std::min(oldest.size(), oldest.size() - bound_ + std::max<size_t>(1, bound_ / 8));
  std::nth_element(oldest.begin(), oldest.begin() + static_cast<ptrdiff_t>(going) - 1, oldest.end());
  oldest.resize(going);
  std::vector<std::shared_ptr<Signature>> dead;
  dead.reserve(kReplicas * oldest.size());
  for (Replica& r : replicas_) {
    std::lock_guard<std::mutex> lock(r.mu);
    for (const auto& [time, key] : oldest) {
      const auto it = r.map.find(key);
      if (it == r.map.end()) continue;
      dead.push_back(std::move(it->second.signature));
      r.map.erase(it);
    }
  }
}

void SignatureCache::Clear() {
  std::lock_guard<std::mutex> adding(adding_);
  for (Replica& r : replicas_) {
    decltype(r.map) dead;
    std::lock_guard<std::mutex> lock(r.mu);
    dead.swap(r.map);
  }
}

void SignatureCache::Remove(const Signature* signature) {
  std::lock_guard<std::mutex> adding(adding_);
  RemoveFromAll(signature);
}

void SignatureCache::RemoveFromAll(const Signature* signature) {
  for (Replica& r : replicas_) {
    Entry old;  // goes after the lock
    std::lock_guard<std::mutex> lock(r.mu);
    const auto it =
        std::find_if(r.map.begin(), r.map.end(), [&](const auto& e) { return e.second.signature.get() == signature; });
    if (it == r.map.end()) continue;
    old = std::move(it->second);
    r.map.erase(it);
  }
}

size_t SignatureCache::size() const {
  const Replica& first = replicas_[0];
  std::lock_guard<std::mutex> lock(first.mu);
  return first.map.size();
}

}  // namespace troupe
