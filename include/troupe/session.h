// Session: runs parts of a graph, again and again.
//
//   const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = x * 3.0f;
//   auto session = *Session::Create();
//   absl::Status s = session->Extend(*root.graph());
//   std::vector<Tensor> out;
//   if (s.ok()) s = session->Run({{x, Tensor::Scalar(2.0f)}}, {y}, {}, &out);
//
// Feeds, fetches and targets are named by Outputs, Operations and Variables, or by text: {"x:0"}
// (troupe/names.h). Names may repeat in the fetches, and a feed that nothing needs is accepted.
// Errors: NOT_FOUND lists every unknown name; INVALID_ARGUMENT for a tensor fed twice, a value of
// the wrong type or shape, or a needed placeholder that is not fed (the message names it); a
// kernel's own error with the node's address. A failed step leaves the session usable.
//
// Results. The tensors that a step returns are the caller's own: nobody else reads or writes their
// bytes. A result that somebody else holds, too (a fetched constant, variable or feed, also behind
// an Identity or Reshape, or one tensor fetched twice) is therefore copied when the step has ended.
//
// State. A session's variables, random streams and counters are its own and end with it. Sessions
// of one runtime share the variables that name a container or a shared name, and all variables if
// they ask for that (SessionOptions.share_variables). A value that contradicts the type or shape of
// the variable's node is refused.
//
// Deadlines and tokens apply from the call on, compiling included. When the call has been answered,
// no further kernel of its step begins.
//
// The caller's thread. A blocking Run may compute on the caller's thread. Without deadline and
// token it does so for a step of the library's kernels, and for one with users' kernels that took
// at most 10 ms when it was last measured. With a deadline or token it does so only for a step of
// the library's kernels that took at most 1 ms with feeds at least as large in every dimension.
// While a kernel has the caller's thread, neither Close nor a deadline or token ends the call. So a
// call with a deadline or token may be late by one kernel, but only if the step's cost lies in the
// values of feeds or variables (iterations of a loop, a shape that is fed) or if the system has no
// thread left; the next such step runs elsewhere. A call without them is answered after Close when
// the kernel that runs has returned.
//
// Exceptions. An exception of a kernel, a shape function or another function of the user is the
// error of the step or call that met it; exceptions of callbacks are logged.
//
// The end. Close tells steps and compiles to end, answers every call, and waits for none of them.
// ~Session does the same, and waits for the session actor's end and for a compile under way (5 s at
// most), but not for steps. Callbacks of its steps may be called afterwards, so they must not refer
// to objects that are destroyed with the session. `on_stall` is not called afterwards: ~Session
// waits for a report that is being given. That of a session with a target waits until its node has
// heard of the end, which a callback of the session may delay: 1 s at most. In an actor's handler
// or a callback ~Session waits for nothing; the process's end waits for its actor and what that
// compiles, 10 s at most.
//
// A kernel's constructor that does not return delays the new signatures and Extends that were
// queued behind it. Calls with a deadline or token end by these, an Extend when the session is
// closed.
//
// Target. With SessionOptions.target the session stands in a server (troupe/server.h), which has
// its graph, its state, and runs its steps; this object asks it. What differs: a deadline is the
// server's, and the call is answered half a second later without it; a name that a step needs is
// looked up there, and so are files. Callbacks are called on a thread of an actor system that all
// such sessions of the process share. `runtime()` is theirs, and has no state of the session's.
// A server that ends, or has been silent for its lease, ends its sessions with UNAVAILABLE; a
// client that does so loses its sessions, and their steps end. References and tensors of 2 GiB or
// more cannot be fed or fetched. SnapshotState and RestoreState are UNIMPLEMENTED.
//
// Fork. In the child, calls of sessions and Callables that were made before are refused with
// FAILED_PRECONDITION, and their destructors do nothing. A session that the child makes works, if
// no other thread was within a call when the process forked.
//
// Source of the semantics: sections 2 and 4.2 of TensorFlow's white paper (sessions, feeds and
// fetches) and tf.Session; partial runs, deadlines and tokens are those of TensorFlow's
// Session::PRunSetup, RunOptions and CancellationManager.
//
// Thread rule: all methods are thread safe; any number of threads may Run at once. A call that has
// to wait is refused in an actor's handler and on the runtime's threads (callbacks, kernels) with
// FAILED_PRECONDITION: Run, Get, Set, Extend, PartialRun, Reset, SnapshotState and RestoreState
// always, Prepare and PartialRunSetup when the signature is not compiled yet. Use RunAsync there,
// or send the session's actor a `run_request`. Create, RunAsync, PartialRunCancel, Close and Cancel
// may be called everywhere.
#ifndef TROUPE_SESSION_H_
#define TROUPE_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/names.h"
#include "troupe/runtime.h"
#include "troupe/state_snapshot.h"
#include "troupe/tensor.h"

