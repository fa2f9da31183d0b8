// Supervision: an actor owns children by name, restarts those that die, and keeps the name pointing
// at the living one.
//
// The tree of a runtime:
//
//   runtime's supervisor   watched by the runtime itself (RootSupervisor)
//     session:<id>         one for each session that lives
//     readiness            once somebody asks (train/ready_board.h)
//     worker:<task>        itself a supervisor, of the devices of its task:
//       device:<name>
//       container:<name>   itself a supervisor, of the resources that are actors:
//         state:<device>:<number>
//
// Executors are owned by their sets and are not restarted: the next lease makes a new set
// (signature/signature.h). The policy of each kind of child (CastPolicies) says which deaths lead
// to a restart, and after what delay.
//
//   state (of one child)  message              action                                                        next
//   (new)                 (spawned)          1 spawn and monitor                                             watching
//   watching              down (normal stop) 2 forget the child, unless its policy is to restart it always   stopped
//   watching              down (failure)     3 tell `failed`; wait as the policy says                        backing off
//   backing off           restart_child      4 spawn anew with the next incarnation; tell `restarted`        watching
//   watching              down (too often)   5 tell `failed` and `gave_up`; the name is dead                 stopped
//   watching              down (too often), and the policy says escalate
//                                            6 as 5, stop all other children, and fail                       gone
//   any                   exit (normal stop) 7 stop all children; a restart that is due is dropped           gone
//   any                   down of an incarnation that is not the child's own
//                                            8 ignored                                                       as before
//   (new)                 add_child          9 watch an actor that runs already and is in the list           watching
//   watching              remove_child      10 stop it; answered when it is gone                             (none)
//   backing off, stopped  remove_child      11 forget it, with the restart that is due; answered at once     (none)
//   watching              exit of the supervisor by a failure, and a next incarnation of it
//                                           12 the children live on; the next incarnation watches them       watching
//   backing off           as 12             13 spawn anew at once                                            watching
//   any, to be removed    as 12             14 stop it, or forget it if it is down                           (none)
//
// A child does not own the objects that it works on (a device, its containers, the master of a
// session): factory functions capture them. So a restarted child finds them again. The list of
// children is such an object, too (Children), so that a supervisor may itself be restarted. Who
// adds a child, or has one removed, writes it into the list before the message is sent: if the
// message dies with the supervisor, the next incarnation finds it there. Blocks: never.
//
// Nobody supervises the root. Its actor tells the runtime when it dies, which spawns the next one
// at once (RootSupervisor); after too many deaths no more. Then nobody restarts its children: who
// asks one that is down, then or later, is told so, and a session whose actor is down has ended.
//
// Tests of the edges, tests/cast/supervisor_test.cc:
//   1, 3, 4  edges_1_and_3_and_4_a_child_that_fails_is_spawned_again_after_its_delay
//   2        edge_2_a_child_that_stops_by_itself_is_forgotten
//   2        edge_2_a_child_that_is_restarted_always_comes_back
//   3, 5     edges_3_and_5_the_delay_grows_to_its_limit_and_too_many_failures_end_it
//   6        edge_6_an_escalating_policy_ends_the_whole_family_with_a_failure
//   7        edge_7_the_end_stops_children_and_drops_a_restart_that_is_due
//   8        edge_8_news_of_a_stranger_is_ignored
//   9, 10    edges_9_and_10_a_child_is_added_and_removed
//   11       edge_11_a_child_is_removed_while_it_is_down
//   12, 13   edges_12_and_13_children_outlive_their_supervisor
//   9, 12, 14  edges_9_and_12_and_14_what_a_dead_supervisor_was_told_is_not_lost
#ifndef TROUPE_ACTORS_SUPERVISION_SUPERVISOR_H_
#define TROUPE_ACTORS_SUPERVISION_SUPERVISOR_H_

#include <caf/all.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "troupe/status.h"

namespace troupe {

enum class Restart : uint8_t {
  kAlways,        // whoever ended it: it goes only with its owner
  kAfterFailure,  // it may end by itself, with exit_reason::user_shutdown
  kNever,
};

struct RestartPolicy {
  Restart restart = Restart::kAlways;
  std::chrono::milliseconds min_delay{1};
  std::chrono::milliseconds max_delay{1000};
  double factor = 2.0;    // of the delay from one failure to the next
  double jitter = 0.2;    // the delay is off by at most this fraction
  int max_failures = 10;  // within `window`; one more and the supervisor gives up
  std::chrono::milliseconds window{10000};
  uint64_t seed = 0;      // of the jitter; 0 = another one each time
  bool escalate = false;  // giving up ends the supervisor, and its own supervisor decides; else the child stays stopped
};

// What the runtime declares for each kind of child, and for the supervisor of them, which is
// restarted without a delay. State actors have the policy of containers.
struct CastPolicies {
  RestartPolicy session, worker, device, container, supervisor;
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

