// MonitoredSession: a session that is made ready, goes along with hooks, and is made again when
// what it ran on was lost.
//
//   train::MonitoredTrainingOptions options{.checkpoint_folder = "mem://monitored"};
//   options.hooks.push_back(std::make_shared<train::StopAtStepHook>(train::StopAtStepHook::LastStep(100)));
//   auto session = train::MonitoredTrainingSession(root, options);
//   absl::Status s = session.status();
//   while (s.ok() && !(*session)->ShouldStop()) s = (*session)->Run({}, {}, {update}, nullptr);
//   if (session.ok()) s.Update((*session)->Close());
//
// Making ready. The chief restores the newest checkpoint, or runs the initializer; then it tells
// the workers. Workers are other sessions of one Runtime with share_variables: they wait until the
// variables that they use have values.
//
// Three layers. A step goes through:
// Recovery: on ABORTED and UNAVAILABLE the session is closed, a new one is made (with Companions of
// its own, and AfterCreateSession of the hooks), and the step is done again. Other errors are the
// caller's.
// Coordination: what works beside the steps is started with each session, and ended with it; its
// first error ends training. These are the queue runners of the graph, and Companions of one's own.
// Hooks: hooks.h.
//
// The end. After an error that is not recovered ShouldStop is true. Close calls End of the hooks,
// unless a step failed, and ends the Companions; OUT_OF_RANGE, the end of the input, is no failure.
// The destructor closes, too, but without End.
//
// Source of the semantics: tf.train.MonitoredSession, MonitoredTrainingSession, Scaffold and
// SessionCreator.
//
// Thread rule: a MonitoredSession is for one thread at a time.
#ifndef TROUPE_TRAIN_MONITORED_SESSION_H_
#define TROUPE_TRAIN_MONITORED_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"
#include "troupe/session.h"
#include "troupe/train/hooks.h"
#include "troupe/train/saver.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// What a session needs to be made ready. Whatever is not given is made by Finalize.
struct Scaffold {
  Operation init;                                       // run when there is no checkpoint; else all global variables'
  Feeds init_feeds;                                     // of `init`
  std::function<absl::Status(Session&)> init_function;  // after `init`
  Operation local_init;         // run in each new session; else all local variables' and tables'
  Output ready;                 // names of what has no value: an empty string vector when all is ready
  Output ready_for_local_init;  // the same, before `local_init`
  std::optional<Saver> saver;   // else one of all global variables
  Output summary;               // for the SummarySaverHook of MonitoredTrainingSession; may be missing

  // Adds what is missing to the graph, once. A graph without variables gets no Saver.
  absl::Status Finalize(const Scope& root);
  bool finalized() const { return finalized_; }

 private:
  bool finalized_ = false;
};

// Makes sessions ready. REQUIRES: the scaffold is finalized.
class SessionManager {
 public:
  SessionManager(const Graph* graph, std::shared_ptr<const Scaffold> scaffold)
      : graph_(graph), scaffold_(std::move(scaffold)) {}
  // The chief's: from the checkpoint (a path, or the newest of a folder; both may be ""), or by the
  // initializer; then `local_init`. FAILED_PRECONDITION lists what still has no value.
  absl::StatusOr<std::unique_ptr<Session>> PrepareSession(const SessionOptions& options,
                                                          const std::string& checkpoint_folder,
                                                          const std::string& checkpoint = {}) const;
  // From a checkpoint alone: `restored` is false, and nothing is initialized, where there is none.
  absl::StatusOr<std::unique_ptr<Session>> RecoverSession(const SessionOptions& options,
                                                          const std::string& checkpoint_folder,
                                                          const std::string& checkpoint, bool* restored) const;
  // A worker's: waits for the word of a chief of the same runtime that variables have values.
  // DEADLINE_EXCEEDED lists those that have none after `max_wait_ms` (negative: for ever).
  absl::StatusOr<std::unique_ptr<Session>> WaitForSession(const SessionOptions& options, int64_t max_wait_ms) const;

 private:
  absl::StatusOr<std::unique_ptr<Session>> NewSession(const SessionOptions& options) const;
  absl::Status MakeReady(Session& session) const;
  const Graph* const graph_;
  const std::shared_ptr<const Scaffold> scaffold_;
};

class SessionCreator {
 public:
  virtual ~SessionCreator();
  virtual absl::StatusOr<std::unique_ptr<Session>> CreateSession() = 0;
  // The runtime that its sessions are to live in, if that is known before there is one. Where the
  // server of that runtime was stopped, no session is tried any more. The default: null.
  virtual std::shared_ptr<Runtime> runtime() const;
};

