// What the chief of synchronous training knows of its workers, and whom it hands tokens: a machine
// without input and output (troupe/train/sync_replicas.h says what notices and tokens are).
//
//   worker   event                            action                                        next
//   unknown  hello(life)                      1 a token of the step for this life           asked
//   asked    gradient(its life, the step)     2 counted                                     done
//   asked    hello(life), the worker anew     3 a token of the step for this life           asked
//   done     hello(life)                      4 nothing now: its gradient is in its place   done
//   done     the step is over                 5 a token of the next step                    asked
//   asked    the step is over without it      6 nothing: it is late                         late
//   late     gradient(its life, its step)     7 dropped, counted; a token of the step       asked
//   late     hello(life)                      8 a token of the step for this life           asked
//   any      gradient(another life or step)   9 dropped, counted                            as before
//   any      no worker, or no kind of notice  10 dropped, counted                           as before
//   any      Begin                            11 its life is forgotten                      unknown
//
// A worker that has no token does nothing, so the places of those who are done, and taken, are not
// written until the step is over. A notice of a life before this one, or of before Begin, is never
// that of a token which was handed since.
//
// Thread rule: one thread.
//
// Tests of the edges, tests/monitored/sync_rounds_test.cc:
//   1, 2, 5  edges_1_2_and_5_all_workers_step_after_step
//   3, 4     edges_3_and_4_a_worker_that_begins_anew
//   6, 7, 8  edges_6_7_and_8_a_worker_is_late
//   9, 10    edges_9_and_10_what_is_of_no_token_is_dropped
//   11       edge_11_after_a_loss_nobody_is_known
#ifndef TROUPE_ACTORS_TRAIN_SYNC_ROUNDS_H_
#define TROUPE_ACTORS_TRAIN_SYNC_ROUNDS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/train/sync_replicas.h"

namespace troupe::train {

// The upper bits of a life are a number of the process, the lower ones count.
inline constexpr int kLifeBits = 20;

class SyncRounds {
 public:
  struct Token {
    int worker = 0;
    int64_t life = 0, step = 0;
  };
  SyncRounds(int workers, int take) : take_(take), workers_(static_cast<size_t>(workers)) {}

  // Nobody is known any more.
  void Begin(int64_t step) {
    step_ = step;
    tokens_.clear();
    for (Worker& w : workers_) w = {.process = w.process};
    done_ = 0;
  }
  // A notice [kind, worker, life, step] with its loss.
  void Hear(const int64_t* notice, float loss) {
    const int64_t number = notice[1], life = notice[2];
    if (number < 0 || number >= static_cast<int64_t>(workers_.size())) {
      ++dropped_;
    } else if (notice[0] == SyncReplicas::kHello) {
      Hello(static_cast<int>(number), life);
    } else if (notice[0] == SyncReplicas::kGradient) {
      Gradient(static_cast<int>(number), life, notice[3], loss);
    } else {
      ++dropped_;
    }
  }
  // Enough gradients are there.
  bool complete() const { return done_ >= take_; }
  // The step is over, and the next one begins. REQUIRES: complete().
  void Next() {
    ++step_;
    done_ = 0;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].state == State::kDone) {
        Hand(static_cast<int>(i));
      } else if (workers_[i].state == State::kAsked) {
        workers_[i].state = State::kLate;
      }
    }
  }
  // What is to be handed out now; once.
  std::vector<Token> TakeTokens() { return std::exchange(tokens_, {}); }
  bool has_tokens() const { return !tokens_.empty(); }

  int64_t step() const { return step_; }
  bool is_taken(int worker) const { return workers_[static_cast<size_t>(worker)].state == State::kDone; }
  // Of those that are taken, added in the order of the workers.
  double mean_loss() const {
    double sum = 0;
    for (const Worker& w : workers_) sum += w.state == State::kDone ? static_cast<double>(w.loss) : 0.0;
    return done_ == 0 ? 0.0 : sum / done_;
  }
  int64_t dropped() const { return dropped_; }
  // How often a worker was another process than before.
  int64_t restarts() const { return restarts_; }

 private:
  enum class State : uint8_t { kUnknown, kAsked, kDone, kLate };
  struct Worker {
    State state = State::kUnknown;
    int64_t life = 0, asked = -1, process = 0;
    float loss = 0;
  };
  void Hello(int number, int64_t life) {
    Worker& w = workers_[static_cast<size_t>(number)];
    const int64_t process = life >> kLifeBits;
    if (w.process != 0 && w.process != process) ++restarts_;
    w.process = process;
    w.life = life;
    if (w.state != State::kDone) Hand(number);
  }
  void Gradient(int number, int64_t life, int64_t step, float loss) {
    Worker& w = workers_[static_cast<size_t>(number)];
    const bool its = (w.state == State::kAsked || w.state == State::kLate) && life == w.life && step == w.asked;
    if (!its || step != step_) ++dropped_;
    if (!its) return;
    if (step != step_) return Hand(number);
    w.state = State::kDone;
    w.loss = loss;
    ++done_;
  }
  void Hand(int number) {
    Worker& w = workers_[static_cast<size_t>(number)];
    w.state = State::kAsked;
    w.asked = step_;
    // Of several that were not handed yet, the last one counts.
    std::erase_if(tokens_, [number](const Token& t) { return t.worker == number; });
    tokens_.push_back({number, w.life, step_});
  }

  const int take_;
  std::vector<Worker> workers_;
  std::vector<Token> tokens_;
  int64_t step_ = 0, dropped_ = 0, restarts_ = 0;
  int done_ = 0;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SYNC_ROUNDS_H_
