// The signatures that a session keeps, by their names, so that a choice of feeds, fetches and
// targets that was run before need not be compiled again.
//
// Every combination and order of names is a signature of its own, so their number is bounded; the
// least recently used one is dropped first. A Callable or a step that still holds a dropped
// signature keeps it alive. Threads look up in replicas, which share neither a lock nor a counter
// of uses. A use is recorded as the time at which the last signature was added; between two
// signatures that were both used since then, the order of use is unknown.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_ACTORS_SIGNATURE_SIGNATURE_CACHE_H_
#define TROUPE_ACTORS_SIGNATURE_SIGNATURE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/core/hash_map.h"

namespace troupe {

class Signature;

// Appends the key of a signature. `feeds` are names, or pairs of names and values.
template <class FeedNames>
void AppendSignatureKey(const FeedNames& feeds, const std::vector<std::string>& fetches,
                        const std::vector<std::string>& targets, std::string* key) {
  const auto add = [key](const std::string& name) {
    *key += name;
    *key += '\n';
  };
  for (const auto& feed : feeds) {
    if constexpr (requires { feed.first; }) {
      add(feed.first);
    } else {
      add(feed);
    }
  }
  *key += '\t';
  for (const std::string& name : fetches) add(name);
  *key += '\t';
  for (const std::string& name : targets) add(name);
  *key += '\t';
}

class SignatureCache {
 public:
  // 0: no bound.
  explicit SignatureCache(int64_t bound) : bound_(static_cast<size_t>(bound)) {}

  // The signature whose key `write` appends to an empty string. Null when there is none, or it is
  // stale; `*key` is then the key.
  template <class Write>
  std::shared_ptr<Signature> Find(Write&& write, std::string* key) {
    Replica& r = Mine();
    std::lock_guard<std::mutex> lock(r.mu);
    r.key.clear();
    write(&r.key);
    const auto it = r.map.find(r.key);
    if (it != r.map.end() && !it->second.stale->load(std::memory_order_relaxed)) {
      it->second.used = time_.load(std::memory_order_relaxed) + 1;
      return it->second.signature;
    }
    *key = r.key;
    return nullptr;
  }
  std::shared_ptr<Signature> Find(const std::string& key) {
    std::string unused;
    return Find([&](std::string* k) { *k = key; }, &unused);
  }
  // Adds a signature that was not there. May drop others. Throws std::bad_alloc; the signature is
  // not there then.
  void Add(const std::string& key, const std::shared_ptr<Signature>& signature);
  void Clear();
  void Remove(const Signature* signature);
  size_t size() const;

 private:
  static constexpr size_t kReplicas = 16;
  struct Entry {
    std::shared_ptr<Signature> signature;      // counts the uses of its own threads
    const std::atomic<bool>* stale = nullptr;  // the signature's
    uint64_t used = 0;
  };
  struct alignas(64) Replica {
    mutable std::mutex mu;
    HashMap<std::string, Entry> map;
    std::string key;  // scratch
  };
  Replica& Mine() {
    static std::atomic<size_t> next{0};
    thread_local const size_t mine = next.fetch_add(1);
    return replicas_[mine % kReplicas];
  }
  void MakeRoom();
  void RemoveFromAll(const Signature* signature);  // under adding_

  const size_t bound_;
  std::mutex adding_;
  std::atomic<uint64_t> time_{0};  // even; uses are odd, so that they come after what was added then
  Replica replicas_[kReplicas];
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_SIGNATURE_CACHE_H_