class ChiefSessionCreator : public SessionCreator {
 public:
  ChiefSessionCreator(const Scope& root, std::shared_ptr<Scaffold> scaffold, SessionOptions options = {},
                      std::string checkpoint_folder = {}, std::string checkpoint = {});
  absl::StatusOr<std::unique_ptr<Session>> CreateSession() override;
  std::shared_ptr<Runtime> runtime() const override { return options_.runtime; }

 private:
  const Scope root_;
  const std::shared_ptr<Scaffold> scaffold_;
  const SessionOptions options_;
  const std::string folder_, checkpoint_;
};

class WorkerSessionCreator : public SessionCreator {
 public:
  WorkerSessionCreator(const Scope& root, std::shared_ptr<Scaffold> scaffold, SessionOptions options,
                       int64_t max_wait_ms = 1'800'000);
  absl::StatusOr<std::unique_ptr<Session>> CreateSession() override;
  std::shared_ptr<Runtime> runtime() const override { return options_.runtime; }

 private:
  const Scope root_;
  const std::shared_ptr<Scaffold> scaffold_;
  const SessionOptions options_;
  const int64_t max_wait_ms_;
};

// What works beside the steps of one session, such as what fills its queues.
class Companions {
 public:
  virtual ~Companions();
  // True when no further step should begin: they are done, or one has failed.
  virtual bool should_stop() const = 0;
  // Tells them to end, waits, and returns the first error. Called once, before the session closes.
  virtual absl::Status Stop() = 0;
  // True when it is no error that a death has cut them off after the last step: they only prepared
  // steps that will not come.
  virtual bool MayBeCutOffAtEnd() const { return false; }
};
using StartCompanions = std::function<absl::StatusOr<std::unique_ptr<Companions>>(Session&)>;

struct MonitoredSessionOptions {
  std::vector<std::shared_ptr<Hook>> hooks;
  bool start_queue_runners = true;   // those in the graph's collection "queue_runners"
  StartCompanions start_companions;  // may be empty; called when the queue runners work
  // How many sessions one call makes anew before it gives the error to the caller; 0 = none.
  int max_recoveries = 100;
};

class MonitoredSession {
 public:
  // Calls Begin of the hooks, and makes the first session. INVALID_ARGUMENT when the creator, what
  // it makes or a hook is null. What a hook, a creator or Companions throw is an error (INTERNAL).
  static absl::StatusOr<std::unique_ptr<MonitoredSession>> Create(const Scope& root,
                                                                  std::unique_ptr<SessionCreator> creator,
                                                                  MonitoredSessionOptions options = {});
  ~MonitoredSession();

  // FAILED_PRECONDITION when the session has ended.
  absl::Status Run(const FeedList& feeds, const NameList& fetches, const NameList& targets,
                   std::vector<Tensor>* outputs);
  // True when a hook or the Companions asked for the end, after a failure, and after Close.
  bool ShouldStop();
  // What End and the Companions say; OK after a failure that Run has returned. Idempotent.
  absl::Status Close();
  // The session of now; null after Close. Another one after each recovery.
  Session* session() const;
  // How many sessions were made.
  int sessions_made() const;

  struct TROUPE_HIDDEN Impl;

 private:
  explicit MonitoredSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct MonitoredTrainingOptions {
  bool is_chief = true;
  std::string checkpoint_folder;  // "": nothing is saved, restored or written
  std::shared_ptr<Scaffold> scaffold;
  SessionOptions session;
  std::vector<std::shared_ptr<Hook>> hooks, chief_only_hooks;
  // Neither steps nor seconds: never. Both: INVALID_ARGUMENT; so who wants steps assigns
  // Every{.steps = 100} as a whole.
  Every save_checkpoint{.seconds = 600};
  Every save_summaries{.steps = 100};
  Every count_steps{.steps = 100};
  int64_t max_wait_ms = 1'800'000;  // of a worker
  bool start_queue_runners = true;
  StartCompanions start_companions;
};
// A MonitoredSession with the hooks that training mostly has: of the chief with a folder
// CheckpointSaverHook, StepCounterHook and, if the scaffold has a summary, SummarySaverHook. The
// graph needs a global step then.
absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(const Scope& root,
                                                                           MonitoredTrainingOptions options);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_MONITORED_SESSION_H_
