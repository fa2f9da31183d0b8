// Who looks beside the loops of elastic training: whether a worker is still there, for the chief,
// which waits for its gradient; and whether this worker is to leave, while it waits for a token.
//
// Thread rule: Members and leaves are thread safe; the rest is for one thread.
#ifndef TROUPE_ACTORS_TRAIN_ELASTIC_WATCH_H_
#define TROUPE_ACTORS_TRAIN_ELASTIC_WATCH_H_

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "actors/threads/aside.h"
#include "actors/train/side_line.h"
#include "troupe/train/train_together.h"

namespace troupe::train {

// Tells the chief, by a notice, of each member that was not there at two looks; and again after
// some ten seconds, as long as it is a member. So who comes back by a notice of its own, though
// is_there still denies it, is believed for that time.
class AbsenceWatch {
 public:
  AbsenceWatch(const Graph* graph, const SyncReplicas& sync, const TrainingOptions& options)
      : sync_(sync),
        options_(options),
        members_(static_cast<size_t>(sync.options().workers), false),
        missed_(members_.size(), 0),
        line_(graph, options.session, [this](SideLine& line) { Look(line); }) {}
  void Members(std::vector<bool> members) {
    std::lock_guard<std::mutex> lock(mu_);
    members_ = std::move(members);
  }

 private:
  void Look(SideLine& line) {
    constexpr int kTwice = 2, kAgain = 200;  // looks
    std::vector<bool> members;
    {
      std::lock_guard<std::mutex> lock(mu_);
      members = members_;
    }
    for (size_t w = 0; w < members.size(); ++w) {
      if (!members[w] || static_cast<int>(w) == sync_.options().worker) continue;
      bool there = true;
      CallUser("TrainingOptions.is_there", [&] { there = options_.is_there(static_cast<int>(w)); });
      missed_[w] = there ? 0 : missed_[w] + 1;
      if (missed_[w] != kTwice) {
        if (missed_[w] >= kAgain) missed_[w] = 0;
        continue;
      }
      const Tensor gone = Tensor::Vector<int64_t>({SyncReplicas::kGone, static_cast<int64_t>(w), 0, 0});
      // That the servers cannot be reached, the chief finds by itself.
      line.Run({{sync_.notice().name(), gone}}, sync_.say()).IgnoreError();
    }
  }

  const SyncReplicas& sync_;
  const TrainingOptions& options_;
  std::mutex mu_;
  std::vector<bool> members_;  // guarded by mu_
  std::vector<int> missed_;    // of the line's thread
  SideLine line_;              // last: it uses the others
};

// Wakes the worker that waits for a token when it is to leave.
class LeaveWatch {
 public:
  LeaveWatch(const Graph* graph, const SyncReplicas& sync, const TrainingOptions& options)
      : sync_(sync), options_(options), line_(graph, options.session, [this](SideLine& line) { Look(line); }) {}
  bool leaves() const { return leaves_; }

 private:
  void Look(SideLine& line) {
    constexpr int kAgain = 20;  // looks
    if (woken_ || (leaves_ && ++looks_ % kAgain != 0)) return;
    bool leaves = false;
    CallUser("TrainingOptions.leaves", [&] { leaves = options_.leaves(); });
    if (!leaves) return;
    leaves_ = true;
    Feeds feeds;
    for (int w = 0; w < sync_.options().workers; ++w) {
      const bool mine = w == sync_.options().worker;
      Tensor rows(DType::kInt64, TensorShape({mine ? 1 : 0, SyncReplicas::kTokenWords}));
      if (mine) {
        std::fill_n(rows.data<int64_t>(), SyncReplicas::kTokenWords, 0);
        rows.data<int64_t>()[1] = SyncReplicas::kLook;
      }
      feeds.emplace_back(sync_.hands()[static_cast<size_t>(w)].name(), std::move(rows));
    }
    woken_ = line.Run(feeds, sync_.hand_out()).ok();
  }

  const SyncReplicas& sync_;
  const TrainingOptions& options_;
  std::atomic<bool> leaves_{false};
  // Of the line's thread.
  bool woken_ = false;
  int looks_ = 0;
  SideLine line_;  // last: it uses the others
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_ELASTIC_WATCH_H_
