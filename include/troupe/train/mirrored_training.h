// What training of mirrored replicas needs besides their update: what each of them keeps, and how
// one is given what another one has. TrainMirrored (troupe/train/train_mirrored.h) runs it.
//
// Each replica's task keeps a second copy of its variables, of before the update that is under way,
// and a mark of the step it is of (troupe/train/server_state.h). The other processes wait for the
// end in queues of their own.
//
// Source of the semantics: tf.distribute.MultiWorkerMirroredStrategy; copies and marks are Troupe's
// own.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_MIRRORED_TRAINING_H_
#define TROUPE_TRAIN_MIRRORED_TRAINING_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/queues.h"
#include "troupe/train/in_graph_replicas.h"
#include "troupe/train/server_state.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct MirroredOptions {
  // The other processes call TrainMirrored, too: when all is done the chief tells them, and waits
  // until they have heard of it, for 5 s at most together.
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

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_MIRRORED_TRAINING_H_
