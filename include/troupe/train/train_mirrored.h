// Training of mirrored replicas (troupe/train/in_graph_replicas.h) on the tasks of a cluster, any
// of which may be killed at any time, and without parameter servers.
//
//   const train::MirroredTraining mirrored(on, replicas, global_step, {.others_follow = false});
//   train::TrainingOptions options;
//   options.session.runtime = runtime;  // of a server, which finds those of the other replicas
//   options.last_step = 20;
//   absl::StatusOr<train::TrainingReport> report = train::TrainMirrored(root, mirrored, /*replica=*/0, options);
//
// Each process builds the same graph. The chief, which has replica 0, runs it: one step of its
// session computes the gradients at all tasks, reduces them and updates all mirrors. The other
// processes serve their tasks; those that call TrainMirrored do so until the chief says that all is
// done. Plain servers (`troupe serve`) do as well, and are stopped by who started them.
//
// Lost processes. Each task keeps a second copy of its variables, of before the update that is
// under way, and a mark of the step it is of (troupe/train/server_state.h). After a loss the chief
// waits for the replacement, takes back an update that broke off, and gives the new process the
// variables of a replica that still has them: no update is lost while one is alive, whichever.
// A new chief finds the step by the marks. When none is left, replica 0 is restored from the newest
// checkpoint, and the others are given what it has. The losses and variables are those of a run in
// which nobody was lost, bit for bit, if gradients are a function of the variables and of what is
// fed and read for a step: where towers read their data, by the number of the step; random streams
// begin anew with their process.
//
// Checkpoints are one cut: the chief saves replica 0 between two steps. There is one before the
// first step, and one after the last.
//
// Source of the semantics: tf.distribute.MultiWorkerMirroredStrategy; asking the survivors, and
// undoing, are Troupe's own.
//
// Thread rule: TrainMirrored blocks; not in an actor's handler. Otherwise that of TrainTogether.
#ifndef TROUPE_TRAIN_TRAIN_MIRRORED_H_
#define TROUPE_TRAIN_TRAIN_MIRRORED_H_

#include "troupe/export.h"
#include "troupe/train/mirrored_training.h"
#include "troupe/train/train_together.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// Trains until the model has had `last_step` updates. `replica`: that of this process; 0 is the
// chief. `feeds` and `update_feeds` of the chief are both fed to its step; those of others are not
// used. A chief tells kBegin `from` kServers when a replica was left. Of others, the report has no
// numbers; UNAVAILABLE or DEADLINE_EXCEEDED when there is no chief for `give_up`. INVALID_ARGUMENT
// when there is no such replica, and when `last_step` is below 0.
absl::StatusOr<TrainingReport> TrainMirrored(const Scope& root, const MirroredTraining& mirrored, int replica,
                                             const TrainingOptions& options);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_TRAIN_MIRRORED_H_
