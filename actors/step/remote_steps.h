// The steps that a runtime runs together with other processes: those of its own sessions that have
// parts elsewhere, and those of other masters that have parts here.
//
// The worker of each task is the port: it hands over the messages of wire/remote_messages.h. A step
// of another master runs as one of an ExecutorSet, whose signature consists of the parts here
// (remote_step.h).
//
//   state (of one step of another master)  event             action                                             next
//   unknown   part_letter                                 1 keep it, bounded                                 early
//   unknown, early  run_parts                             2 lease executors, begin, deliver what is early    running
//   unknown, early  run_parts for a graph that is not here, or of a master that is not
//                                                         3 drop what is early, parts_done with the error    over
//   early     a part_letter beyond the bound of all; so many other steps are early, too
//                                                         4 drop what it has; the step will fail. The oldest
//                                                           steps first, then that of the letter             lost
//   lost      run_parts                                   5 parts_done RESOURCE_EXHAUSTED                    over
//   running   part_letter                                 6 to its executor; abort_step: to all parts;
//                                                           argument: to all that take it                    running
//   running   the last part is done                       7 parts_done with results                          over
//   running   its master goes, or an actor here dies, or the worker goes of a task that it has edges with
//                                                         8 abort                                            running
//   over      part_letter, run_parts                      9 dropped                                          over
//   early, lost  its master goes; twice as many are early or lost  10 dropped                                unknown
//   over      a task went that it has edges with         11 part_failed: what it sent there may be lost      over
//
// A step that is over is remembered among the last of its master, so that what comes late is not
// kept. What an older one is sent counts as early, and is dropped by 10.
//
// A tensor that is too big for a message travels in pieces, and its message is handed on when the
// last one has come (freight_in.h). For a step that has not begun only its note is kept.
//
// A graph that a master has registered here lives until drop_graph, the end of its session, or that
// of its master, and as long as a step of it runs. So does the state that the session has of its
// own here, which goes with the last of its graphs and steps after the session's end.
//
// Thread rule: all methods are thread safe. The lock is held while messages are handed to
// executors, never while functions of users are called.
//
// Tests of the edges, tests/remote/steps_test.cc:
//   1, 2     edges_1_and_2_what_comes_before_its_step_is_kept
//   3        edge_3_a_step_of_an_unknown_graph_is_answered
//   4, 5     edges_4_and_5_what_comes_early_is_bounded
//   6, 7     edges_6_and_7_a_step_of_another_master_runs
//   8, 10    edges_8_and_10_nothing_is_left_of_a_master_that_went
//   9        edge_9_what_comes_after_the_end_is_dropped
// and tests/remote/remains_test.cc:
//   11       edge_11_what_a_part_sent_before_its_end_may_be_lost
#ifndef TROUPE_ACTORS_STEP_REMOTE_STEPS_H_
#define TROUPE_ACTORS_STEP_REMOTE_STEPS_H_

#include <caf/all.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/step/freight.h"
#include "actors/trace/clock_bounds.h"
#include "actors/wire/graph_messages.h"
#include "actors/wire/remote_messages.h"

namespace troupe {

class ExecutorSet;
class RegisteredGraph;
class RemoteStep;
class Signature;
class UpdateLog;

// What a session of another process has on the devices of this one; its own state goes with it.
struct RemoteSession {
  RemoteSession(std::string id, Runtime::Impl* runtime) : id(std::move(id)), runtime(runtime) {}
  ~RemoteSession() { Clear(); }
  RemoteSession(const RemoteSession&) = delete;
  RemoteSession& operator=(const RemoteSession&) = delete;
  void Clear() const;
  const std::string id;
  Runtime::Impl* const runtime;
};

// A graph that another master has registered at a task of this process.
struct RemoteGraph {
  std::shared_ptr<const RegisteredGraph> parts;
  std::shared_ptr<RemoteSession> session;
  std::string task;  // of this process
  // From link_graph on:
  std::shared_ptr<Signature> signature;
  std::vector<std::string> tasks;  // by number
  uint32_t number = 0;             // of `task`
};

// The bytes of the value that a letter brings, or of the words of an abort.
int64_t BytesOf(const part_letter& letter);

class RemoteSteps : public std::enable_shared_from_this<RemoteSteps> {
 public:
  struct Limits {
    size_t messages = size_t{1} << 16;  // that came early, for all steps together
    int64_t bytes = int64_t{1} << 30;   // of their tensors
    size_t steps = 4096;                // that have early messages, were lost, or are remembered as over
  };
  explicit RemoteSteps(Runtime::Impl* runtime);
  void set_limits(const Limits& limits) { limits_ = limits; }

  // For the worker of a task of this process. The graph is kept for its master; UNAVAILABLE when
  // that is not there.
  absl::Status Keep(const register_graph& request, const std::string& task,
                    std::shared_ptr<const RegisteredGraph> graph);
  void Link(const std::string& task, link_graph&& message);
  void Drop(const std::string& task, const drop_graph& message);
  // The session has ended.
  void Forget(const std::string& session);
  // `master`: who is answered.
  void Run(const std::string& task, run_parts&& message, const caf::actor& master);
  void Deliver(part_letter&& message);
  void Settle(const settle_step& message);
  void Done(parts_done&& message);
  void Tell(step_letter&& message);
  // Tensors that travel in pieces (freight_in.h, freight_out.h).
  void Announced(const std::string& task, freight_note&& note, const caf::strong_actor_ptr& from);
  void Arrived(const freight_piece& piece, const caf::strong_actor_ptr& from);
  void Gone(const freight_gone& message);
  Freight& freight() const { return *freight_; }

