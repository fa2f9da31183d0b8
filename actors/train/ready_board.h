// The readiness actor of a runtime: a chief tells it that it has made variables ready, and it tells
// the workers that wait for that.
//
//   message                                      action                                          reply
//   chief_ready                               1 count it, and answer everybody who waits       none
//   get_ready_count                           2 answer                                         ready_count
//   await_ready {after}, more were counted    3 answer at once                                 ready_count
//   await_ready {after}, not more             4 keep the question until 1                      ready_count
//
// A worker asks for the count, looks at its variables, and then waits for more than it was told.
// So a chief that becomes ready in between is not missed. If the actor dies, who waits hears of it
// and looks again; the next one begins to count anew.
//
// Blocks: never. Owner: the runtime's supervisor, which restarts it. Made on first use.
//
// Tests of the edges, tests/monitored/ready_board_test.cc:
//   1, 2, 3, 4  edges_1_to_4_who_waits_hears_of_the_next_chief
#ifndef TROUPE_ACTORS_TRAIN_READY_BOARD_H_
#define TROUPE_ACTORS_TRAIN_READY_BOARD_H_

#include <caf/all.hpp>
#include <chrono>
#include <cstdint>

#include "troupe/runtime.h"

namespace troupe::train {

// A caller's side. Thread rule: one thread that may wait; the runtime must live.
class ReadyBoard {
 public:
  explicit ReadyBoard(Runtime& runtime) : runtime_(runtime) {}
  // A chief is ready.
  void Tell();
  // How many have told. 0 while there is no actor.
  uint64_t Count();
  // Returns when more than `told` have told, or the actor has died. False: `limit` came first.
  bool WaitForMore(uint64_t told, std::chrono::steady_clock::time_point limit);

 private:
  // Null while it is being restarted.
  caf::actor Board();
  Runtime& runtime_;
};

caf::actor SpawnReadyBoard(caf::actor_system& system);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_READY_BOARD_H_
