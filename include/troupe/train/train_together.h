// Training by several workers, each in a process of its own, any of which may be killed at any
// time.
//
// Each worker calls TrainTogether, or TrainApart, with the same graph. The worker 0 is the chief:
// it gives the variables their values, leads the updates, saves, and restores. The variables stand
// on parameter servers, whose processes do nothing but serve (troupe/server.h). The calls return
// when the model has had `last_step` updates.
//
// A process that is lost is to be started again, with the same arguments. A worker then computes
// its gradient of the step that runs again. The chief asks the servers for their step: an update
// that broke off is taken back and made again, and nothing is restored. After the loss of a
// parameter server all servers go back to the newest checkpoint, and all workers with them, unless
// they have live replicas (SyncReplicasOptions.live_replicas).
//
// Others notice by the error of a step, and begin anew by themselves: UNAVAILABLE and ABORTED, and
// FAILED_PRECONDITION for variables without a value. With synchronous training that takes all
// gradients (SyncReplicas) all losses and variables are then those of a run in which nobody was
// lost, bit for bit, if gradients are a function of the variables and of what `feeds` gives: what a
// worker draws at random must come from there, too, since its random streams begin anew with it.
//
// Workers that come and go. With SyncReplicasOptions.parts a process may be started as a worker at
// any time, when its number is below `workers`: it has parts of the steps from then on. One that is
// to go is told so (`leaves`): it ends the part that it has, says so, and returns. One that is gone
// without a word (`is_there`) is not waited for, and its part is given to another one at once. What
// is computed does not depend on who does it: losses and variables are, bit for bit, those of any
// other run with as many parts. The examples of a part are to be a function of its step and number,
// as by EpochOrder (troupe/train/epoch_order.h): then each is used once in an epoch, whoever comes
// and goes, and after a restore, too.
//
// Checkpoints are one cut: the chief saves after an update and before it hands out the tokens of
// the next step. There is one before the first step. Those of asynchronous training are written
// while other workers update. Each server writes its own variables, so all processes must see the
// folder under the same name. The list of checkpoints is written last. A save that fails for other
// reasons than a lost process is told, and training goes on; the first and the last must not fail.
//
// Source of the semantics: tf.train.SyncReplicasOptimizer with tf.train.MonitoredTrainingSession;
// undoing and the order of asking are Troupe's own.
//
// Thread rule: TrainTogether and TrainApart block; not in an actor's handler. `on_event` is called
// by one thread at a time; of the chief, `feeds` and `part_feeds` by another thread than
// `update_feeds` and `at_end`; `is_there` and `leaves` each by one of its own.
#ifndef TROUPE_TRAIN_TRAIN_TOGETHER_H_
#define TROUPE_TRAIN_TRAIN_TOGETHER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "troupe/export.h"
#include "troupe/session.h"
#include "troupe/train/async_replicas.h"
#include "troupe/train/sync_replicas.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct CheckpointPolicy {
  std::string folder;  // "": nothing is saved, and a lost server begins the run anew
  std::string name = "model.ckpt";
  int64_t every_steps = 100;
  int max_to_keep = 5;
};

// A file of what ran when (troupe/timeline.h), with the steps that this process makes for the
// updates first, first + 1, ...: its gradients, and of the chief the updates, each with what
// parameter servers do for it. Files of several workers are put together by `troupe trace`.
struct TracePolicy {
  std::string file;    // "": none
  int64_t first = 10;  // the steps before are slower than the others: graphs are compiled, memory is taken
  int64_t steps = 5;   // so many updates, fewer if the run ends before
};

// What happens in this process.
struct TrainingEvent {
  // kJoined, kLeft, kGone: elastic, of the chief. A worker has come; it left, and said so; it is
  // not there any more, and its part goes to another one.
  enum Kind : uint8_t { kBegin, kStep, kSaved, kSaveFailed, kLost, kTraced, kTraceFailed, kJoined, kLeft, kGone };
  enum From : uint8_t { kStart, kServers, kCheckpoint };
  Kind kind = kBegin;
  int64_t step = 0;          // updates that the model has had; of kLost: that this process knows of
  From from = kServers;      // kBegin, of the chief
  int64_t lost_updates = 0;  // kBegin: updates that the servers had, and are not in the checkpoint
  // kStep: before the update, of the workers that were taken; apart: of this worker. Its gradients'
  // number, apart: 1.
  double loss = 0;
  int gradients = 0;
  int worker = 0;    // kJoined, kLeft, kGone
  std::string path;  // kSaved, kTraced; kBegin: the checkpoint that was restored
  absl::Status why;  // kLost, kSaveFailed, kTraceFailed
};

struct TrainingOptions {
  SessionOptions session;  // of a runtime of the cluster's; its share_variables is set
  int64_t last_step = 0;   // 0: nothing but the first values; below 0: INVALID_ARGUMENT
  CheckpointPolicy checkpoints;
  TracePolicy trace;
  // How long nothing may go on before it is given up, with the error of the last try, or
  // DEADLINE_EXCEEDED that names the workers which are missing. The others wait for no longer while
  // at_end runs.
  std::chrono::milliseconds give_up{600'000};
  // What this worker feeds to compute its gradients of a step (from 0). Its error ends training.
  std::function<absl::StatusOr<Feeds>(int64_t step)> feeds;
  // Elastic, instead of `feeds`: of a part of a step, both from 0. A function of these two.
  std::function<absl::StatusOr<Feeds>(int64_t step, int part)> part_feeds;
  // Elastic, of the chief: whether the process of a worker is there (Server::status). Asked several
  // times a second, on a thread of its own. Without it a worker that is lost is waited for.
  std::function<bool(int worker)> is_there;
  // Elastic, of other workers: whether this one is to leave. Asked as is_there, until it is true.
  std::function<bool()> leaves;
  // What the chief feeds to an update besides, as a learning rate. May be empty.
  std::function<absl::StatusOr<Feeds>(int64_t step)> update_feeds;
  std::function<void(const TrainingEvent&)> on_event;  // may be empty
  // Called by the chief when the last update is done, before the others are told. May be empty.
  // With UNAVAILABLE, ABORTED or FAILED_PRECONDITION it says that something was lost, and is called
  // again when that is back; any other error ends training, which returns it.
  std::function<absl::Status(Session&)> at_end;
};

struct TrainingReport {
  int64_t step = 0;
  int64_t recoveries = 0;    // how often this process began again
  int64_t lost_updates = 0;  // of the chief: the sum of those of kBegin
  int64_t restarts = 0;      // of the chief: how often another worker was a new process
  int64_t dropped = 0;       // of the chief: gradients that were too late, or of a life before
  bool left = false;         // it left before the end (TrainingOptions.leaves); `step` is its last
};

// Synchronous. INVALID_ARGUMENT when it is elastic and there are no `part_feeds`, and, as of the
// other, when `last_step` is below 0.
absl::StatusOr<TrainingReport> TrainTogether(const Scope& root, const SyncReplicas& sync,
                                             const TrainingOptions& options);
// Asynchronous: each worker updates by itself, and the update of a worker does not wait for others.
// After the loss of a server only that one goes back to the newest checkpoint. `lost_updates` are
// those that its variables do not have then; if it is the only server, those that the chief knows
// of.
absl::StatusOr<TrainingReport> TrainApart(const Scope& root, const AsyncReplicas& async,
                                          const TrainingOptions& options);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_TRAIN_TOGETHER_H_
