#include "troupe/resource_container.h"

#include <algorithm>
#include <condition_variable>
#include <set>
#include <thread>
#include <typeinfo>

#include "kernels/device/droppable.h"
#include "kernels/device/resource_calls.h"
#include "kernels/device/same_entry.h"

namespace troupe {
namespace {

// What has left its entry. It is told, and goes, when the container's lock has been released; who
// is told may use the container.
class Left {
 public:
  ~Left() {
    for (const std::shared_ptr<Resource>& r : all_) {
      if (!stays_.contains(r.get())) Tell(*r);
    }
  }
  static void Tell(const Resource& resource) {
    if (auto* const droppable = dynamic_cast<const Droppable*>(&resource)) droppable->Drop();
  }
  // Afterwards so many more need no memory.
  void Reserve(size_t more) { all_.reserve(all_.size() + more); }
  void Add(std::shared_ptr<Resource> resource) { all_.push_back(std::move(resource)); }
  // It is put into a place again, or into another.
  void Stays(const Resource* resource) { stays_.insert(resource); }
  bool empty() const { return all_.empty(); }

 private:
  std::vector<std::shared_ptr<Resource>> all_;
  std::set<const Resource*> stays_;
};

}  // namespace

inline absl::Status ReplaceEntry(ResourceContainers* all, const std::string& container, const std::string& name,
                                 const Resource* same, std::shared_ptr<Resource> by);

class TROUPE_HIDDEN ResourceContainers::Making : public Resource {
 public:
  std::string DebugString() const override { return "a resource that is being made"; }
  // False, without a wait, when the maker waits for this thread: directly, or for one who does.
  bool Wait() {
    std::unique_lock<std::mutex> lock(waits_mu);
    const std::thread::id me = std::this_thread::get_id();
    // One that is over holds nobody up, although who waited for it may not have had the lock yet.
    for (const Making* next = this; next != nullptr && !next->over_;) {
      if (next->maker_ == me) return false;
      const auto it = waits().find(next->maker_);
      next = it == waits().end() ? nullptr : it->second;
    }
    if (over_) return true;
    waits()[me] = this;
    ended_.wait(lock, [this] { return over_; });
    waits().erase(me);
    return true;
  }
  void End() {
    std::lock_guard<std::mutex> lock(waits_mu);
    over_ = true;
    ended_.notify_all();
  }

  // Here because a class within sees the entries.
  static absl::Status Replace(ResourceContainers* all, const std::string& container, const std::string& name,
                              const Resource* same, std::shared_ptr<Resource> by) {
    Left dead;
    dead.Reserve(1);
    std::lock_guard<std::mutex> lock(all->mu_);
    const auto it = all->entries_.find({container, name});
    if (it == all->entries_.end() || it->second.get() != same)
      return NotFound("no such resource '", name, "' in container '", container, "'");
    if (by != nullptr) TROUPE_RETURN_IF_ERROR(by->TakePlaceOf(*same));
    dead.Add(std::move(it->second));
    if (by != nullptr) {
      it->second = std::move(by);
    } else {
      all->entries_.erase(it);
    }
    all->epoch_.fetch_add(1, std::memory_order_release);
    return absl::OkStatus();
  }
  friend inline absl::Status ReplaceEntry(ResourceContainers* all, const std::string& container,
                                          const std::string& name, const Resource* same, std::shared_ptr<Resource> by) {
    return Replace(all, container, name, same, std::move(by));
  }

 private:
  // Who waits, in all containers of the process, and for what.
  using Waits = std::map<std::thread::id, const Making*>;
  static Waits& waits() {
    static Waits& all = *new Waits;
    return all;
  }
  static inline std::mutex waits_mu;

