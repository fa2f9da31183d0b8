// How the chief of a cluster brings its parameter servers to one step: after its own start, and
// whenever a process was lost. And how it saves them.
//
// The servers are asked first: what they have is never replaced by something older while all of
// them have it. Only what a server has lost comes from the newest checkpoint: of synchronous
// training then for all servers, so that all are at its step; of asynchronous training for that
// server alone. Without a checkpoint all begin anew. Of servers that have mirrors of the same
// variables, one that is left gives the others what it has, and nothing is restored; nor is it
// where a lost server's live replica is left.
//
// A chief may die at any point of this: marks are taken away before anything is changed, and given
// when it is whole (troupe/train/server_state.h), so the next chief begins again.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_ACTORS_TRAIN_SERVER_RECOVERY_H_
#define TROUPE_ACTORS_TRAIN_SERVER_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/session.h"
#include "troupe/train/mirrored_training.h"
#include "troupe/train/saver.h"
#include "troupe/train/server_state.h"
#include "troupe/train/train_together.h"

namespace troupe::train {

class ServerRecovery {
 public:
  // Adds the nodes that initialize, save and restore. `each_alone`: servers are restored each by
  // itself.
  ServerRecovery(const Scope& root, const ServerState& state, const CheckpointPolicy& policy, bool each_alone);
  // Of mirrors, which must outlive it.
  ServerRecovery(const Scope& root, const MirroredTraining& mirrors, const CheckpointPolicy& policy);

  struct Begun {
    int64_t step = 0;
    TrainingEvent::From from = TrainingEvent::kStart;
    int64_t lost_updates = 0;
    std::string checkpoint;  // that was restored; of a start: that was written, before any update
    int filled = 0;          // servers that were given what another one has; of mirrors, the first aside
  };
  // All servers have their variables when it returns. `seen`: the most updates that this process
  // knows of. The session must be new: where variables get their first values, its random streams
  // do so, too.
  absl::StatusOr<Begun> Begin(Session& session, int64_t seen);
  // The path; "" when there is no folder.
  absl::StatusOr<std::string> Save(Session& session, int64_t step);
  // The newest checkpoint ("" when there is none) and its step (-1).
  struct Checkpoint {
    std::string path;
    int64_t step = -1;
  };
  absl::StatusOr<Checkpoint> Newest() const;
  // What is in the collections alone, of mirrors that of the first server; it is given no mark.
  absl::Status RestoreOnly(Session& session, const std::string& checkpoint) const;

 private:
  struct Found {
    std::vector<bool> whole;        // by server
    std::vector<int64_t> marks;     // of those that are whole
    std::vector<int64_t> replicas;  // live ones, by server: their steps; -1: it has none
    int64_t reached = -1;           // of mirrors: the greatest step that one which is whole has reached
    int64_t step = 0;               // the global step, when its server is whole
    bool all = false;
  };
  absl::StatusOr<Found> Ask(Session& session) const;
  absl::StatusOr<bool> Settle(Session& session, const Found& found) const;
  absl::StatusOr<std::string> NewestPath() const;
  absl::StatusOr<bool> Fill(Session& session, const Found& found, Begun* begun) const;
  absl::StatusOr<bool> FillFromReplicas(Session& session, const Found& found, Begun* begun) const;
  absl::Status Replicate(Session& session) const;
  absl::Status Restore(Session& session, const Found& found, const std::string& checkpoint) const;
  absl::StatusOr<std::string> Start(Session& session);
  absl::Status KeepAll(Session& session) const;

  const ServerState state_;
  const CheckpointPolicy policy_;
  const bool each_alone_;
  const MirroredTraining* const mirrors_;  // null: servers have different variables
  Operation init_;
  Saver saver_;
  std::vector<Saver> of_server_;  // each_alone
};

// The global step, when all servers have their variables; else none. For who waits for a chief.
absl::StatusOr<std::optional<int64_t>> StepOfServers(Session& session, const ServerState& state,
                                                     const RunOptions& run = {});

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SERVER_RECOVERY_H_
