// The session actor (master): owns the graph and the signatures of one session.
//
//   state   message                      action                                                                reply
//   open    extend_request {graph}     1 queue; in its turn import into the graph, all or nothing              extend_reply
//   open    compile_request, known     2 answer at once                                                        compile_reply {signature}
//   open    compile_request, new       3 queue; in its turn prune, fold, merge, place, partition; register_graph to the worker of each
//                                        task that has a part                                                  by 6, or the first error
//   open    compile_request, new, which another call waits for already
//                                      4 wait with it                                                          as the other
//   open    compile_request, all workers are down
//                                      5 answer at once                                                        UNAVAILABLE, or what one died of
//   open    graph_registered           6 when all tasks have answered: keep the signature, for all who wait for it
//                                                                                                              compile_reply, or the first error
//   open    run_request {feeds, ...}   7 as 2 to 6, then run asynchronously; for users' actors.
//                                        step_answered tells this actor, which replies                         run_reply {status, outputs, metadata}
//   open    (spawned again)            8 take the calls that came meanwhile                                    as they say
//   open    close_request              9 refuse what comes, abort what runs, answer who waits; closed from here on
//                                                                                                              close_reply
//   closed  extend_request, compile_request, run_request, graph_registered
//                                     10 nothing is done                                                       CANCELLED
//   closed  close_request             11 nothing is left to do                                                 close_reply
//   open    exit                      12 calls that wait for an answer get one, requests' steps end; the       ABORTED
//                                        runtime's supervisor spawns the next incarnation, which is told again
//                                        of deaths that this one has not noted
//   open    exit, too often           13 as 9; closed from here on                                             FAILED_PRECONDITION
//   open    compile_request, in its turn, while the devices of a task are not known
//                                     14 list_devices to its worker; the compile waits. Those of all tasks are asked for when
//                                        the actor begins, and again after an actor of the task has died
//   open    device_list               15 take note; the compile that waits begins
//   open    (the worker of a task that was asked dies)
//                                     16 the compile that waits for its devices begins; one that waits for its parts is answered
//                                                                                                              ABORTED
//   any     actor_failed              18 abort the steps that have a part there; signatures whose edges name an incarnation
//                                        of a device that is over are compiled anew                            failure_noted
//   any     withdraw_compile          17 its request is answered; the compile ends if nobody else waits for it:  CANCELLED
//                                        withdraw_graph to the workers that have not answered
//
// All that the session is lies in its SessionMaster: graph, signatures, steps and the queue of
// work. So the actor may die and be spawned again. A call that is made while there is no actor
// waits for the next one; an Extend that is being imported gets its true answer. A compile that is
// under way ends, since nobody waits for it any more. Steps do not hear of it, except those that
// the actor runs for run_request.
//
// Queued work (1, 3) runs on a thread of its own, one piece at a time in the order of the messages;
// the actor answers everything else meanwhile (threads/aside.h). A compile for which no call waits
// any more ends before its next pass, or at the workers before their next part. So it does when the
// session ends (9, 13) or its actor dies (12).
//
// Blocks: never. Run, RunAsync and partial runs of a known signature do not involve this actor:
// their callers lease executors from the signature directly. Only misses and run_request come here.
// Owner: the Session object; the runtime's supervisor restarts it. Dies: with the Session object.
//
// Tests of the edges, tests/cast/session_test.cc:
//   1           edge_1_extend_is_all_or_nothing
//   2, 3, 4, 6  edges_2_and_3_and_4_and_6_a_signature_is_compiled_once_by_the_worker
//   3           edge_3_an_error_of_a_pass_answers_at_once
//   1, 3        edges_1_and_3_work_is_done_in_the_order_in_which_it_came
//   5           edge_5_while_the_worker_is_down_a_compile_is_refused
//   7           edge_7_a_users_actor_runs_steps
//   8           edge_8_the_next_incarnation_takes_the_calls_that_came_meanwhile
//   8, 12       edges_8_and_12_a_compile_ends_with_the_actor
//   9, 10, 11   edges_9_to_11_close_ends_what_runs_and_refuses_what_comes
//   12          edge_12_whoever_waits_for_a_dying_session_actor_gets_an_answer
//   12          edge_12_steps_outlive_the_session_actor
//   13          edge_13_an_actor_that_dies_too_often_ends_the_session
//   14, 15, 16  edges_14_to_16_devices_are_asked_for_when_they_may_have_changed
//   17          edge_17_a_compile_for_which_nobody_waits_ends
//   18          edge_18_a_death_is_told_in_a_message
//   12, 18      edges_12_and_18_a_death_is_told_again_when_the_actor_dies_with_the_news
//   18          edge_18_a_session_that_has_ended_holds_up_nobody
//   18          edge_18_a_session_that_is_made_while_the_worker_dies_is_told
// and tests/cast/tasks_test.cc:
//   3, 6, 16    a_signature_is_registered_once_for_each_task
// and tests/cast/withdrawn_graphs_test.cc:
//   9, 12, 17   edges_9_and_12_and_17_workers_are_told_that_nobody_waits
#ifndef TROUPE_ACTORS_SESSION_SESSION_MASTER_H_
#define TROUPE_ACTORS_SESSION_SESSION_MASTER_H_