  const std::thread::id maker_ = std::this_thread::get_id();
  std::condition_variable ended_;
  bool over_ = false;  // guarded by waits_mu
};

absl::Status ReplaceIfSame(ResourceContainers* containers, const std::string& container, const std::string& name,
                           const Resource* same, std::shared_ptr<Resource> by) {
  return ReplaceEntry(containers, container, name, same, std::move(by));
}

bool ResourceContainers::IsBeingMade(const std::shared_ptr<Resource>& entry) {
  const Resource& object = *entry;
  return typeid(object) == typeid(Making);
}

absl::Status ResourceContainers::OfAnotherClass(const std::string& container, const std::string& name,
                                                const Resource& entry) {
  return InvalidArgument("resource '", name, "' of container '", container, "' is ", DescriptionOf(entry),
                         ", not of the class that the op needs");
}

absl::StatusOr<std::shared_ptr<Resource>> ResourceContainers::FindOrMake(
    const std::string& container, const std::string& name, const std::function<std::shared_ptr<Resource>()>& make) {
  const std::pair<std::string, std::string> key(container, name);
  std::shared_ptr<Making> making;
  for (;;) {
    std::shared_ptr<Making> of_another;
    {
      std::lock_guard<std::mutex> lock(mu_);
      used_.store(true, std::memory_order_relaxed);
      const auto it = entries_.find(key);
      if (it == entries_.end()) {
        making = std::make_shared<Making>();
        entries_.emplace(key, making);
        break;
      }
      if (!IsBeingMade(it->second)) return it->second;
      of_another = std::static_pointer_cast<Making>(it->second);
    }
    if (!of_another->Wait()) {
      return FailedPrecondition("resource '", name, "' of container '", container,
                                "' is asked for while it is made, by what makes it or by what that waits for");
    }
  }
  // However the making ends, the others go on, and nothing stays but an object.
  struct AtEnd {
    ResourceContainers* all;
    const std::pair<std::string, std::string>& key;
    Making* making;
    ~AtEnd() {
      {
        std::lock_guard<std::mutex> lock(all->mu_);
        const auto it = all->entries_.find(key);
        if (it != all->entries_.end() && it->second.get() == making) all->entries_.erase(it);
      }
      making->End();
    }
  };
  const AtEnd end{this, key, making.get()};
  std::shared_ptr<Resource> made = make();
  if (made == nullptr) {
    return Internal("resource '", name, "' of container '", container, "' was made as a null pointer");
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = entries_.find(key);
    if (it != entries_.end() && it->second == making) {
      it->second = made;
      return made;
    }
    // Put, or another who came after the clearing, was first.
    if (it != entries_.end() && !IsBeingMade(it->second)) return it->second;
  }
  // The container was cleared meanwhile: the object is its caller's alone.
  Left::Tell(*made);
  return made;
}

absl::Status ResourceContainers::Delete(const std::string& container, const std::string& name) {
  Left dead;
  dead.Reserve(1);
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = entries_.find({container, name});
  if (it == entries_.end() || IsBeingMade(it->second)) {
    return NotFound("no resource '", name, "' in container '", container, "'");
  }
  dead.Add(std::move(it->second));
  entries_.erase(it);
  epoch_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

void ResourceContainers::Clear(const std::string& container) {
  Left dead;
  std::lock_guard<std::mutex> lock(mu_);
  const auto first = entries_.lower_bound({container, std::string()});
  const auto last =
      std::find_if(first, entries_.end(), [&](const auto& entry) { return entry.first.first != container; });
  dead.Reserve(static_cast<size_t>(std::distance(first, last)));
  for (auto it = first; it != last; it = entries_.erase(it)) dead.Add(std::move(it->second));
  // What others keep of other containers stays good while nothing went.
  if (!dead.empty()) epoch_.fetch_add(1, std::memory_order_release);
}

// Of a step that is over: nobody waits.
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
  for (const auto& [key, object] : entries_) {
    if (!IsBeingMade(object)) list.push_back({key.first, key.second, object});
  }
  return list;
}

absl::Status ResourceContainers::Put(const std::vector<Entry>& entries, const std::vector<std::string>& whole) {
  for (const Entry& e : entries) {
    if (e.object == nullptr) {
      return Internal("resource '", e.name, "' of container '", e.container, "' was made as a null pointer");
    }
  }
  Left dead;
  for (const Entry& e : entries) dead.Stays(e.object.get());
  std::lock_guard<std::mutex> lock(mu_);
  dead.Reserve(entries_.size());
  for (const Entry& e : entries) {
    const auto it = entries_.find({e.container, e.name});
    if (it == entries_.end() || IsBeingMade(it->second)) continue;
    TROUPE_RETURN_IF_ERROR(Annotate(e.object->TakePlaceOf(*it->second),
                                    StrCat("resource '", e.name, "' of container '", e.container, "'")));
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto each = it++;
    if (std::find(whole.begin(), whole.end(), each->first.first) == whole.end()) continue;
    dead.Add(std::move(each->second));
    entries_.erase(each);
  }
  for (const Entry& e : entries) {
    std::shared_ptr<Resource>& place = entries_[{e.container, e.name}];
    if (place != nullptr) dead.Add(std::move(place));
    place = e.object;
  }
  if (!entries_.empty()) used_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace troupe
