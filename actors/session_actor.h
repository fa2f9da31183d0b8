// The session actor (master): owns the graph and the signatures of one session.
//
//   state   message                      action                                                                reply (through the call)
//   open    extend {graph}             1 import into the graph, all or nothing                                 status
//   open    compile, known             2 answer at once                                                        signature
//   open    compile, new               3 prune, fold, merge, place, partition; register_graph to the worker    by 5, or the first error
//   open    compile, the worker is down
//                                      4 answer at once                                                        UNAVAILABLE, or what it died of
//   open    then: parts registered     5 keep the signature                                                    signature or error
//   open    run_request {feeds, ...}   6 as 2 to 5, then run asynchronously; for users' actors            run_reply {status, outputs, metadata}
//   open    then: an actor of the runtime failed
//                                      7 abort the steps that run; the session stays usable                    none
//   open    close                      8 refuse what comes, abort what runs; closed from here on               status
//   closed  extend, compile, run_request, parts registered
//                                      9 nothing is done                                                       CANCELLED
//   closed  close                     10 nothing is left to do                                                 status
//   any     exit                      11 calls that wait for an answer get one                                 ABORTED
//
// Blocks: never. Never touches a tensor's bytes: a known signature leases its executors to the caller directly, and this actor hears of misses only.
// Owner: the Session object. Dies: with it.
#ifndef TROUPE_ACTORS_SESSION_ACTOR_H_
#define TROUPE_ACTORS_SESSION_ACTOR_H_

#include <caf/all.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "troupe/actors/runtime_impl.h"
#include "troupe/actors/signature.h"
#include "troupe/actors/step_watch.h"
#include "troupe/actors/worker_actor.h"
#include "troupe/graph/passes/session_groups.h"
#include "troupe/graph/passes/still_wanted.h"

namespace troupe {

using SignatureCallback = std::function<void(absl::StatusOr<std::shared_ptr<Signature>>)>;

struct ExtendCall {
  std::function<absl::Status(Graph*)> import;
  Reply<absl::Status> done;
};
struct CompileCall {
  std::string key;
  Names feeds, fetches, targets;
  proto::RunMetadata* parts = nullptr;  // whoever asks for the parts' graphs pays for making them
  Reply<absl::StatusOr<std::shared_ptr<Signature>>> done;
};
struct CloseCall {
  Reply<absl::Status> done;
};
// A signature's parts on their way to the worker.
struct Partitioned {
  std::shared_ptr<Signature> signature;
  std::shared_ptr<RegisterGraphCall> call;
};

// What one session has of its own on the runtime's devices: variables, random streams, counters. It goes with the session; a step that still ran by then may have made some
// anew, which goes with the session's last signature.
class SessionState {
 public:
  SessionState(std::shared_ptr<Runtime> runtime, std::string id) : runtime_(std::move(runtime)), id_(std::move(id)) {}
  ~SessionState() { Clear(); }
  void Clear();
  Runtime* runtime() const { return runtime_.get(); }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const std::string id_;
};

// What the session actor does, without an actor.
class SessionMaster {
 public:
  SessionMaster(std::shared_ptr<Runtime> runtime, SessionOptions options, std::string id,
                std::shared_ptr<std::atomic<bool>> closed);

  absl::Status Extend(const ExtendCall& call);
  std::shared_ptr<Signature> Find(const std::string& key) const;
  // Prunes, folds, merges, places and partitions. The error of `wanted` soon after nobody waits any
  // more.
  absl::StatusOr<Partitioned> Partition(const CompileCall& call, StillWanted wanted = nullptr);
  // Completes the signature with its compiled parts and keeps it.
  std::shared_ptr<Signature> Register(const std::string& key, std::shared_ptr<Signature> signature,
                                      std::vector<std::shared_ptr<const CompiledPart>> parts);
  // Writes the parts that the call leads to into call.parts. They are made again, since compiled parts are not kept as graphs.
  absl::Status ExportParts(const CompileCall& call);
  // Fails the steps that run now; the session stays usable.
  void AbortAll(const absl::Status& status);
  void Close();
  bool closed() const { return closed_->load(); }
  const std::shared_ptr<StepWatch>& shared_watch() const { return watch_; }
  // The worker that is alive now; null while it is being restarted.
  caf::actor worker() const { return runtime_->impl()->directory->Find("worker"); }
  absl::Status WhyNoWorker() const { return runtime_->impl()->directory->WhyDown("worker"); }
  // Asks every step that runs what it waits for.
  std::vector<Signature::Asked> Ask(const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered) const;

 private:
  // Sets the container of variables that are the session's own although they bear a shared name.
  void ClaimVariables(Graph* graph);

  const std::shared_ptr<Runtime> runtime_;
  const SessionOptions options_;
  const std::string id_;
  const std::shared_ptr<SessionState> state_;
  const std::shared_ptr<std::atomic<bool>> closed_;
  const std::shared_ptr<StepWatch> watch_;
  Graph graph_;
  SessionGroups groups_{&graph_};  // which of its stateful nodes must share a device
  absl::flat_hash_map<std::string, std::string> stateful_devices_;  // a stateful node stays where it was first put
  absl::flat_hash_map<std::string, bool> own_names_;  // by shared name: it is the session's own; stays as it was first found
  absl::flat_hash_map<std::string, std::shared_ptr<Signature>> signatures_;
};

caf::actor SpawnSession(caf::actor_system& system, std::shared_ptr<SessionMaster> master);

// The key of a signature in caches.
std::string SignatureKey(const Names& feeds, const Names& fetches, const Names& targets);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_ACTOR_H_
