// What the chief of synchronous training asks of the machine that knows its workers: SyncRounds
// (actors/train/sync_rounds.h), or PartRounds (actors/train/part_rounds.h) when it is elastic.
//
// Thread rule: one thread.
#ifndef TROUPE_ACTORS_TRAIN_ROUNDS_H_
#define TROUPE_ACTORS_TRAIN_ROUNDS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/names.h"
#include "troupe/train/sync_replicas.h"

namespace troupe::train {

// The upper bits of a life are a number of the process, the lower ones count.
inline constexpr int kLifeBits = 20;

class Rounds {
 public:
  struct Token {
    int worker = 0;
    int64_t life = 0, step = 0, part = 0, number = 0;
  };
  // A worker that came or went, since the chief knows of it.
  struct Change {
    enum Kind : uint8_t { kJoined, kLeft, kGone };
    int worker = 0;
    Kind kind = kJoined;
  };
  virtual ~Rounds() = default;

  // Nobody is known any more.
  virtual void Begin(int64_t step) = 0;
  // A notice [kind, worker, life, number] with its loss.
  virtual void Hear(const int64_t* notice, float loss) = 0;
  // Enough gradients are there.
  virtual bool complete() const = 0;
  // The step is over, and the next one begins. REQUIRES: complete().
  virtual void Next() = 0;
  // Of the gradients that are taken, added in their order.
  virtual double mean_loss() const = 0;
  // What the update of the step is fed beside the user's feeds. REQUIRES: complete().
  virtual void AddFeeds(const SyncReplicas& sync, Feeds* feeds) const = 0;
  // Whose gradients are not there, for an error: "from these workers: 1, 2".
  virtual std::string missing() const = 0;
  // Whether it is one of these.
  virtual bool misses(int worker) const = 0;
  // How many workers are to hear of the end, the chief's own too.
  virtual int workers() const = 0;
  // It may have something to say: it has come, as far as this chief knows, or is to come.
  virtual bool is_member(int worker) const = 0;

  // What is to be handed out now; once.
  std::vector<Token> TakeTokens() { return std::exchange(tokens_, {}); }
  bool has_tokens() const { return !tokens_.empty(); }
  // Who came and went; once.
  std::vector<Change> TakeChanges() { return std::exchange(changes_, {}); }
  int64_t step() const { return step_; }
  int64_t dropped() const { return dropped_; }
  // How often a worker was another process than before.
  int64_t restarts() const { return restarts_; }

 protected:
  // Of several tokens of a worker that were not handed yet, the last one counts.
  void Hand(const Token& token) {
    std::erase_if(tokens_, [&](const Token& t) { return t.worker == token.worker; });
    tokens_.push_back(token);
  }

  std::vector<Token> tokens_;
  std::vector<Change> changes_;
  int64_t step_ = 0, dropped_ = 0, restarts_ = 0;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_ROUNDS_H_