namespace troupe {
class Signature;
namespace proto {
class GraphDef;
class RunMetadata;
}  // namespace proto
}  // namespace troupe

namespace TROUPE_EXPORT troupe {

class Variable;

struct SessionOptions {
  // "": in this process. "troupe://host:port[,host:port...]": in the first of these servers that
  // answers; Create then takes `connect_timeout_ms` at most, and says of each why not.
  std::string target;
  std::string client_name;             // what the server calls this client where it lists its sessions
  int64_t connect_timeout_ms = 10000;  // for each server of the target
  // The runtime to live in; null: one of its own with these options. Neither with a target.
  std::shared_ptr<Runtime> runtime;
  RuntimeOptions runtime_options;
  // Concerns variables that name neither a container nor a shared name (a variable's own name is
  // none). False: they belong to this session alone and end with it. True: all sessions of the
  // runtime that set this share them by name, and they live as long as the runtime.
  bool share_variables = false;
  bool allow_soft_placement = false;
  bool use_cost_model = false;  // place by simulated execution instead of "the first device that can"
  bool fold_constants = true;
  bool merge_common_subexpressions = true;
  bool fuse = true;                  // nodes that one kernel computes together become one
  int64_t operation_timeout_ms = 0;  // default deadline of a Run; 0 = none
  int64_t stall_report_ms = 0;       // a step without progress for this long reports what it waits for; 0 = never
  // Takes the report, on a thread of the runtime. It must not block; ~Session waits for it. Empty:
  // the report is logged.
  std::function<void(const std::string&)> on_stall;
  // An asynchronous step runs on the thread that calls RunAsync if it is likely to take at most
  // this many microseconds, judging by earlier steps with feeds as large; RunAsync may then call
  // `done` before it returns. 0 = never; every asynchronous step goes to the compute threads.
  int64_t lend_thread_us = 20;
  // The number of signatures (choices of feeds, fetches and targets, by name and order) that are
  // kept compiled; the least recently used one is dropped first. A Callable keeps its own in any
  // case. 0 = all are kept.
  int64_t max_signatures = 512;
  int64_t max_partial_runs = 1024;  // that are open at once
  bool schedule_recvs = true;       // hold back big tensors between parts until their receiver is about to need them
  bool token_messages = false;      // debugging: every token is a message of its own
  bool check_kernels = false;       // debugging: the outputs of all kernels are checked in every run
  // Debugging: what the parts of a step and the step tell each other passes through bytes before it
  // is delivered, as if each part were in a process of its own. Set for all sessions when the
  // environment says TROUPE_WIRE_MESSAGES=1.
  bool wire_messages = false;
};

// Cancels the Runs that it was given to, from any thread. May be used for one Run after another.
class CancellationToken {
 public:
  CancellationToken();
  ~CancellationToken();
  void Cancel();
  bool cancelled() const;