  // For the steps of this process's own sessions. Begin throws std::bad_alloc.
  void Begin(int64_t step, ExecutorSet* set);
  void End(int64_t step);

  // `worker_only`: the process may be there still.
  void TaskWent(const RemoteTask& task, const absl::Status& why, bool worker_only);
  // An actor of this process has died, which a worker's death is for all that came to its mailbox.
  void ActorFailed(const actor_failed& failure);
  // The runtime ends, when no step runs.
  void Close();

  // For RemoteStep that checks itself: what its updates have replaced, perhaps nothing, until the
  // master settles the step; and it is over.
  void KeepUpdates(uint64_t master, int64_t step, uint32_t task, std::shared_ptr<UpdateLog> updates);
  void Over(uint64_t master, int64_t step, uint32_t task);
  Runtime::Impl* runtime() const { return runtime_; }
  // Where the clock of another process stands, by all exchanges with it, of which this is the last
  // one (trace/clock_bounds.h).
  ClockBounds Exchanged(uint64_t process, int64_t sent, int64_t asked, int64_t answered, int64_t heard);
  size_t graphs() const;
  size_t unsettled() const;
  size_t early() const {
    std::lock_guard<std::mutex> lock(mu_);
    return early_.size();
  }
  int64_t early_bytes() const {
    std::lock_guard<std::mutex> lock(mu_);
    return early_bytes_;
  }

 private:
  using Key = std::tuple<uint64_t, int64_t, uint32_t>;  // master, step, task
  struct Early {
    std::vector<part_letter> letters;
    size_t notes = 0;  // that wait in freight_
    int64_t bytes = 0;
    absl::Status lost;  // why the step will fail
  };
  // A step that checks itself for NaN and infinities.
  struct Unsettled {
    std::shared_ptr<UpdateLog> updates;  // null: it runs
    bool settled = false;                // its master did not wait for its end
    bool undo = false;
  };
  struct Master {
    std::map<std::pair<std::string, uint64_t>, std::shared_ptr<RemoteGraph>> graphs;  // by task and handle
    std::map<std::string, std::shared_ptr<RemoteSession>> sessions;
    std::map<std::pair<int64_t, uint32_t>, Unsettled> unsettled;  // by step and task, from its begin
    // By step and task; what it was a step of, as long as that is there.
    std::map<std::pair<int64_t, uint32_t>, std::weak_ptr<const RemoteGraph>> over;
    std::deque<std::pair<int64_t, uint32_t>> over_in_order;
  };
  using Lost = std::vector<std::pair<int64_t, ExecutorSet*>>;  // own steps, and shares of their counts
  std::unique_lock<std::mutex> LockWithRoom(Lost* lost);
  void AnswerAside(Lost&& lost, const absl::Status& why);
  // Whether a master is there. What comes from another one is nobody's.
  bool IsThere(uint64_t master) const { return runtime_->remote->Lives(master); }
  absl::Status Start(const std::string& task, run_parts* message, const caf::actor& master, bool* forgotten);
  // The rest under the lock, but for Refuse: the step of a run_parts that is answered with an error
  // has ended.
  void Refuse(const Key& key);
  void Keep(const Key& key, part_letter&& letter);
  // What came early for a step is dropped, and the step will fail.
  void Lose(Early* early, const absl::Status& why);
  absl::Status TooMuch(const part_letter& letter) const;
  absl::Status TooManySteps() const;
  // Room for one message more, which has so many bytes. False: there is none, and `early` is lost.
  bool MakeRoom(const Key& key, Early* early, const part_letter& letter, int64_t bytes);
  Early* FindEarly(const Key& key);
  // What came in pieces: hands it on, or ends the step that it was for.
  void HandOn(FreightIn::Wholes&& wholes);
  void LoseWhole(FreightIn::Whole&& whole);
  void LostLetter(const FreightIn::Whole& whole);
  // Who may be sent a note's tensors: its step, and whether that has begun. False: nobody.
  bool IsAwaited(const freight_note& note, FreightIn::Key* key, bool* begun);
  std::vector<part_letter> TakeEarly(std::map<Key, Early>::iterator it);
  void DropEarly(const Key& key);
  void DeliverTo(RemoteStep* step, part_letter&& letter);
  void RememberOver(const Key& key, const std::shared_ptr<const RemoteGraph>& graph = nullptr) noexcept;
  // Tells the masters of steps that have ended here: what they sent to this task may be lost.
  void TellLost(const std::string& task, const absl::Status& why);
  // Calls `take` with the message; by the scheduler if this is the network's thread, unless it
  // `stays` there.
  template <class Message, class F>
  void OffTheLoop(bool stays, F take, Message&& message);

  Runtime::Impl* const runtime_;
  const std::shared_ptr<Freight> freight_;
  Limits limits_;
  mutable std::mutex mu_;
  std::map<int64_t, ExecutorSet*> own_;  // by step
  std::map<Key, std::shared_ptr<RemoteStep>> others_;
  std::map<uint64_t, Master> masters_;
  // Also of masters that went: a step that goes on has one.
  std::map<std::string, std::weak_ptr<RemoteSession>> sessions_;
  std::map<Key, Early> early_;
  std::deque<Key> early_in_order_;
  std::map<uint64_t, ClockBounds> clocks_;  // of processes that are there
  size_t early_messages_ = 0;
  int64_t early_bytes_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_REMOTE_STEPS_H_
