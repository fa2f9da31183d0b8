// The tasks that other processes are: what net/ tells a runtime of them, and what it tells net/.
//
// A runtime is one task or more (RuntimeOptions.tasks), and may know the names of others. Sessions
// place nodes on all of them. Whoever connects processes says which of the others are there:
//
//   auto runtime = *StartRuntimeIn(system, {.tasks = {me}}, {.remote_tasks = others, .incarnation = mine});
//   ... each process hands WorkerOf(*runtime, me), its name and its incarnation to the others ...
//   TaskCame(*runtime, {name, incarnation, worker});        // another one is there
//   TaskWent(*runtime, name, incarnation, Unavailable(...));  // and is not there any more
//
//   state (of one remote task)  event                                       action                             next
//   absent   TaskCame                                        1 sessions ask it for its devices    there
//   there    TaskCame, the same incarnation and worker       2 nothing                            there
//   there    TaskCame, another incarnation or worker         3 as 4, then as 1                    there
//   there    TaskWent, the same incarnation; LeaveCluster    4 steps with a part there end; signatures with a part there are
//                                                              compiled anew; what the task has here as a master ends: its
//                                                              steps, its graphs, its sessions' own state      absent
//   there    the worker's actor ends (a death there, or the connection's)
//                                                            5 as 4, except for what it has here as a master  absent
//   any      TaskWent, another incarnation                   6 nothing                            as before
//
// A worker that dies is restarted in its process, which stays the same incarnation: its runtime
// tells of the next one (WatchWorkers), and whoever connects processes calls TaskCame with that.
// Both ends are to be told before one of them runs steps on the other.
//
// Thread rule: all functions may be called from any thread.
//
// Tests of the edges, tests/remote/tasks_test.cc:
//   1, 2, 6  edges_1_and_2_and_6_a_task_that_comes_is_there_once
//   3        edge_3_a_task_that_comes_anew_has_gone_before
//   4        edge_4_a_task_that_went_is_down_for_the_reason_given
//   5        edge_5_a_worker_that_ends_is_down_until_the_task_comes_again
#ifndef TROUPE_ACTORS_RUNTIME_REMOTE_TASKS_H_
#define TROUPE_ACTORS_RUNTIME_REMOTE_TASKS_H_

#include <caf/all.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/supervision/supervisor.h"
#include "troupe/actors.h"

namespace troupe {

struct RemoteTask {
  std::string name;          // full
  uint64_t incarnation = 0;  // of its process; not 0
  caf::actor worker;         // as WorkerOf gives it there
};

// How a runtime stands among the processes of a cluster.
struct ClusterOptions {
  std::vector<std::string> remote_tasks;  // full names; none of them is one of the runtime's own
  uint64_t incarnation = 0;               // of this process, as the others know it; 0: one by chance
  // Tensors pass between this process and others of its host by way of memory that both can read.
  bool share_memory = true;
};

// As StartRuntimeIn of troupe/actors.h, for a process of a cluster. INVALID_ARGUMENT also for names
// of tasks that are none.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        const ClusterOptions& cluster);

void TaskCame(Runtime& runtime, RemoteTask task);
// `why`: what the steps that had a part there are told, and who asks for the task from now on;
// CANCELLED, it has stopped by itself, is UNAVAILABLE to them.
void TaskWent(Runtime& runtime, const std::string& task, uint64_t incarnation, const absl::Status& why);
// Ends all that other processes have here, and forgets them. TaskCame does nothing afterwards.
void LeaveCluster(Runtime& runtime);
// Whether LeaveCluster was called: the process's server was stopped, and does not come back. Never
// for a runtime of no cluster.
bool HasLeftCluster(const Runtime& runtime);

// The handle that other processes get of one of this runtime's own tasks. Null while it is being
// restarted, and for a task that the runtime is not.
caf::actor WorkerOf(const Runtime& runtime, const std::string& task);
// `changed` is called with the next incarnation of a worker, on a thread of the actor system; it
// must not block. Null: nobody watches any more, and no call is under way on return.
void WatchWorkers(Runtime& runtime, std::function<void(const std::string& task, const caf::actor& worker)> changed);
// Of this process.
uint64_t IncarnationOf(const Runtime& runtime);
// Bytes of tensors that this process has sent to others in pieces, by the way they took.
struct SentBytes {
  uint64_t in_messages = 0, in_shared_memory = 0;
};
SentBytes TensorBytesSent(const Runtime& runtime);

// Lets the messages of the cast pass between processes. To be called before the actor system is
// made.
void AddCastMessageTypes(caf::actor_system_config* config);

// The remote tasks that a runtime knows, without the runtime.
class RemoteTasks : public std::enable_shared_from_this<RemoteTasks> {
 public:
  // What a task's going costs: `worker_only`, the process may be there still (edge 5).
  using Went = std::function<void(const RemoteTask& task, const absl::Status& why, bool worker_only)>;
  // `directory` has the workers that are there, by WorkerName. `went` is called on the thread that
  // tells of it, without a lock.
  RemoteTasks(const std::vector<std::string>& names, std::shared_ptr<Directory> directory, Went went,
              std::function<void(const RemoteTask&)> came = nullptr);
  const std::vector<std::string>& names() const { return names_; }
  void Came(RemoteTask task);
  void TaskGoes(const std::string& name, uint64_t incarnation, const absl::Status& why);
  // From now on none comes.
  void Leave(const absl::Status& why);
  // The runtime ends: `went` is not called any more, nor under way on return.
  void End();
  // The task as it is there now; without a worker when it is not.
  RemoteTask Find(const std::string& name) const;
  // Calls `send` with the task's worker: now, or when it is there again in the same incarnation.
  // Never when the process has gone, which has forgotten what it would be told.
  void WhenThere(const std::string& name, uint64_t incarnation, std::function<void(const caf::actor&)> send);
  // Whether this incarnation of any task's process is there.
  bool Lives(uint64_t incarnation) const;
  // This process has left, and does not come back.
  bool left() const {
    std::lock_guard<std::mutex> lock(mu_);
    return left_;
  }

 private:
  struct Entry {
    uint64_t incarnation = 0;  // 0: the process is not there
    caf::actor worker;
    std::vector<std::function<void(const caf::actor&)>> later = {};  // WhenThere
  };
  void WorkerEnds(const std::string& name, const caf::actor_addr& worker);
  void TellWent(const RemoteTask& task, const absl::Status& why, bool worker_only);

  const std::vector<std::string> names_;
  const std::shared_ptr<Directory> directory_;
  const Went went_;
  const std::function<void(const RemoteTask&)> came_;
  mutable std::mutex mu_;  // guards the values of tasks_, and left_
  std::map<std::string, Entry> tasks_;
  bool left_ = false;
  std::atomic<int> telling_{0};  // so many calls of `went_` are under way
  std::atomic<bool> ended_{false};
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_REMOTE_TASKS_H_
