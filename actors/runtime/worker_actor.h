// The worker of one task: tells its devices, and compiles the parts of graphs that sessions
// register for them. It shares the devices, which the runtime owns.
//
//   state  message                            action                                              reply
//   alive  list_devices                     1 nothing else                                        device_list
//   alive  register_graph {parts, ...}      2 fuse nodes, copy between memories, choose and       graph_registered
//                                             prepare kernels: one part for each device
//   alive  register_graph, a part cannot be compiled, or is for a device of others
//                                           3 stop there                                          the first error
//   alive  register_graph, only the graphs  4 fuse nodes, copy between memories                   their graphs
//   alive  exit                             5 questions in the mailbox are dropped; the supervisor none
//                                             ends the steps of the task, tells the sessions, and spawns the
//                                             next incarnation. What is worked on goes on until 7
//   alive  withdraw_graph                   6 the graph's work ends before its next part. If     by 3, if it has not
//                                             the session has ended: its state is removed, now    ended; of a request:
//                                             and when work for it ends. The session asks, and    done
//                                             does that itself if the worker is dead
//   (new)  (spawned again)                  7 as 6 for what the one before worked on: the         ABORTED: who waits
//                                             sessions of this process have noted its death,      is in another one
//                                             and answered who waited
//
//   alive  link_graph, drop_graph, run_parts, part_letter, settle_step, parts_done, step_letter
//                                           8 hand it to the steps that several processes       as
//                                             run together                                        remote_steps.h says
//   alive  to_container, and a message for a container
//                                           9 hand it to the container of that device            the container's
//   alive  actor_failed of another process 10 tell the sessions, as of an actor here             none
//
// A reply goes to the sender. A registered graph has a handle, which is never given again while the
// runtime lives; the graph lives as long as somebody has a share of it.
//
// It supervises the actors of the task's devices and of their containers
// (supervision/supervisor.h). When the worker dies, they live on; its next incarnation watches them
// again, and restarts those that have died meanwhile. So the devices keep their incarnations.
//
// Each graph is worked on by a thread of its own (threads/aside.h), so that one session does not
// wait for another's kernels to be made. What another process sends for a step is taken where it
// comes, in the network's thread (threads/quick_actor.h). Blocks: never. Owner: the supervisor,
// which restarts it. Dies: with the runtime.
//
// Thread rule: const methods of Worker, and all of RegisteredGraphs, are thread safe.
//
// Tests of the edges, tests/cast/session_test.cc:
//   1           worker_edge_1_a_task_tells_its_devices
//   2, 3, 4     the_worker_compiles_for_its_own_devices_only
//   5           workers_edge_5_a_call_that_the_worker_took_with_it_is_answered
// and tests/cast/withdrawn_graphs_test.cc:
//   6           worker_edge_6_work_for_which_nobody_waits_ends
//   6           worker_edge_6_nothing_is_left_of_a_session_that_has_ended
//   6           worker_edge_6_the_end_of_a_session_is_not_lost_with_its_worker
//   7           worker_edge_7_what_a_dead_worker_worked_on_ends
// and tests/remote/steps_test.cc:
//   8           edges_1_and_3_a_step_runs_on_two_processes
//   10          a_device_elsewhere_that_dies_ends_its_steps
// and tests/remote/threads_test.cc:
//   9           state_elsewhere_is_reset_saved_and_restored
#ifndef TROUPE_ACTORS_RUNTIME_WORKER_ACTOR_H_
#define TROUPE_ACTORS_RUNTIME_WORKER_ACTOR_H_

#include <caf/all.hpp>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "actors/threads/aside.h"
#include "actors/executor/compiled_part.h"
#include "actors/supervision/supervisor.h"
#include "actors/wire/graph_messages.h"
#include "troupe/runtime.h"

