// What the chief of elastic training knows of its workers and of the parts of the step, and whom it
// hands which part: a machine without input and output (troupe/train/sync_replicas.h).
//
//   worker  event                           action                                             next
//   away    hello(life)                   1 it has come; the first free part of the step        busy, or idle
//   busy    gradient(its life and number) 2 the part is done; the first free part               busy, or idle
//   idle    a part becomes free           3 a token of the part                                 busy
//   busy    hello(life), the worker anew  4 its part is free; the first free part               busy
//   idle    hello(life), the worker anew  5 noted; the first free part                          busy, or idle
//   busy    leaves(its life, or later)    6 its part is free                                    away
//   idle    leaves(its life, or later)    7 noted                                               away
//   away    leaves(life)                  8 noted                                               away
//   busy    gone                          9 its part is free                                    away
//   idle    gone                         10 noted                                               away
//   away    gradient(its life)           11 dropped, counted; as 1: it lives                    busy, or idle
//   any     gradient(another number)     12 dropped, counted                                    as before
//   any     leaves(a life before)        13 nothing                                             as before
//   any     the step is over             14 all parts of the next one are free                  busy, or idle
//   any     Begin                        15 its life is forgotten                               unheard, or away
//   any     no worker, or no notice      16 dropped, counted                                    as before
//   unheard hello(life)                  17 it has not come just now; else as 1                 busy, or idle
//   unheard gone                         18 it is told: it had come                             away
//   unheard leaves(life)                 19 it is told: it had come                             away
//
// Unheard is who had come when the chief began anew, at a checkpoint or as it was, and has not said
// hello since: it has no part and gets none, but is still counted, asked for, and told of when it
// goes. Whoever else is not there is away.
//
// Parts that are free go, in their order, to the idle workers in theirs; first to those that had
// none in the last step, when there are more workers than parts. A worker has one part at a time,
// so a slow one computes fewer of them. A token's number is used once, also after the chief was
// another process, whose numbers begin elsewhere.
//
// Thread rule: one thread.
//
// Tests of the edges, tests/monitored/part_rounds_test.cc:
//   1, 2, 3, 14  edges_1_2_3_and_14_parts_go_to_whoever_is_idle
//   4, 5         edges_4_and_5_a_worker_that_begins_anew
//   6, 7, 8, 13  edges_6_7_8_and_13_a_worker_leaves
//   9, 10, 11    edges_9_10_and_11_a_worker_is_gone_and_comes_back
//   12, 16       edges_12_and_16_what_is_of_no_token_is_dropped
//   15           edge_15_after_a_loss_nobody_is_known
//   17, 18, 19   edges_17_18_and_19_who_had_come_before_a_loss_is_still_told_of
#ifndef TROUPE_ACTORS_TRAIN_PART_ROUNDS_H_
#define TROUPE_ACTORS_TRAIN_PART_ROUNDS_H_

#include "actors/train/rounds.h"

namespace troupe::train {

class PartRounds : public Rounds {
 public:
  // `first_number`: of its tokens, and another one for each chief.
  PartRounds(int workers, int parts, int64_t first_number)
      : number_(first_number), workers_(static_cast<size_t>(workers)), parts_(static_cast<size_t>(parts)) {}