#include <caf/all.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/threads/aside.h"
#include "actors/messages/reply.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/signature/signature.h"
#include "actors/signature/signature_cache.h"
#include "actors/watch/step_watch.h"
#include "actors/session/task_directory.h"
#include "actors/wire/graph_messages.h"
#include "actors/wire/session_messages.h"
#include "graph/core/hash_map.h"
#include "graph/passes/session_groups.h"
#include "graph/passes/still_wanted.h"

namespace troupe {

// The state that one session owns on the runtime's devices: variables, random streams, counters. It
// is cleared when the session ends, and once more with the session's last signature, since a step
// that still ran then may have made new state.
class SessionState {
 public:
  SessionState(std::shared_ptr<Runtime> runtime, std::string id) : runtime_(std::move(runtime)), id_(std::move(id)) {}
  ~SessionState() { Clear(); }
  void Clear();
  // It may have state at this task of another process from now on.
  void Touch(const std::string& task);
  Runtime* runtime() const { return runtime_.get(); }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const std::string id_;
  std::mutex mu_;
  std::set<std::string> touched_;
};

// The logic of the session actor, without CAF: its calls and its queue of work (session_master.cc),
// those that wait for a signature (session_waiting.cc), how that is compiled (session_compile.cc),
// by which passes (session_passes.cc), and by which workers (session_workers.cc).
//
// Thread rule: all methods are thread safe. The graph belongs to the piece of work that runs; only
// one runs at a time.
class SessionMaster : public std::enable_shared_from_this<SessionMaster> {
 public:
  SessionMaster(std::shared_ptr<Runtime> runtime, SessionOptions options, std::string id,
                std::shared_ptr<std::atomic<bool>> closed);

  // The session's actor: from its first turn (Attach) to its last (Detach), in which the calls that
  // wait are answered. Null while it is being restarted. After its last turn an actor is not
  // attached any more.
  caf::actor actor() const;
  void Attach(const caf::actor& actor);
  void Detach(const caf::actor_addr& actor);
  // Sends a request to the session's actor, or to the next one when there is none now. After the
  // end it is answered at once if there is no actor.
  void Send(caf::mailbox_element_ptr request);
  // Answers a request that nobody handles.
  static void Refuse(caf::mailbox_element& request, const absl::Status& status);
  // Ends the session at once, and answers who waits in the actor's turn, or aside when there is no
  // actor. Under a deterministic scheduler all of it is done in the turn.
  void Close();
  // Ends the session because its actor died too often.
  void GiveUp(const std::string& why);
  // The same when nobody restarts it any more, if it is down.
  void Abandon(const std::string& why);

  // In the actor's turn.
  void Extend(extend_request request, Reply<extend_reply> reply);
  void Compile(compile_request request, const caf::actor_addr& asker, Reply<compile_reply> reply);
  void Withdraw(const caf::actor_addr& asker, int64_t number);
  // Fails the steps that run now; the session stays usable.
  void AbortAll(const absl::Status& status);
  // The same for the steps that an actor's death concerns. Signatures whose edges name an
  // incarnation of a device that is over leave the cache.
  void OnFailure(const actor_failed& failure);
  // What a worker has answered.
  void DevicesCame(const device_list& answer);
  void GraphRegistered(graph_registered answer);
  // Asks for the devices that are not known yet.
  void AskForDevices();
  // Ends the session, from any thread and without a turn of its actor: steps end with `steps`,
  // calls with `calls`. AnswerAll then answers the calls that wait, on a thread on which users'
  // callbacks may run. The first end counts.
  void End(const absl::Status& steps, const absl::Status& calls);
  void AnswerAll();
  bool closed() const { return closed_->load(); }
  // Cancelled when the session ends, for calls that wait for somebody else than the session.
  const CancellationToken& ended() const { return ended_; }
  // What calls are told; OK while the session is open.
  absl::Status end() const {
    std::lock_guard<std::mutex> lock(mu_);
    return end_;
  }
  // Waits until no work is under way. False when some is after that time.
  bool WaitForWork(std::chrono::milliseconds at_most) { return under_way_->WaitUntilNone(at_most); }
  // Once, by who does not wait for it: the process's end waits, since it may be the runtime's last
  // holder.
  void WaitForWorkAtExit() const noexcept { until_exit_.Take(); }
  const std::shared_ptr<StepWatch>& shared_watch() const { return watch_; }
  caf::actor_system& system() const { return *runtime_->impl()->system; }
  bool wire_messages() const { return options_.wire_messages; }
  const std::shared_ptr<SignatureCache>& cache() const { return cache_; }
  // The number of calls that wait for a signature.
  size_t calls_waiting() const {
    std::lock_guard<std::mutex> lock(mu_);
    return requests_.size();
  }
  // A signature that a message names. Null when nobody has it any more, or there never was one.
  std::shared_ptr<Signature> Find(uint64_t number) const;
  // The deadline of a call that begins now.
  Deadline DeadlineOf(const RunOptions& options) const;
  // Where steps that update variables or fill queues wait for a snapshot.
  StepGate& gate() const { return *gate_; }
  // The devices that other processes have, as these told last, with the names of their tasks.
  std::vector<std::pair<std::string, std::string>> RemoteDevices() const;
  // The signatures that somebody holds.
  std::vector<std::shared_ptr<Signature>> Living() const;
  // Asks every step that runs what it waits for.
  std::vector<Signature::Asked> Ask(const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered) const;

