// Synchronous data-parallel training between graphs: several workers compute gradients of the same
// variables, and one update applies their mean.
//
// This builds the nodes; TrainTogether (troupe/train/train_together.h) runs them. Each worker
// builds the same graph in the same order. Beside each variable, at its parameter server, each
// worker has a place for its gradient. A worker waits for a token, computes the gradients of the
// token's step, puts them in its places and tells the chief, by a notice in a queue beside the
// global step. When the chief has heard enough workers, its one step adds the gradients, applies
// their mean, increments the global step, lets the servers keep what they have now
// (server_state.h), and hands out tokens.
//
// Repeatable. Gradients are added in the order of the workers, so equal gradients give equal bits
// whoever was first. Nobody reads variables while they are updated: a worker computes between its
// token and its notice, and the chief updates when it waits for no worker whose gradient it takes.
//
// Backup workers. With `take` below `workers`, the gradients of the first so many are taken. What
// comes later bears an older step, and is dropped and counted; its worker gets the token of the
// step that runs then.
//
// Sparse. A gradient that consists of slices stays so: indices and values of all workers are put
// behind each other.
//
// Lost processes. Places, queues and tokens need not be saved. A worker that begins anew says
// hello, and is given the token of the step that runs: the variables have not changed, so it
// computes what was lost again. When a server or the chief begins anew, all are asked to say hello
// again.
//
// Source of the semantics: tf.train.SyncReplicasOptimizer, and section 4.4 of "TensorFlow: A System
// for Large-Scale Machine Learning" (2016) for backup workers. The order of the sum, hello, and
// places instead of accumulators are Troupe's own.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_SYNC_REPLICAS_H_
#define TROUPE_TRAIN_SYNC_REPLICAS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/queues.h"
#include "troupe/train/optimizer.h"
#include "troupe/train/server_state.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct SyncReplicasOptions {
  int workers = 1;
  int worker = 0;  // of this process
  int take = 0;    // gradients of an update; 0: all
  std::string name = "sync";
};

class SyncReplicas {
 public:
  // Gradients that are invalid are left out. INVALID_ARGUMENT as the scope's error when there is
  // none, for impossible numbers, and for a dense gradient of a variable of unknown shape.
  SyncReplicas(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& grads, const Output& loss,
               const Variable& global_step, const SyncReplicasOptions& options);

  const SyncReplicasOptions& options() const { return options_; }
  int take() const { return options_.take == 0 ? options_.workers : options_.take; }
  const ServerState& state() const { return state_; }
  const Output& loss() const { return loss_; }

  // A notice: [kind, worker, life, step], int64. A life is a worker's number of its own; the chief
  // answers with tokens that bear it.
  enum Kind : int64_t { kHello = 1, kGradient = 2 };
  // A token: [life, step], int64; of life 0, that of nobody, it is a call to all.
  static constexpr int64_t kSayHello = -1, kTheEnd = -2;  // steps of such a token

  // Of this worker: its notice is fed; run to say it with a loss of 0; the next token.
  const Output& notice() const { return notice_; }
  const Operation& say() const { return say_; }
  const Output& token() const { return token_; }
  // Computes the gradients, puts them in their places, and gives the notice with the loss.
  const Operation& send() const { return send_; }

  // Of the chief: the next notice, and the loss that came with it.
  const Output& heard() const { return heard_; }
  const Output& heard_loss() const { return heard_loss_; }
  // Fed with the tokens of each worker, a matrix of any number of rows, which hand_out gives them.
  const std::vector<Output>& hands() const { return hands_; }
  const Operation& hand_out() const { return hand_out_; }
  // Which workers are taken, bools; not fed, and invalid, when all are.
  const Output& taken() const { return taken_; }
  // The update; and the same with hand_out after it.
  const Operation& update() const { return update_; }
  const Operation& update_and_hand_out() const { return update_and_hand_out_; }
  // Makes the places, empty: before the first update, and when a server has begun anew.
  const Operation& make_places() const { return make_places_; }

 private:
  // The places of one variable, by worker.
  struct Places {
    Variable variable;
    std::vector<Variable> dense;            // or:
    std::vector<Variable> indices, values;  // of slices
  };
  void Build(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& used);
  void MakeQueues(const Scope& top);
  Places MakePlaces(const Scope& top, const GradAndVar& grad) const;
  Operation Put(const Scope& s, const GradAndVar& grad, const Places& places) const;
  Output MeanOf(const Scope& s, const Places& places) const;
  Output SumOfDense(const Scope& here, const Places& places) const;
  Output SumOfSlices(const Scope& here, const Places& places) const;
  void BuildWorker(const Scope& s, const std::vector<GradAndVar>& grads, const std::vector<Places>& places);
  void BuildChief(const Scope& s, Optimizer& optimizer, const std::vector<Places>& places);

  SyncReplicasOptions options_;
  Variable global_step_;
  Output loss_;
  ServerState state_;
  Queue notices_;
  std::vector<Queue> tokens_;
  Output notice_, token_, heard_, heard_loss_, taken_;
  std::vector<Output> hands_;
  Operation say_, send_, hand_out_, update_, update_and_hand_out_, make_places_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SYNC_REPLICAS_H_