  struct TROUPE_HIDDEN Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

struct RunOptions {
  // The deadline in milliseconds; 0 = the session's default, negative = none. Counts from the call,
  // compiling included. If a kernel does not return in time, it goes on in the background, and the
  // status names it. For blocking Runs see above.
  int64_t timeout_ms = 0;
  const CancellationToken* cancellation = nullptr;  // must live until Run returns, or RunAsync
  bool collect_stats = false;                       // fill RunMetadata.step_stats
  bool partition_graphs = false;                    // fill RunMetadata.partition_graphs
  // Debugging: the step fails with INVALID_ARGUMENT when a kernel computes a NaN or an infinity, or
  // a variable or other state is about to be given one. The status names the node, its iteration,
  // the output, how many there are and the first. The step's updates of variables are taken back
  // then, except where another step has updated the variable since; if a kernel has not returned
  // when the call is answered, they are taken back when it has. Feeds, constants, and what control
  // flow hands on are not checked themselves. A fused node is checked as one (SessionOptions.fuse).
  // Takes a copy of each variable that the step updates. Of a partial run it is set in the set-up.
  bool check_numerics = false;
  // With check_numerics: the inputs of the node that failed are written into a new folder below
  // this one, whose replay.sh runs the node again with the program `troupe`; the status names it.
  // Empty: nowhere.
  std::string numerics_folder;
};

using RunCallback = std::function<void(absl::Status, std::vector<Tensor>)>;

// A prepared step, whose names were looked up once. Copyable; keeps the parts of its session that
// it needs alive. An empty one, default-made or moved from, answers FAILED_PRECONDITION.
class Callable {
 public:
  Callable() = default;
  // `feeds` in the order of Prepare's names. Thread safe.
  absl::Status Run(absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs) const;
  absl::Status Run(const RunOptions& options, absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs,
                   proto::RunMetadata* metadata = nullptr) const;
  void RunAsync(absl::Span<const Tensor> feeds, RunCallback done) const { RunAsync({}, feeds, std::move(done)); }
  void RunAsync(const RunOptions& options, absl::Span<const Tensor> feeds, RunCallback done,
                proto::RunMetadata* metadata = nullptr) const;
  bool valid() const { return signature_ != nullptr || elsewhere_ != nullptr; }
  struct TROUPE_HIDDEN Elsewhere;

 private:
  friend class Session;
  absl::Status Usable() const;
  absl::Status RunElsewhere(const RunOptions& options, absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs,
                            proto::RunMetadata* metadata) const;
  std::shared_ptr<Signature> signature_;
  std::shared_ptr<const Elsewhere> elsewhere_;  // of a session in a server, whose signature is there
  int process_ = 0;
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(const SessionOptions& options = {});
  // Closes the session. It does not wait for steps: callbacks of those that it cancels may come
  // after it has returned, so they must not refer to what goes with the caller.
  ~Session();

  // Adds nodes to the session's graph, all or none. Of a Graph, which may have grown since it was
  // given last, nodes that the session has already are skipped when they are equal (op, attrs,
  // device and inputs); one that differs is ALREADY_EXISTS, and the message names the first
  // difference. Of a GraphDef each name must be new; nodes of ops that do not exist here are
  // refused when a step needs them (ImportOptions.keep_unknown_ops).
  absl::Status Extend(const proto::GraphDef& graph);
  absl::Status Extend(const Graph& graph);

  absl::Status Run(const FeedList& feeds, const NameList& fetches, const NameList& targets,
                   std::vector<Tensor>* outputs);
  absl::Status Run(const RunOptions& options, const FeedList& feeds, const NameList& fetches, const NameList& targets,
                   std::vector<Tensor>* outputs, proto::RunMetadata* metadata);
  // `done` is called once: on a thread of the runtime, or on the calling thread before RunAsync
  // returns (when the step is short, see lend_thread_us, or cannot start). `done` must not block,
  // and the caller must hold no lock that `done` takes; an exception that it throws is logged and
  // dropped. `done` may start another step. If that step begins on the same thread, it does so when
  // `done` has returned, so that a chain of steps does not grow the stack.
  void RunAsync(const FeedList& feeds, const NameList& fetches, const NameList& targets, RunCallback done) {
    RunAsync({}, feeds, fetches, targets, std::move(done));
  }
  // `metadata` is written before `done` is called, and must live until then.
  void RunAsync(const RunOptions& options, const FeedList& feeds, const NameList& fetches, const NameList& targets,
                RunCallback done, proto::RunMetadata* metadata = nullptr);
  absl::StatusOr<Callable> Prepare(const NameList& feeds, const NameList& fetches, const NameList& targets);

