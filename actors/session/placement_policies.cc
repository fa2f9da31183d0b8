#include "actors/session/placement_policies.h"

#include <map>
#include <mutex>
#include <utility>

#include "actors/session/session_impl.h"

namespace troupe {
namespace {

using Key = std::weak_ptr<const SessionMaster>;

struct Policies {
  std::mutex mu;
  std::map<Key, PlacementPolicy, std::owner_less<Key>> all;
};
Policies& Given() {
  static auto* const given = new Policies;
  return *given;
}

}  // namespace

PlacementPolicy PlacementOf(const Key& session) {
  Policies& given = Given();
  std::lock_guard<std::mutex> lock(given.mu);
  const auto it = given.all.find(session);
  return it == given.all.end() ? PlacementPolicy() : it->second;
}

absl::Status SetPlacementPolicy(Session& session, PlacementPolicy policy) {
  Session::Impl* const impl = session.impl();
  TROUPE_RETURN_IF_ERROR(impl->UsableThere());
  if (impl->elsewhere != nullptr)
    return Unimplemented("the session stands in a server, which places its nodes: name devices in the graph");
  // A policy is the program's code, and so is what its destructor does: not under the lock.
  std::map<Key, PlacementPolicy, std::owner_less<Key>> gone;
  Policies& given = Given();
  std::lock_guard<std::mutex> lock(given.mu);
  for (auto it = given.all.begin(); it != given.all.end();) {
    const auto next = std::next(it);
    if (it->first.expired()) gone.insert(given.all.extract(it));
    it = next;
  }
  given.all[impl->master].swap(policy);
  return absl::OkStatus();
}

}  // namespace troupe
