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
// Elastic. With `parts`, a step has so many gradients, whoever computes them: its work is divided
// into parts that do not depend on who is there, and the chief gives one after the other to workers
// that have none. So workers may come and go between two parts, also one that does not say so; the
// sum is made in the order of the parts, and has the same bits whoever came and went. A gradient is
// left at the servers under a number that is only its token's: what a worker that was given up
// leaves too late is never taken for that of another.
//
// Lost processes. Places, queues and tokens need not be saved. A worker that begins anew says
// hello, and is given the token of the step that runs: the variables have not changed, so it
// computes what was lost again. When a server or the chief begins anew, all are asked to say hello
// again.
//
// Live replicas. With `live_replicas`, what a lost server had is at another one, and all go on from
// the step that they were at. Only servers that are lost together with those that hold their
// replicas, or several that are lost while their replicas are being left, cost the way back to a
// checkpoint.
//
// Source of the semantics: tf.train.SyncReplicasOptimizer, and section 4.4 of "TensorFlow: A System
// for Large-Scale Machine Learning" (2016) for backup workers; the virtual nodes of "VirtualFlow:
// Decoupling Deep Learning Models from the Underlying Hardware" (2020) for parts. The order of the
// sum, hello, and places instead of accumulators are Troupe's own.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_SYNC_REPLICAS_H_
#define TROUPE_TRAIN_SYNC_REPLICAS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/train/optimizer.h"
#include "troupe/train/server_state.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct SyncReplicasOptions {
  int workers = 1;  // elastic: as many as there may be; worker 0 is always one of them
  int worker = 0;   // of this process
  int take = 0;     // gradients of an update; 0: all. Not with `parts`
  // Elastic: gradients of a step, at most kMostParts; 0: one of each worker. Each part has nodes of
  // its own in the graph, and is a target of its own: a worker compiles its step anew for each part
  // that it is given for the first time, and when values first come with the token.
  int parts = 0;
  // Each parameter server has a replica of its variables at another one, from where they come back
  // when it is lost: no update is made again but the one that broke off (server_state.h).
  bool live_replicas = false;
  std::string name = "sync";

  static constexpr int kMostParts = 1024;
};

class SyncReplicas {
 public:
  // Gradients that are invalid are left out. INVALID_ARGUMENT as the scope's error when there is
  // none, for impossible numbers, for a dense gradient of a variable of unknown shape, and for live
  // replicas without a second server.
  SyncReplicas(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& grads, const Output& loss,
               const Variable& global_step, const SyncReplicasOptions& options);

  const SyncReplicasOptions& options() const { return options_; }
  bool elastic() const { return options_.parts > 0; }
  // Gradients of an update.
  int take() const { return elastic() ? options_.parts : options_.take == 0 ? options_.workers : options_.take; }
  const ServerState& state() const { return state_; }
  const Output& loss() const { return loss_; }

  // A notice: [kind, worker, life, number], int64. A life is a worker's number of its own; the
  // chief answers with tokens that bear it. The number is that of a gradient's token. kLeaves is
  // said by a worker that goes; kGone of another one, which is not there any more.
  enum Kind : int64_t { kHello = 1, kGradient = 2, kLeaves = 3, kGone = 4 };
  // A token: [life, step, part, number], int64; of life 0, that of nobody, it is a call to all. The
  // part is the worker, and the number the step, unless it is elastic.
  static constexpr int64_t kTokenWords = 4;
  // Steps of such a token: of kTheEnd, the part is the last step of the training that has ended;
  // kLook only wakes who waits.
  static constexpr int64_t kSayHello = -1, kTheEnd = -2, kLook = -3;

  // Of this worker: its notice is fed; run to say it with a loss of 0; the next token.
  const Output& notice() const { return notice_; }
  const Operation& say() const { return say_; }
  const Output& token() const { return token_; }
  // What variables are once the token is there: fetched with the token, and fed to `send` in place
  // of the tensors that read them, they spare the worker a message to the servers and the answer.
  // Variables with dense gradients; those of more than kLargestWithToken bytes only where all of
  // them together have at most kAllWithToken, since else a worker may begin with the small ones
  // while a large one comes.
  struct ValueWithToken {
    std::vector<std::string> reads;  // names of the tensors that stand for the variable in the graph
    Output value;
  };
  const std::vector<ValueWithToken>& values_with_token() const { return values_with_token_; }
  static constexpr int64_t kLargestWithToken = int64_t{64} << 10, kAllWithToken = int64_t{4} << 20;
  // Computes the gradients, puts them in their places, and gives the notice with the loss. The part
  // of a step matters only when it is elastic.
  const Operation& send(int part) const { return sends_[elastic() ? static_cast<size_t>(part) : 0]; }

  // Of the chief: the next notice, and the loss that came with it.
  const Output& heard() const { return heard_; }
  const Output& heard_loss() const { return heard_loss_; }
  // Fed with the tokens of each worker, a matrix of any number of rows, which hand_out gives them.
  const std::vector<Output>& hands() const { return hands_; }
  const Operation& hand_out() const { return hand_out_; }
  // Which workers are taken, bools; not fed, and invalid, when all are.
  const Output& taken() const { return taken_; }
  // Elastic: the numbers under which the gradients of the parts were left, int64 [parts]; the
  // update is ABORTED when another one is there. Else invalid.
  const Output& numbers() const { return numbers_; }
  // The update; and the same with hand_out after it.
  const Operation& update() const { return update_; }
  const Operation& update_and_hand_out() const { return update_and_hand_out_; }
  // Makes the places, empty: before the first update, and when a server has begun anew. Does
  // nothing when it is elastic, where places come with what is left there.
  const Operation& make_places() const { return make_places_; }

 private:
  class TROUPE_HIDDEN Builder;

  SyncReplicasOptions options_;
  Variable global_step_;
  Output loss_;
  ServerState state_;
  Output notice_, token_, heard_, heard_loss_, taken_, numbers_;
  std::vector<Output> hands_;
  std::vector<ValueWithToken> values_with_token_;
  std::vector<Operation> sends_;
  Operation say_, hand_out_, update_, update_and_hand_out_, make_places_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SYNC_REPLICAS_H_