 private:
  using Answer = absl::StatusOr<std::shared_ptr<Signature>>;
  struct ExtendCall {
    extend_request asked;
    Reply<extend_reply> reply;
  };
  struct CompileCall {
    compile_request asked;
    caf::actor_addr asker;
    std::string key;
    std::vector<GraphValue> graphs;  // that were made for it
    Reply<compile_reply> reply;
    void Tell(const Answer& answer);
  };
  using Calls = std::vector<std::shared_ptr<CompileCall>>;
  // Calls that wait for one compile. Others of the key join them; not those that ask for the parts'
  // graphs.
  struct Waiting {
    std::string key;
    std::map<int64_t, std::shared_ptr<CompileCall>> calls;  // in the order in which they came
  };
  struct Work {
    std::shared_ptr<ExtendCall> extend;    // either
    std::shared_ptr<CompileCall> compile;  // or
    int64_t waiting = 0;                   // who wait for the compile
  };
  // A signature's parts on their way to the workers.
  struct Registering {
    std::shared_ptr<void> under_way;  // goes last
    std::shared_ptr<SessionMaster> master;
    std::shared_ptr<Signature> signature;
    std::shared_ptr<CompileCall> compile;  // the first that asked
    int64_t waiting = 0;
    // One message for each task that has a part, in the order of the parts.
    std::vector<uint32_t> tasks;
    std::vector<register_graph> messages;
    std::vector<std::optional<graph_registered>> answers;
    // Of those that other processes have: what their parts take.
    struct Remote {
      std::vector<std::string> devices;
      std::vector<uint32_t> arguments;
      uint64_t incarnation = 0;  // of the process that was asked
    };
    std::vector<Remote> remote;  // as `tasks`
    bool linked = false;         // the signature has the graphs
    std::vector<uint32_t> Unanswered() const;
    ~Registering() {
      if (!linked) master->DropRemote(*this);
      master->NextWork();
    }
  };