namespace troupe {

// In the runtime's directory.
std::string WorkerName(std::string_view task);

// The parts of one graph on one task.
class RegisteredGraph {
 public:
  RegisteredGraph(uint64_t handle, std::vector<std::shared_ptr<const CompiledPart>> parts)
      : handle(handle), parts(std::move(parts)) {}
  const uint64_t handle;
  const std::vector<std::shared_ptr<const CompiledPart>> parts;
};

// The graphs that are registered at one task, by handle. It outlives the worker's incarnations.
class RegisteredGraphs {
 public:
  std::shared_ptr<const RegisteredGraph> Add(std::vector<std::shared_ptr<const CompiledPart>> parts);
  // Null when nobody has a share of it any more, or there never was one.
  std::shared_ptr<const RegisteredGraph> Find(uint64_t handle) const;
  size_t size() const;

 private:
  mutable std::mutex mu_;
  std::map<uint64_t, std::weak_ptr<const RegisteredGraph>> graphs_;
  uint64_t last_ = 0;
  size_t look_through_ = 64;  // at this size those that are gone are dropped
};

// The graphs that are worked on at one task. It outlives the worker's incarnations.
//
// Thread rule: all methods are thread safe.
class GraphsInWork {
 public:
  // One graph, until it has been answered.
  struct Job {
    std::string session;
    int64_t compile = 0;
    std::atomic<bool> withdrawn{false};
    std::atomic<bool> died{false};  // set before `withdrawn`: the worker that was asked has died
    bool session_ended = false;     // guarded by the list's lock
    std::shared_ptr<void> under_way;

    // OK while the work is to go on.
    absl::Status Wanted() const;
  };
  std::shared_ptr<Job> Begin(const register_graph& request);
  // Returns whether its session has ended meanwhile, so that what the work made is nobody's.
  bool End(const Job& job);
  void Withdraw(const withdraw_graph& message);
  void WithdrawAll();
  // False when there still is some after that time, or one that was begun has not been destroyed.
  bool WaitUntilNone(std::chrono::milliseconds at_most) { return under_way_->WaitUntilNone(at_most); }
  // For other work aside that is to be waited for.
  const std::shared_ptr<UnderWay>& under_way() const { return under_way_; }

 private:
  std::mutex mu_;
  std::vector<std::shared_ptr<Job>> jobs_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
};

// The logic of the worker, without CAF.
class Worker {
 public:
  struct OneDevice {
    std::shared_ptr<Device> device;
    const std::atomic<uint64_t>* incarnation = nullptr;  // lives as long as the worker's actor
  };
  Worker(std::string task, std::vector<OneDevice> devices, std::shared_ptr<RegisteredGraphs> graphs,
         std::shared_ptr<GraphsInWork> in_work)
      : task_(std::move(task)),
        devices_(std::move(devices)),
        graphs_(std::move(graphs)),
        in_work_(std::move(in_work)) {}
  // Without the worker's incarnation.
  device_list Devices(const list_devices& question) const;
  // `work` is that of in_work(), which has ended when this returns.
  graph_registered Register(const register_graph& request, const GraphsInWork::Job& work) const;
  void Withdraw(const withdraw_graph& message) const;
  const std::string& task() const { return task_; }
  GraphsInWork* in_work() const { return in_work_.get(); }

 private:
  absl::Status Register(const register_graph& request, const GraphsInWork::Job& work, graph_registered* answer) const;
  // The named state that a session has on the task's devices.
  void ClearStateOf(const std::string& session) const;
  std::shared_ptr<Device> Find(const std::string& name) const;

  const std::string task_;
  const std::vector<OneDevice> devices_;
  const std::shared_ptr<RegisteredGraphs> graphs_;
  const std::shared_ptr<GraphsInWork> in_work_;
};

// `aside`: graphs are worked on by threads of their own; otherwise in the actor's turn.
// `children`: the actors of the devices and of their containers, which the worker takes over.
// `runtime`: whose port it is for other processes; null: it is none.
caf::actor SpawnWorker(caf::actor_system& system, std::shared_ptr<const Worker> worker, uint64_t incarnation,
                       std::shared_ptr<Children> children, bool aside, Runtime::Impl* runtime = nullptr);

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_WORKER_ACTOR_H_