  // The value of a tensor that needs no feeds: mostly of a Variable, a snapshot that later updates
  // do not change. As Run otherwise, but a resource handle is INVALID_ARGUMENT: it names a variable
  // and is not its value.
  absl::StatusOr<Tensor> Get(const GraphName& tensor);
  // Assigns a copy of `value` to the variable, which need not have been initialised.
  // INVALID_ARGUMENT for another type or shape than the variable's; NOT_FOUND when the session has
  // no such variable. The first Set of a variable adds two nodes below <name>/Set and
  // <name>/SetValue to the session's graph. Refused where Extend is.
  absl::Status Set(const Variable& variable, const Tensor& value);

  // A step that is fed and fetched piece by piece. A call waits for its fetches. The last call,
  // with which every feed has been given and every fetch taken, waits for the end of the step,
  // targets included, and returns the step's status. The handle is good until then, or until the
  // step has failed. Options of the set-up: deadline and token of the whole step (no
  // deadline unless it is given); options of a call: those of the call, which end the whole step,
  // too (0 = the session's deadline). Stats and graphs are not collected.
  absl::StatusOr<std::string> PartialRunSetup(const NameList& feeds, const NameList& fetches, const NameList& targets) {
    return PartialRunSetup({}, feeds, fetches, targets);
  }
  absl::StatusOr<std::string> PartialRunSetup(const RunOptions& options, const NameList& feeds, const NameList& fetches,
                                              const NameList& targets);
  absl::Status PartialRun(const std::string& handle, const FeedList& feeds, const NameList& fetches,
                          std::vector<Tensor>* outputs) {
    return PartialRun({}, handle, feeds, fetches, outputs);
  }
  absl::Status PartialRun(const RunOptions& options, const std::string& handle, const FeedList& feeds,
                          const NameList& fetches, std::vector<Tensor>* outputs);
  // Gives up a partial run: its step is aborted, and the handle is no longer valid. Does not wait.
  // INVALID_ARGUMENT when there is no such partial run.
  absl::Status PartialRunCancel(const std::string& handle);

  // Ends the session: running steps, waiting calls and later calls are CANCELLED, and the session's
  // state is cleared. Does not wait for steps; each is answered within 50 ms, except a blocking Run
  // whose kernel has the caller's own thread (see above). Idempotent; may be called in a handler.
  absl::Status Close();
  // Drops the contents of these resource containers of the runtime's devices, whichever sessions
  // use them. "" is the default one: that of shared variables without a container, and the
  // variables that are this session's own.
  absl::Status Reset(const std::vector<std::string>& containers);

  // The state of the session: variables, random streams of nodes, counters, and what is in queues,
  // tables, readers and accumulators. Each is as it was between two updates; taken while steps run,
  // one may have seen an update of a step and another not, unless SnapshotOptions.between_steps is
  // set. A step pays nothing but a copy of a variable that it updates while the snapshot shares its
  // memory. What lives as long as a step (tensor arrays, stacks, temporary variables) is no state.
  // Errors name the resource: UNIMPLEMENTED for a kind that cannot be saved, DATA_LOSS for a
  // variable whose update was cut off; DEADLINE_EXCEEDED; CANCELLED when the session is closed;
  // ABORTED when a container's actor died.
  absl::StatusOr<StateSnapshot> SnapshotState(const SnapshotOptions& options = {});
  // Makes the session's state that of a snapshot, which may come from another session or process
  // whose graph has the same names. The nodes of later steps find it; a step that runs meanwhile
  // may go on with what it has found before, so restore between steps. What one device refuses
  // changes none; else the state of each is replaced in one moment. NOT_FOUND for a device that the
  // runtime does not have; INVALID_ARGUMENT for a state that does not fit its kind, or the type or
  // shape of the variable that is there; UNIMPLEMENTED for an unknown kind.
  absl::Status RestoreState(const StateSnapshot& snapshot);
  // The devices that steps may run on: those of the runtime, or of the server, and of the other
  // tasks of its cluster as these told last, whose memory is not told.
  absl::StatusOr<std::vector<DeviceStatus>> ListDevices() const;
  // Reports what running steps wait for: a line for each culprit, and below it the nodes that wait
  // for it. Takes 100 ms when a part does not answer.
  std::vector<std::string> RunningSteps() const;

  Runtime* runtime() const;
  struct TROUPE_HIDDEN Impl;
  Impl* impl() const { return impl_.get(); }

 private:
  explicit Session(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace troupe

#endif  // TROUPE_SESSION_H_