  void Begin(int64_t step) override {
    step_ = step;
    tokens_.clear();
    for (Worker& w : workers_) w = {.process = w.process, .member = w.member};
    FreeAll();
  }
  void Hear(const int64_t* notice, float loss) override {
    const int64_t number = notice[1], life = notice[2];
    if (number < 0 || number >= static_cast<int64_t>(workers_.size())) {
      ++dropped_;
      return;
    }
    const int w = static_cast<int>(number);
    switch (notice[0]) {
      case SyncReplicas::kHello:
        Hello(w, life);
        break;
      case SyncReplicas::kGradient:
        Gradient(w, life, notice[3], loss);
        break;
      case SyncReplicas::kLeaves:
        Leaves(w, life);
        break;
      case SyncReplicas::kGone:
        if (at(w).member) Go(w, Change::kGone);
        break;
      default:
        ++dropped_;
    }
    Deal();
  }
  bool complete() const override { return done_ == static_cast<int>(parts_.size()); }
  void Next() override {
    ++step_;
    FreeAll();
    Deal();
  }
  double mean_loss() const override {
    double sum = 0;
    for (const Part& p : parts_) sum += static_cast<double>(p.loss);
    return sum / static_cast<double>(parts_.size());
  }
  void AddFeeds(const SyncReplicas& sync, Feeds* feeds) const override {
    Tensor numbers(DType::kInt64, TensorShape({static_cast<int64_t>(parts_.size())}));
    for (size_t p = 0; p < parts_.size(); ++p) numbers.data<int64_t>()[p] = parts_[p].number;
    feeds->emplace_back(sync.numbers().name(), std::move(numbers));
  }
  std::string missing() const override {
    std::vector<std::string> missing;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].done) continue;
      const int w = parts_[p].worker;
      missing.push_back(StrCat(p, w < 0 ? std::string(" (nobody has it)") : StrCat(" (worker ", w, " has it)")));
    }
    return StrCat("of these parts: ", StrJoin(missing, ", "));
  }
  // Also for parts that nobody has: it might have come for one.
  bool misses(int worker) const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const Part& p) { return !p.done && (p.worker == worker || p.worker < 0); });
  }
  int workers() const override {
    return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.member; }));
  }
  // It has come, and neither left nor was lost.
  bool is_member(int worker) const override { return workers_[static_cast<size_t>(worker)].member; }

 private:
  struct Worker {
    bool away = true;   // or unheard, when it is a member
    int part = -1;      // that it has a token of
    int64_t last = -1;  // the last step of which it had one
    int64_t life = 0, process = 0;
    bool member = false;  // busy, idle or unheard
  };
  struct Part {
    int worker = -1;  // that has it, or had it; -1: it is free
    int64_t number = 0;
    bool done = false;
    float loss = 0;
  };
  Worker& at(int worker) { return workers_[static_cast<size_t>(worker)]; }

  void FreeAll() {
    for (Part& p : parts_) p = {};
    for (Worker& w : workers_) w.part = -1;
    done_ = 0;
  }
  // The part that a worker has is nobody's.
  void Free(Worker* w) {
    if (w->part >= 0) parts_[static_cast<size_t>(w->part)] = {};
    w->part = -1;
  }
  void Come(int worker) {
    at(worker).away = false;
    if (!std::exchange(at(worker).member, true)) changes_.push_back({worker, Change::kJoined});
  }
  void Go(int worker, Change::Kind how) {
    Worker& w = at(worker);
    Free(&w);
    std::erase_if(tokens_, [&](const Token& t) { return t.worker == worker; });
    w.away = true;
    if (std::exchange(w.member, false)) changes_.push_back({worker, how});
  }
  void Hello(int worker, int64_t life) {
    Worker& w = at(worker);
    const int64_t process = life >> kLifeBits;
    if (w.process != 0 && w.process != process) ++restarts_;
    w.process = process;
    w.life = life;
    Free(&w);
    Come(worker);
  }
  void Gradient(int worker, int64_t life, int64_t number, float loss) {
    Worker& w = at(worker);
    const bool its = w.part >= 0 && life == w.life && number == parts_[static_cast<size_t>(w.part)].number;
    if (!its) {
      ++dropped_;
      // It was taken for lost: who sends is there, and has nothing to do.
      if (w.away && w.life != 0 && life == w.life) Come(worker);
      return;
    }
    Part& p = parts_[static_cast<size_t>(w.part)];
    p.done = true;
    p.loss = loss;
    w.part = -1;
    ++done_;
  }
  void Leaves(int worker, int64_t life) {
    Worker& w = at(worker);
    // Of a later life the hello has not been heard.
    if (!w.away && (life >> kLifeBits != w.process || life < w.life)) return;
    Go(worker, Change::kLeft);
    w.life = w.process = 0;  // what comes next is another process, and no restart
  }
  // The idle worker that has had no part for the longest.
  int NextIdle() const {
    int next = -1;
    for (int w = 0; w < static_cast<int>(workers_.size()); ++w) {
      const Worker& it = workers_[static_cast<size_t>(w)];
      if (it.away || it.part >= 0) continue;
      if (next < 0 || it.last < workers_[static_cast<size_t>(next)].last) next = w;
    }
    return next;
  }
  void Deal() {
    for (int p = 0; p < static_cast<int>(parts_.size()); ++p) {
      if (parts_[static_cast<size_t>(p)].worker >= 0) continue;
      const int worker = NextIdle();
      if (worker < 0) return;
      Worker& w = at(worker);
      parts_[static_cast<size_t>(p)] = {.worker = worker, .number = ++number_};
      w.part = p;
      w.last = step_;
      Hand({worker, w.life, step_, p, number_});
    }
  }

  int64_t number_;
  std::vector<Worker> workers_;
  std::vector<Part> parts_;
  int done_ = 0;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_PART_ROUNDS_H_
