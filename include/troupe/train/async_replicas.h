// Asynchronous data-parallel training between graphs: each worker applies its gradients by itself,
// to variables that others update meanwhile.
//
// This builds the nodes; TrainApart (troupe/train/train_together.h) runs them. Besides the update,
// each server's mark (server_state.h) counts the updates that it has had, so that after the loss of
// another one it is known how many there were.
//
// Source of the semantics: section 4.4 of "TensorFlow: A System for Large-Scale Machine Learning"
// (2016); the counts are Troupe's own.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_ASYNC_REPLICAS_H_
#define TROUPE_TRAIN_ASYNC_REPLICAS_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/train/optimizer.h"
#include "troupe/train/server_state.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct AsyncReplicasOptions {
  int workers = 1;
  int worker = 0;  // of this process
};

class AsyncReplicas {
 public:
  AsyncReplicas(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& grads, const Output& loss,
                const Variable& global_step, const AsyncReplicasOptions& options);

  const AsyncReplicasOptions& options() const { return options_; }
  const ServerState& state() const { return state_; }
  const Output& loss() const { return loss_; }
  // One update; and the global step after it.
  const Operation& update() const { return update_; }
  const Output& step_after() const { return step_after_; }

 private:
  AsyncReplicasOptions options_;
  ServerState state_;
  Output loss_, step_after_;
  Operation update_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ASYNC_REPLICAS_H_
