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

#include "actors/train/rounds.h"

namespace troupe::train {

class SyncRounds : public Rounds {
 public:
  SyncRounds(int workers, int take) : take_(take), workers_(static_cast<size_t>(workers)) {}

  void Begin(int64_t step) override {
    step_ = step;
    tokens_.clear();
    for (Worker& w : workers_) w = {.process = w.process};
    done_ = 0;
  }
  void Hear(const int64_t* notice, float loss) override {
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
  bool complete() const override { return done_ >= take_; }
  void Next() override {
    ++step_;
    done_ = 0;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].state == State::kDone) {
        Ask(static_cast<int>(i));
      } else if (workers_[i].state == State::kAsked) {
        workers_[i].state = State::kLate;
      }
    }
  }
  bool is_taken(int worker) const { return workers_[static_cast<size_t>(worker)].state == State::kDone; }
  double mean_loss() const override {
    double sum = 0;
    for (const Worker& w : workers_) sum += w.state == State::kDone ? static_cast<double>(w.loss) : 0.0;
    return done_ == 0 ? 0.0 : sum / done_;
  }
  void AddFeeds(const SyncReplicas& sync, Feeds* feeds) const override {
    if (!sync.taken().valid()) return;
    Tensor taken(DType::kBool, TensorShape({workers()}));
    for (int w = 0; w < workers(); ++w) taken.data<bool>()[w] = is_taken(w);
    feeds->emplace_back(sync.taken().name(), std::move(taken));
  }
  std::string missing() const override {
    std::vector<std::string> missing;
    for (int w = 0; w < workers(); ++w) {
      if (!is_taken(w)) missing.push_back(StrCat(w));
    }
    return StrCat("from these workers: ", StrJoin(missing, ", "));
  }
  bool misses(int worker) const override { return !is_taken(worker); }
  int workers() const override { return static_cast<int>(workers_.size()); }
  bool is_member(int worker) const override { return true; }

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
    if (w.state != State::kDone) Ask(number);
  }
  void Gradient(int number, int64_t life, int64_t step, float loss) {
    Worker& w = workers_[static_cast<size_t>(number)];
    const bool its = (w.state == State::kAsked || w.state == State::kLate) && life == w.life && step == w.asked;
    if (!its || step != step_) ++dropped_;
    if (!its) return;
    if (step != step_) return Ask(number);
    w.state = State::kDone;
    w.loss = loss;
    ++done_;
  }
  void Ask(int number) {
    Worker& w = workers_[static_cast<size_t>(number)];
    w.state = State::kAsked;
    w.asked = step_;
    Hand({.worker = number, .life = w.life, .step = step_, .part = number, .number = step_});
  }

  const int take_;
  std::vector<Worker> workers_;
  int done_ = 0;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SYNC_ROUNDS_H_
