// What is known of the time that a set's steps take, so that short ones may run on the thread that
// asks for them.
//
// The cost of a step is the sum of its turns and jobs in a step that was timed. It may depend on
// more than the sizes of the feeds (on their values, or on variables): a step that kept its
// caller's thread for longer begins elsewhere the next time, and is timed then.
//
// Thread rule: one thread at a time, the one that has leased the set.
#ifndef TROUPE_ACTORS_STEP_STEP_COST_H_
#define TROUPE_ACTORS_STEP_STEP_COST_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "actors/signature/feed_values.h"

namespace troupe {

// What a step may take that begins on its caller's thread: one that has a deadline or token, and
// one with kernels of users, or with parts in other processes ("user_kernels" below).
inline constexpr int64_t kLimitedNanos = 1'000'000, kUsersNanos = 10'000'000;
// What a step may take whose executors the network's thread runs (threads/loop_turns.h).
inline constexpr int64_t kLoopNanos = 100'000;

// The largest feeds with which a step was cheap: their shapes, and for each the number of
// characters in all its strings.
class CheapFeeds {
 public:
  // Records that a step with `feeds` took `nanos`; it was cheap if that is at most `limit`. False
  // when steps with such feeds counted as cheap before and do not any more.
  bool Saw(const std::vector<Tensor>& feeds, int64_t nanos, int64_t limit);
  // True when the recorded feeds are at least as large as `feeds` in every dimension and have the
  // same ranks.
  bool Cover(const FeedValues& feeds) const;
  void Forget() { known_ = false; }

 private:
  static int64_t Characters(const Tensor& feed);
  bool known_ = false;
  std::vector<TensorShape> shapes_;
  std::vector<int64_t> characters_;
};

class StepCost {
 public:
  // `lend_nanos`: what a step may take whose thread the caller of RunAsync lends.
  explicit StepCost(int64_t lend_nanos) : lend_nanos_(lend_nanos) {}
  // A step with these feeds took so long.
  void Saw(const std::vector<Tensor>& feeds, int64_t nanos);
  // A step kept the caller's thread too long: the next one runs elsewhere.
  void Overran();
  // Whether a step with these feeds, which is not to keep its caller's thread, is so short that it
  // may begin there. `limited`: the call has a deadline or a token.
  bool CheapFor(bool limited, bool user_kernels, const FeedValues& feeds) const;
  // Whether a step with these feeds is known to take at most `nanos`, where that is what callers
  // lend or less.
  bool ShortFor(int64_t nanos, const FeedValues& feeds) const;
  // Whether a step with these feeds is known to take at most `nanos`, which are kLimitedNanos or
  // less.
  bool TakesAtMost(int64_t nanos, const FeedValues& feeds) const {
    return measured_nanos_ >= 0 && measured_nanos_ <= nanos && for_lane_.Cover(feeds);
  }
  // Whether the step that begins is to be timed.
  bool TakeMeasureNext() { return std::exchange(measure_next_, false); }

 private:
  const int64_t lend_nanos_;
  int64_t measured_nanos_ = -1;  // of the step that was timed last; negative: none was
  CheapFeeds for_lane_, for_lending_;
  bool measure_next_ = false;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_STEP_COST_H_
