// Where the clock of another process stands.
//
// Clocks of processes on different hosts count from different moments, and one process cannot read
// another's. But a message is not heard before it was sent. So each message bounds the offset, the
// other clock's reading minus this one's at the same moment: one that goes there from above, one
// that comes back from below. The bounds are as far apart as the fastest messages of each direction
// took on their way, however slow the others were: that is the filter for the shortest round trip
// of the network time protocol (RFC 5905), taken for each direction alone. The offset is estimated
// as the middle, and is then wrong by half of the distance at most.
//
// Two clocks do not run equally fast. Bounds of before are let out by what they may have drifted
// since, and forgotten where they contradict new ones: then a clock was set, or its host slept.
//
// Thread rule: a plain value.
#ifndef TROUPE_ACTORS_TRACE_CLOCK_BOUNDS_H_
#define TROUPE_ACTORS_TRACE_CLOCK_BOUNDS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace troupe {

class ClockBounds {
 public:
  // Of what passes, a clock gains or loses a ten-thousandth at most: a quartz is ten times better.
  static constexpr int64_t kDriftDivisor = 10000;

  // A question and its answer: sent and heard by this clock, asked and answered by the other one.
  void Exchange(int64_t sent, int64_t asked, int64_t answered, int64_t heard) {
    const ClockBounds old = *this;
    *this = ClockBounds();
    at_ = heard;
    // In a long exchange the clocks may drift by more than the ways took: then these cross.
    low_ = std::min(asked - sent, answered - heard);
    high_ = std::max(asked - sent, answered - heard);
    if (!old.known()) return;
    const int64_t drift = std::max<int64_t>(0, heard - old.at_) / kDriftDivisor + 1;
    const int64_t low = std::max(low_, old.low_ - drift), high = std::min(high_, old.high_ + drift);
    if (low > high) return;
    low_ = low;
    high_ = high;
  }
  // A message that was sent by this clock's `here`, and heard by the other clock's `there`. What
  // contradicts the other bound is not taken.
  void Sent(int64_t here, int64_t there) { LimitHigh(there - here); }
  // One that was sent by the other clock's `there`, and heard by this clock's `here`.
  void Heard(int64_t there, int64_t here) { LimitLow(there - here); }
  void LimitHigh(int64_t high) {
    if (high >= low_) high_ = std::min(high_, high);
  }
  void LimitLow(int64_t low) {
    if (low <= high_) low_ = std::max(low_, low);
  }

  // Whether messages went both ways; the rest means something only then.
  bool known() const { return low_ != kLowest && high_ != kHighest; }
  int64_t low() const { return low_; }
  int64_t high() const { return high_; }
  int64_t offset() const { return low_ + (high_ - low_) / 2; }
  int64_t uncertainty() const { return (high_ - low_ + 1) / 2; }

 private:
  // Far enough from the ends of the range for sums.
  static constexpr int64_t kHighest = std::numeric_limits<int64_t>::max() / 4, kLowest = -kHighest;
  int64_t low_ = kLowest, high_ = kHighest, at_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_TRACE_CLOCK_BOUNDS_H_
