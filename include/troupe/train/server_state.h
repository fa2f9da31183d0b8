// What parameter servers hold of a model, as one cut: which of them have lost it, and how all of
// them come back to the same step.
//
// Each server, a device that has variables, has a mark beside them: the global step at which its
// variables were whole. A process that begins anew has no mark, and one whose variables are being
// set has -1. With `undo`, a server keeps a second copy of its variables as they were at its mark.
// An update begins only when all servers have kept the step that it starts from, and the global
// step grows when all of it is done. So whoever finds an update that has broken off, where and when
// ever that was, knows what to do with each server, by its mark and the global step:
// - no mark, or -1: its variables are lost, and are restored from a checkpoint.
// - The mark is the global step: an update of that step may have been begun; `undo`.
// - The mark is one less: the update is done, but has not been kept here; `keep`.
// Who has lost the global step must know it from elsewhere, since copies may be half those of the
// next step where the mark is not given yet. So servers of mirrors note the global step, too,
// before they keep anything.
//
// The copies cost as much memory as the variables, and one copy of them in each update.
//
// Live replicas. With `live_replicas`, each server also leaves a replica of its variables with its
// holder, the next server, all in one move and under the step that they are of. A server is a task
// here, with all its devices. When an update is done, all leave their replicas, and only then all
// keep their copies. So everybody else can be brought to the step of the replica of the server that
// is lost, whose holder lives:
// - The mark is that step: `undo`, whether an update has begun since, or is even done.
// - The mark is one less: the update is done, but has not been kept here; `keep`.
// Nothing is restored then, and no update is made again but the one that broke off. Of several
// servers that are lost together the replicas may be of two steps, where an update had broken off
// between them; then all go back to the checkpoint, as when a holder is lost, too. It costs as much
// memory again, and sends all variables once in each update.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_SERVER_STATE_H_
#define TROUPE_TRAIN_SERVER_STATE_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct ServerStateOptions {
  bool undo = true;
  // Variables that are in no collection: those of mirrors.
  std::vector<Variable> more;
  bool live_replicas = false;  // INVALID_ARGUMENT without `undo`, or without variables on two tasks
};

class ServerState {
 public:
  // A device that has variables; with live replicas, a task.
  struct Server {
    std::string device;               // that its variables ask for, or the first of them
    std::vector<Variable> variables;  // the global step among them, if it is there
    Variable mark;
    Variable reached;  // of mirrors: the global step at which keep began last; else invalid
    Output has_mark;   // bool; the mark can be read when it is true
    Operation keep;    // sets the mark to the global step, and keeps the variables
    Operation undo;    // gives the variables the values that were kept
    // With live replicas, else invalid.
    size_t holder = 0;    // the number of the server that has its replica
    Operation replicate;  // leaves the variables with the holder, under the global step
    Output replica;       // int64: the step of the replica that the holder has; -1: it has none
    Operation fill;       // gives the variables the values of the replica of step fed_step()
  };

  ServerState() = default;
  // Of all global variables that there are, the slots of optimizers among them, and then of
  // `options.more`. All processes build it at the same place of the same graph. INVALID_ARGUMENT as
  // the scope's error when there is none, and for live replicas when a server's device does not
  // name its task, or all are of one task.
  ServerState(const ScopeAt& at, const Variable& global_step, const ServerStateOptions& options);

  // Beside the global step first, then in the order in which they first had a variable.
  const std::vector<Server>& servers() const { return servers_; }
  const Variable& global_step() const { return global_step_; }
  // After `done`: leaves all replicas, if they are live, and then keeps everywhere.
  Operation KeepAfter(const ScopeAt& at, const Operation& done) const;
  // Sets all marks to -1.
  const Operation& unmark() const { return unmark_; }
  bool live_replicas() const { return live_replicas_; }
  // With live replicas: a step that is fed, an int64 scalar; sets the global step to it.
  const Output& fed_step() const { return fed_step_; }
  const Operation& set_step() const { return set_step_; }
  // How many workers have heard of the end: int64, set to 0 by `begin`.
  const Variable& ended() const { return ended_; }
  const Operation& begin() const { return begin_; }
  const Operation& end() const { return end_; }

 private:
  // What a server keeps: beside each of its variables, the global step aside, a copy.
  struct Copies {
    std::vector<Variable> of, to;
  };
  void Build(const ScopeAt& at, const ServerStateOptions& options);
  void BuildReplicas(const ScopeAt& at, const Scope& s);
  bool ChooseHolders(const ScopeAt& at);
  Output StepNow(const Scope& s) const;
  Operation Keep(const Scope& s, size_t server) const;
  Operation Replicate(const Scope& s, size_t server) const;

  bool live_replicas_ = false;
  Variable global_step_, ended_;
  Output fed_step_;
  Operation set_step_;
  std::vector<Server> servers_;
  std::vector<Copies> copies_;  // by server; empty without undo
  Operation unmark_, begin_, end_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SERVER_STATE_H_