  // An error when the session has ended.
  absl::Status Queue(Work work);
  void StartWork();
  // Does the first piece of the queue.
  std::function<void()> DoNext();
  // Ends one piece of work and begins the next.
  void NextWork();
  void DoExtend(const Work& work);
  void DoCompile(const Work& work);
  // True when the work waits for the devices of a task.
  bool WaitForDevices(const Work& work);
  // Begins the work that has waited.
  void GoOn();
  // In the place of the parts, when all workers have answered.
  void Finish(const std::shared_ptr<Registering>& registering);
  void FinishExport(const Registering& registering);
  // Fails what waits for this task, whose worker is gone.
  void FailRegistering(const std::string& task);
  // Prunes, folds, merges, places and partitions. CANCELLED between two passes when the compile is
  // not wanted any more.
  absl::Status Partition(const compile_request& asked, const std::function<absl::Status()>& wanted,
                         Registering* result);
  // The reason why no call wants this compile any more; OK while one does.
  absl::Status Wanted(int64_t waiting);
  // Completes the signature with its compiled parts, and keeps it unless it is stale by now.
  Answer Register(const Registering& registering);
  void Compile(std::shared_ptr<CompileCall> call);
  static void AnswerCalls(const std::vector<std::shared_ptr<ExtendCall>>& extends, const Calls& compiles,
                          const absl::Status& status);
  void AnswerAside();
  void AnswerThose(int64_t waiting, const Answer& answer);
  // Has the call wait for the compile work->waiting: true when it is a new one, which the caller
  // has to begin. Throws std::bad_alloc; the call does not wait then.
  bool WaitLocked(const std::shared_ptr<CompileCall>& call, Work* work);
  // The caller has to answer the calls that it takes. Without memory for their list it throws, and
  // nothing is taken; so does TakeAllLocked.
  Calls TakeLocked(int64_t waiting);
  // The same into a list that has room.
  void TakeLocked(HashMap<int64_t, Waiting>::iterator it, Calls* calls);
  // All that wait: for an extend, and for a signature.
  void TakeAllLocked(std::vector<std::shared_ptr<ExtendCall>>* extends, Calls* compiles);
  // Sets the container of variables that belong to the session although their nodes have a shared
  // name.
  void ClaimVariables(Graph* graph);
  // OK when a worker is alive.
  absl::Status SomeWorker() const;
  // Tells these workers that nobody waits for the graph any more.
  void WithdrawGraph(const std::vector<uint32_t>& tasks, int64_t waiting);
  // Tells the worker of this task that the session has ended, or, if it is dead, what outlives it.
  void TellEnd(uint32_t task, withdraw_graph message);
  // Whether another process has the task.
  bool IsRemote(uint32_t task) const { return task >= runtime_->impl()->tasks.size(); }
  // Why the graph cannot be placed: a task that it asks for has not been there yet. OK: it is not
  // that.
  absl::Status MissingTask(const Graph& graph) const;
  // What of the signature other processes run, or null; and they are told of each other.
  absl::Status LinkRemote(const Registering& registering, Signature* signature);
  // Lets workers elsewhere drop what they have registered.
  void DropRemote(const Registering& registering);
  void DropRemote(uint32_t task, const graph_registered& answer);
  // Tells all workers that the session has ended, if one may work for it still.
  void WithdrawAllGraphs();
  // Sends a message to the worker, which answers to `from`. An error says why it is down, or why
  // the message cannot be sent.
  template <class Message>
  absl::Status ToWorker(uint32_t task, const caf::actor& from, Message message);

  const UntilExitOnceTold until_exit_;  // first: it goes last, when nothing of the session is left
  const std::shared_ptr<Runtime> runtime_;
  const SessionOptions options_;
  const std::string id_;
  const std::shared_ptr<SessionState> state_;
  const std::shared_ptr<std::atomic<bool>> closed_;
  CancellationToken ended_;
  const std::shared_ptr<StepWatch> watch_;
  const std::shared_ptr<StepGate> gate_ = std::make_shared<StepGate>(closed_, watch_);
  const std::shared_ptr<SignatureCache> cache_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
  // Of the work that is under way.
  Graph graph_;
  SessionGroups groups_{&graph_};                       // which of its stateful nodes must share a device
  HashMap<std::string, std::string> stateful_devices_;  // a stateful node stays where it was first put
  HashMap<std::string, bool> own_names_;  // by shared name: it is the session's own; stays as it was first found

  mutable std::mutex mu_;
  absl::Status end_;  // what calls are told; OK while the session is open
  caf::actor actor_;
  caf::actor_addr detached_;                    // the last that was
  std::vector<caf::mailbox_element_ptr> held_;  // while there is no actor
  std::deque<Work> queue_;
  bool working_ = false;
  HashMap<int64_t, Waiting> waiting_;  // by compile
  // Which compile a request waits for, and its place among those calls: by asker and number.
  std::map<std::pair<caf::actor_addr, int64_t>, std::pair<int64_t, int64_t>> requests_;
  HashMap<std::string, int64_t> joinable_;
  std::map<int64_t, std::shared_ptr<Registering>> registering_;  // by compile: what workers are asked
  bool lost_ = false;                                            // a worker may work on what nobody waits for
  TaskDirectory tasks_;
  std::optional<Work> parked_;  // the work that waits for devices
  int64_t last_waiting_ = 0, last_call_ = 0;
  size_t withdrawn_ = 0;  // so much of the queue's work nobody waits for
  // Every signature that is alive, whether or not the cache keeps it.
  std::vector<std::weak_ptr<Signature>> signatures_;
  uint64_t last_signature_ = 0;
  size_t look_through_ = 64;  // at this size the dead are dropped from the list
};

caf::actor SpawnSession(caf::actor_system& system, std::shared_ptr<SessionMaster> master);

// Adds the parts' graphs that came with a signature, if they were asked for.
void AddPartitionGraphs(const compile_reply& reply, proto::RunMetadata* metadata);

// The key of a signature in caches.
std::string SignatureKey(const Names& feeds, const Names& fetches, const Names& targets);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_SESSION_MASTER_H_