 private:
  RestartPolicy policy_;
  std::mt19937_64 random_;
  std::deque<Time> failures_;
};

struct ChildSpec {
  std::string name;
  RestartPolicy policy;
  // Spawns one incarnation (1, 2, ...), which its supervisor monitors. Null: there is nothing left
  // to spawn it for, and the child is forgotten.
  std::function<caf::actor(caf::actor_system&, uint64_t incarnation)> spawn;
  // Called in the supervisor's turn. May be empty.
  std::function<void(const std::string&why)> failed, gave_up;
  // The root supervisor is not restarted: called on the thread on which that ended. Whether the
  // child is alive nobody knows then. May be empty.
  std::function<void(const std::string& why)> abandoned;
  // While it says false, the next incarnation is not spawned yet. May be empty.
  std::function<bool()> may_restart;
  std::function<void(uint64_t incarnation)> restarted;
};

// Maps names to the actors that are alive. Thread rule: all methods are thread safe.
class Directory {
 public:
  void Set(const std::string& name, caf::actor actor, uint64_t incarnation);
  // The actor is not there, for this reason, until the next Set. For actors that others restart.
  void Lose(const std::string& name, absl::Status why);
  // Null while the child is down.
  caf::actor Find(const std::string& name) const;
  // The error for a caller that needs the actor while Find gives null: UNAVAILABLE while it is
  // being restarted, FAILED_PRECONDITION when it was given up.
  absl::Status WhyDown(const std::string& name) const;
  void GiveUp(const std::string& name, const std::string& why);
  // From now on nobody restarts the root supervisor's children, also those that come later. Workers
  // that live go on to restart theirs.
  void RootIsOver();
  bool root_is_over() const;
  // 0 when there never was one. While the child is down: that of the next.
  uint64_t Incarnation(const std::string& name) const;
  void Forget(const std::string& name);
  size_t size() const;
  // How many actors have come so far, first ones and those that took the place of dead ones.
  uint64_t arrivals() const;
  // For a thread that may wait: until there are more arrivals than `seen`. False: `limit` came
  // first.
  bool WaitForArrival(uint64_t seen, std::chrono::steady_clock::time_point limit) const;

 private:
  mutable std::mutex mu_;
  mutable std::condition_variable arrived_;
  uint64_t arrivals_ = 0;
  std::map<std::string, std::pair<caf::actor, uint64_t>> actors_;
  std::map<std::string, std::string> given_up_;
  std::map<std::string, absl::Status> lost_;
  bool root_is_over_ = false;
};

// The children of one supervisor. Belongs to whoever owns the supervisor, and is handed from its
// one incarnation to the next. Finding a child takes the same time whatever their number.
//
// Thread rule: the methods that take the supervisor's actor belong to its turn; Spawn and StopAll
// to a time at which there is no supervisor, or to its turn; Adopt, Doom and size to any thread.
class Children {
 public:
  explicit Children(std::shared_ptr<Directory> directory) : directory_(std::move(directory)) {}
  // Adds a child and spawns it. Its supervisor, which takes over later, hears of its death.
  void Spawn(caf::actor_system& system, ChildSpec spec);
  // Adds a child that runs already. To be followed by add_child to the supervisor.
  void Adopt(ChildSpec spec, caf::actor first);
  // The child is to go. To be followed by remove_child.
  void Doom(const std::string& name);
  // A new supervisor watches all that there are.
  void TakeOver(caf::event_based_actor* self);
  // For add_child.
  void Watch(caf::event_based_actor* self, const std::string& name);
  // For remove_child. `gone` is called when the child is no more.
  void Remove(caf::event_based_actor* self, const std::string& name, std::function<void()> gone);
  // False when the supervisor has ended with the child that it gave up.
  bool OnDown(caf::event_based_actor* self, const caf::down_msg& down);
  void OnRestart(caf::event_based_actor* self, uint64_t number);
  void StopAll();
  // For the root's: there will be no other supervisor.
  void Abandon(const std::string& why);
  size_t size() const;

 private:
  enum class State : uint8_t { kWatching, kBackingOff, kStopped };
  struct Child {
    ChildSpec spec;
    RestartDecision decision;
    caf::actor actor;
    uint64_t incarnation = 1;
    State state = State::kWatching;
    bool doomed = false;                   // it is being removed, or is to be
    std::function<void()> gone = nullptr;  // called then
    caf::actor_id watched_by = 0;          // the supervisor that monitors `actor`
  };
  void Insert(ChildSpec spec, caf::actor first);
  // Null when there is none. The child stays where it is until the supervisor's turn forgets it.
  Child* Find(uint64_t number);
  Child* Find(const std::string& name, uint64_t* number);
  void SetActor(uint64_t number, Child* child, caf::actor actor);
  void Monitor(caf::event_based_actor* self, Child* child);
  void Forget(uint64_t number);
  void Start(caf::event_based_actor* self, uint64_t number, Child* child);

  const std::shared_ptr<Directory> directory_;
  mutable std::mutex mu_;  // guards the maps, and `doomed`; the rest of a child belongs to the supervisor's turn
  std::map<uint64_t, Child> children_;  // in the order in which they came
  absl::flat_hash_map<std::string, uint64_t> by_name_;
  absl::flat_hash_map<caf::actor_id, uint64_t> by_actor_;
  uint64_t last_ = 0;
};

// A supervisor of these children, which run already. `died` is called when it ends although nobody
// told it to, on the thread on which it ended; may be empty.
caf::actor SpawnSupervisor(caf::actor_system& system, std::shared_ptr<Children> children,
                           std::function<void()> died = nullptr);

// The supervisor at the root, which the runtime keeps alive.
//
// Thread rule: all methods are thread safe.
class RootSupervisor : public std::enable_shared_from_this<RootSupervisor> {
 public:
  RootSupervisor(std::shared_ptr<Children> children, const RestartPolicy& policy)
      : children_(std::move(children)), decision_(policy) {}
  // `system` lives until the supervisor that End gives has ended.
  void Start(caf::actor_system& system);
  // The one that is alive, or is about to be replaced; null when it died too often, and after End.
  caf::actor actor() const;
  // From now on none is spawned. The last one, which the caller has to end; may be null.
  caf::actor End();
  const std::shared_ptr<Children>& children() const { return children_; }

 private:
  void Died(caf::actor_system& system);
  caf::actor Spawn(caf::actor_system& system);

  const std::shared_ptr<Children> children_;
  mutable std::mutex mu_;
  RestartDecision decision_;
  caf::actor actor_;
  bool over_ = false;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SUPERVISION_SUPERVISOR_H_
