// CAF's event loop, which looks for the next message for a moment before it sleeps.
//
// Problem: a thread that sleeps wakes up some 20 to 80 us after its message has come, on a small
// VM: longer than the step of a small graph takes. After a message for a step another one often
// comes soon, so the loop looks again and again, for `kLook` at most, and gives way to every other
// thread in between (a loop that does not took seven times as long where both processes shared a
// core). It notes how soon messages come after each other, and does not look where they come later.
//
// Two processes that wait for each other's messages either both look, and have them at once, or
// both sleep, and each has to be woken for each message. So what counts is not whether a message
// came while this loop looked, but how long after the one before it was there. Heartbeats do not
// count, nor does what resumes nobody in this thread, a part of a big message, say.
//
// Thread rule: that of CAF's multiplexer.
#ifndef TROUPE_NET_NETWORK_LOOP_H_
#define TROUPE_NET_NETWORK_LOOP_H_

#include <algorithm>
#include <caf/io/network/default_multiplexer.hpp>
#include <chrono>

namespace troupe {

// Whether looking is worth it, by what happened of late.
class LookScore {
 public:
  // A message that comes within this time of the one before comes soon: both sides may have slept
  // meanwhile.
  static constexpr std::chrono::microseconds kSoon{300};
  // Asked each time that one might look. Now and then it does although messages come late: perhaps
  // they would not if it looked.
  bool Pays() {
    if (refused_ > 0) return --refused_ == 0;
    return score_ > 0 || ++late_ % 64 == 0;
  }
  // So long after a message the next one came. It does not pay when more than one of four is late:
  // to look in vain costs more than a wake-up.
  void Saw(std::chrono::nanoseconds gap) { score_ = std::clamp(score_ + (gap <= kSoon ? 1 : -3), 0, kMost); }
  // Somebody else wanted the processor: a while passes before it looks again.
  void Busy() { refused_ = 64; }

 private:
  static constexpr int kMost = 8;
  int score_ = kMost, refused_ = 0;
  unsigned late_ = 0;  // how often it has not looked
};

class NetworkLoop : public caf::io::network::default_multiplexer {
 public:
  // kSlice: who got the processor for so long needs it.
  static constexpr std::chrono::microseconds kLook{250}, kSlice{500};
  explicit NetworkLoop(caf::actor_system* system) : default_multiplexer(system) {}
  void run() override;

 private:
  using Clock = std::chrono::steady_clock;
  // Until a message has come after that of `since`. False when somebody else wanted the processor,
  // so that when the next one comes says nothing.
  bool Look(Clock::time_point since);

  LookScore score_;
};

}  // namespace troupe

#endif  // TROUPE_NET_NETWORK_LOOP_H_
