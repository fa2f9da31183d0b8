// Training of mirrored replicas (troupe/train/in_graph_replicas.h) on the tasks of a cluster, any of
// which may be killed at any time, and without parameter servers.
//
//   const train::InGraphReplicas replicas(on, tower, optimizer, global_step, {.devices = tasks});
//   const train::MirroredTraining mirrored(on, replicas, global_step);
//   train::TrainMirrored(root, mirrored, /*task=*/worker, options);
//
// Each process builds the same graph. The chief, which has replica 0, runs it: one step of its
// session computes the gradients at all tasks, reduces them and updates all mirrors. The other
// processes serve their tasks; those that call TrainMirrored do so until the chief says that it is
// over. Plain servers (`troupe serve`) do as well, and are stopped by who started them.
//
// Lost processes. Each task keeps a second copy of its variables, of before the update that is under
// way, and a mark of the step it is of (troupe/train/server_state.h). After a loss the chief waits
// for the replacement, takes back an update that broke off, and gives the new process the variables
// of a replica that still has them: no update is lost while one is alive, the chief's own included.
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
// Thread rule: of MirroredTraining, as for Scope. TrainMirrored blocks; not in an actor's handler.
#ifndef TROUPE_TRAIN_TRAIN_MIRRORED_H_
#define TROUPE_TRAIN_TRAIN_MIRRORED_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/queues.h"
#include "troupe/train/in_graph_replicas.h"
#include "troupe/train/server_state.h"
#include "troupe/train/train_together.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct MirroredOptions {
  // The other processes call TrainMirrored, too: when all is done the chief waits until they have
  // heard of it, for 5 s at most.
  bool others_follow = true;
  std::string name = "mirrored";
};

class MirroredTraining {
 public:
  // INVALID_ARGUMENT as the scope's error: variables that are shared; replicas that do not have a
  // device each; a global step that is not on the device of replica 0; other global variables than
  // it and those of the replicas.
  MirroredTraining(const ScopeAt& at, const InGraphReplicas& replicas, const Variable& global_step,
                   const MirroredOptions& options = {});

  const MirroredOptions& options() const { return options_; }
  int replicas() const { return static_cast<int>(fills_.size()); }
  // Server r has replica r.
  const ServerState& state() const { return state_; }
  // The mean of the towers' losses; the update of all replicas, which keeps what they have then.
  const Output& loss() const { return loss_; }
  const Operation& update() const { return update_; }
  // Gives all variables of all replicas their first values.
  const Operation& initializer() const { return initializer_; }
  // fills()[r]: gives replica r the variables of the one before it; replica 0 those of the last.
  const std::vector<Operation>& fills() const { return fills_; }
  // Sets the global step to what is fed, an int64 scalar.
  const Output& fed_step() const { return fed_step_; }
  const Operation& set_step() const { return set_step_; }
  // By replica: tells its process that all is done; what waits for that. Of replica 0, invalid.
  const std::vector<Operation>& tell_end() const { return tell_end_; }
  const std::vector<Output>& await_end() const { return await_end_; }

 private:
  absl::Status Check(const Scope& s, const InGraphReplicas& replicas, const Variable& global_step) const;

  MirroredOptions options_;
  ServerState state_;
  Output loss_, fed_step_;
  Operation update_, initializer_, set_step_;
  std::vector<Operation> fills_, tell_end_;
  std::vector<Output> await_end_;
};

// Trains until the model has had `last_step` updates. `replica`: that of this process; 0 is the
// chief. `feeds` and `update_feeds` of the chief are both fed to its step; those of others are not
// used. A chief tells kBegin `from` kServers when a replica was left. Of others, the report has no
// numbers; UNAVAILABLE or DEADLINE_EXCEEDED when there is no chief for `give_up`.
absl::StatusOr<TrainingReport> TrainMirrored(const Scope& root, const MirroredTraining& mirrored, int replica,
                                             const TrainingOptions& options);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_TRAIN_MIRRORED_H_
