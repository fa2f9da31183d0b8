// The supervisor: owns children by name, restarts those that die, and keeps the name pointing at
// the living one.
//
//   state (of one child)  message              action                                                        next
//   (new)                 (spawned)          1 spawn and monitor                                             watching
//   watching              down (normal stop) 2 forget the child                                              stopped
//   watching              down (failure)     3 tell `failed`; wait as the policy says                        backing off
//   backing off           restart_child      4 spawn anew with the next incarnation; tell `restarted`        watching
//   watching              down (too often)   5 tell `failed` and `gave_up`; the name is dead                 stopped
//   watching              down (too often), and the policy says escalate
//                                            6 as 5, stop all other children, and fail                       gone
//   any                   exit               7 stop all children; a restart that is due is dropped           gone
//   any                   down of an incarnation that is not the child's own
//                                            8 ignored                                                       as before
//
// A child does not own the objects that it works on (a device, its containers): they belong to the
// runtime, whose factory functions capture them. So a restarted child finds them again. Blocks:
// never. Owner: the runtime. Dies: with it.
//
// Tests of the edges, tests/cast/supervisor_test.cc:
//   1, 3, 4  edges_1_and_3_and_4_a_child_that_fails_is_spawned_again_after_its_delay
//   2        edge_2_a_child_that_stops_by_itself_is_forgotten
//   3, 5     edges_3_and_5_the_delay_grows_to_its_limit_and_too_many_failures_end_it
//   6        edge_6_an_escalating_policy_ends_the_whole_family_with_a_failure
//   7        edge_7_the_end_stops_children_and_drops_a_restart_that_is_due
//   8        edge_8_news_of_a_stranger_is_ignored
#ifndef TROUPE_ACTORS_SUPERVISOR_H_
#define TROUPE_ACTORS_SUPERVISOR_H_

#include <caf/all.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "troupe/status.h"

namespace troupe {

struct RestartPolicy {
  std::chrono::milliseconds min_delay{1};
  std::chrono::milliseconds max_delay{1000};
  double factor = 2.0;    // of the delay from one failure to the next
  double jitter = 0.2;    // the delay is off by at most this fraction
  int max_failures = 10;  // within `window`; one more and the supervisor gives up
  std::chrono::milliseconds window{10000};
  uint64_t seed = 0;      // of the jitter; 0 = another one each time
  bool escalate = false;  // giving up ends the supervisor, and its own supervisor decides
};

// Decides whether and when a child is restarted, without an actor or a clock.
class RestartDecision {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit RestartDecision(RestartPolicy policy)
      : policy_(policy), random_(policy.seed != 0 ? policy.seed : std::random_device()()) {}
  // Records a failure at `now`. Returns the delay before the restart; negative when the child is
  // given up.
  std::chrono::milliseconds OnFailure(Time now);
  int failures_in_window() const { return static_cast<int>(failures_.size()); }

 private:
  RestartPolicy policy_;
  std::mt19937_64 random_;
  std::deque<Time> failures_;
};

struct ChildSpec {
  std::string name;
  // Spawns one incarnation (1, 2, ...), monitored by the caller.
  std::function<caf::actor(caf::actor_system&, uint64_t incarnation)> spawn;
  RestartPolicy policy;
  // Called in the supervisor's turn. May be empty.
  std::function<void(const std::string&why)> failed, gave_up;
  std::function<void(uint64_t incarnation)> restarted;
};

// Maps names to the actors that are alive. Thread rule: all methods are thread safe.
class Directory {
 public:
  void Set(const std::string& name, caf::actor actor, uint64_t incarnation);
  // Null while the child is down.
  caf::actor Find(const std::string& name) const;
  // The error for a caller that needs the actor while Find gives null: UNAVAILABLE while it is
  // being restarted, FAILED_PRECONDITION when it was given up.
  absl::Status WhyDown(const std::string& name) const;
  void GiveUp(const std::string& name, const std::string& why);
  // 0 when there never was one.
  uint64_t Incarnation(const std::string& name) const;

 private:
  mutable std::mutex mu_;
  std::map<std::string, std::pair<caf::actor, uint64_t>> actors_;
  std::map<std::string, std::string> given_up_;
};

// The children are spawned in order before this returns.
caf::actor SpawnSupervisor(caf::actor_system& system, std::vector<ChildSpec> children,
                           std::shared_ptr<Directory> directory);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SUPERVISOR_H_
