// The implementation of a Runtime. Uses CAF types, which troupe/runtime.h does not.
//
// Thread rule: the members are set before the runtime is shared and do not change until it ends,
// except the incarnations, what the supervisor sets, and what a mutex guards: `mu` to_session,
// `worker_mu` worker_changed.
#ifndef TROUPE_ACTORS_RUNTIME_RUNTIME_IMPL_H_
#define TROUPE_ACTORS_RUNTIME_RUNTIME_IMPL_H_

#include <caf/all.hpp>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/watch/stall_report.h"
#include "actors/watch/step_clock.h"
#include "actors/supervision/supervisor.h"
#include "actors/threads/turn_threads.h"
#include "actors/runtime/worker_actor.h"
#include "troupe/actors.h"
#include "troupe/device.h"

namespace troupe {

class RemoteSteps;
class RemoteTasks;
class StateActors;
struct ClusterOptions;

// Keeps an actor system from ending while this object lives, as a running actor would. May be
// destroyed on any thread.
struct RunningIn {
  caf::actor_system* system = nullptr;
  ~RunningIn();
};

struct Runtime::Impl {
  // Set for a runtime in the caller's actor system: the runtime may be ended by another thread, and
  // the caller cannot know when that is done. Destroyed last.
  RunningIn running_in;
  RuntimeOptions options;
  // The actor system: the runtime's own, or the caller's. The runtime's own is destroyed after all
  // that uses it.
  std::unique_ptr<caf::actor_system_config> config;
  std::unique_ptr<caf::actor_system> own_system;
  caf::actor_system* system = nullptr;
  int process = 0;  // which one made it (process.h)
  // Long work has threads of its own. Not with a clock of a test's, whose scheduler has all of it
  // in its turns.
  bool aside = true;
  std::shared_ptr<ComputeThreads> compute;  // of all devices
  std::unique_ptr<TurnThreads> turns;       // where executors run that no lane has; null: under the scheduler
  std::shared_ptr<StepClock> clock;         // of deadlines
  std::shared_ptr<Allocator> allocator;     // set when there is a limit; the devices have shares
  std::vector<std::shared_ptr<Device>> devices;
  // The incarnations of the devices, by their place in `devices`: one more with each death of a
  // device's actor. Edges between parts name that of the sending device; sessions are told.
  std::deque<std::atomic<uint64_t>> incarnations;
  // The living actors, by the names that supervisor.h draws.
  std::shared_ptr<Directory> directory;
  CastPolicies policies;
  std::shared_ptr<RootSupervisor> root;
  struct Task {
    std::string name;
    // The latest incarnation of its worker. Set by the supervisor, and read when that has ended.
    caf::actor worker;
    // These outlive it.
    std::shared_ptr<Children> children;
    std::shared_ptr<RegisteredGraphs> graphs;
    std::shared_ptr<GraphsInWork> in_work;
  };
  std::deque<Task> tasks;  // in the order of their devices
  // The tasks that other processes are, and what this one is for them (remote_tasks.h). Without a
  // cluster there are none.
  std::shared_ptr<RemoteTasks> remote;
  std::shared_ptr<RemoteSteps> remote_steps;
  std::weak_ptr<Runtime> self;
  uint64_t incarnation = 0;  // of this process, as the others of its cluster know it
  bool in_cluster = false;
  // Hears of the next incarnation of a worker (WatchWorkers of remote_tasks.h); may be empty.
  std::mutex worker_mu;
  std::function<void(const std::string& task, const caf::actor& worker)> worker_changed;
  // The actors of resources, by device (state/state_actors.h).
  std::vector<std::shared_ptr<StateActors>> states;

  // Sends a message to a session's actor, or to the next one when there is none now. By session;
  // each may be called once more while its session goes.
  std::mutex mu;
  std::map<const void*, std::function<void(caf::mailbox_element_ptr)>> to_session;
  // Held by a call that restores state, which other threads of the program may wait for.
  std::mutex restoring;
  // Tells all sessions that a worker, device or container actor died, until each has noted it.
  void TellFailure(const actor_failed& failure);
  // So many times a session has been told, and has not noted it yet.
  const std::shared_ptr<std::atomic<int64_t>> news = std::make_shared<std::atomic<int64_t>>(0);
  // Asks the steps that run what they wait for and who holds memory; `answered` is called for each
  // when all of its parts have answered. The device actors, which may end after this, share it.
  using Questions = std::vector<std::shared_ptr<StepQuestion>>;
  using Answered = std::function<void(const std::shared_ptr<StepQuestion>&)>;
  struct RunningSteps {
    std::mutex mu;
    std::map<const void*, std::function<Questions(const Answered&)>> ask;  // by session
    Questions Ask(const Answered& answered);
  };
  const std::shared_ptr<RunningSteps> steps = std::make_shared<RunningSteps>();

  // Ends the actors and the threads, then the rest. A compute thread may still run a callback in
  // the last turn of a step, or a kernel whose executor was killed, and both use all of this. After
  // one second a background thread waits for them and then destroys the rest, with the actor
  // system.
  static void End(std::unique_ptr<Impl> impl);
};

// As StartRuntimeIn of troupe/actors.h, but without threads for steps and deadlines: executors run
// under the system's scheduler, and `clock` decides what is due. For tests, which control both.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        std::shared_ptr<StepClock> clock,
                                                        const CastPolicies& policies = {});
// The same for a process of a cluster (remote_tasks.h); `clock` may be null.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        const ClusterOptions& cluster, std::shared_ptr<StepClock> clock,
                                                        const CastPolicies& policies = {});
// As Runtime::Start, with other policies than the usual ones.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntime(const RuntimeOptions& options, const CastPolicies& policies);
// As Runtime::Start, for a process of a cluster, in an actor system of the runtime's own that is
// made with this configuration: of two threads and CAF's middleman, say.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntime(const RuntimeOptions& options, const ClusterOptions& cluster,
                                                      std::unique_ptr<caf::actor_system_config> config);

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_RUNTIME_IMPL_H_
