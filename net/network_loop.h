// CAF's event loop, which looks for the next message for a moment before it sleeps.
//
// Problem: a thread that sleeps wakes up some 20 to 50 us after its message has come, on a small
// VM: longer than the step of a small graph takes. After a message for a step another one often
// comes soon, so the loop looks again and again, for `kLook` at most, and gives way to every other
// thread in between (a loop that does not took seven times as long where both processes shared a
// core). It notes whether that pays: where messages come later, it seldom looks.
//
// Thread rule: that of CAF's multiplexer.
#ifndef TROUPE_NET_NETWORK_LOOP_H_
#define TROUPE_NET_NETWORK_LOOP_H_

#include <algorithm>
#include <caf/io/network/default_multiplexer.hpp>
#include <chrono>

namespace troupe {

// How often looking has been worth it of late.
class LookScore {
 public:
  // Whether to look now: always while it pays, else each 64th time, to see whether it does now.
  bool Pays() { return score_ > 0 || ++refused_ % 64 == 0; }
  void Saw(bool came) { score_ = std::clamp(score_ + (came ? 1 : -1), 0, kMost); }
  // Somebody else wanted the processor.
  void Busy() { score_ = 0; }

 private:
  static constexpr int kMost = 8;
  int score_ = kMost;
  unsigned refused_ = 0;
};

class NetworkLoop : public caf::io::network::default_multiplexer {
 public:
  // kSlice: who got the processor for so long needs it.
  static constexpr std::chrono::microseconds kLook{50}, kSlice{500};
  explicit NetworkLoop(caf::actor_system* system) : default_multiplexer(system) {}
  void run() override;

 private:
  void Look();
  LookScore score_;
};

}  // namespace troupe

#endif  // TROUPE_NET_NETWORK_LOOP_H_
