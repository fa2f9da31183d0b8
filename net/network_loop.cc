#include "net/network_loop.h"

#include <sched.h>

#include <algorithm>

#include "actors/threads/loop_turns.h"

namespace troupe {

void NetworkLoop::run() {
  while (num_socket_handlers() > 0) {
    poll_once(true);
    HasCome();
    while (LoopTurns::TakeRan()) {
      waits_ = true;
      since_ = Clock::now();
      messages_ = LoopTurns::Messages();
      if (score_.Pays()) Look();
    }
  }
}

bool NetworkLoop::HasCome() {
  if (!waits_ || LoopTurns::Messages() == messages_) return false;
  waits_ = false;
  score_.Saw(Clock::now() - since_);
  return true;
}

void NetworkLoop::Look() {
  Clock::time_point until = since_ + kLook;
  const Clock::time_point end = until + kLook;
  while (num_socket_handlers() > 0) {
    if (poll_once(false)) {
      if (HasCome()) return;
      // Something that this process sends: the answer may come soon.
      until = std::min(Clock::now() + kLook, end);
    }
    const Clock::time_point asked = Clock::now();
    if (asked > until) return;
    sched_yield();
    if (Clock::now() - asked > kSlice) return score_.Busy();
  }
}

}  // namespace troupe
