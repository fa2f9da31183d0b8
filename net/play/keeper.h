// The actor that keeps the actors of one process of a topology: it makes them, names them, makes
// them again by their policies, and tells them of those in other processes that they use.
//
//   state (of an actor)  message              action                                              next
//   (new)         begin_keeping               1 make it, monitor it, name it; part_up to it for each
//                                               peer that it uses and that is up                   up
//   up            down                        2 wait as its policy says                            waiting
//   up            down, which its policy forgives no more
//                                             3 give it up; tell `over` if that ends the process   given up
//   waiting       make_again                  4 as 1, its next incarnation                         up
//   (new), waiting (it cannot be made, or named)
//                                             5 as 2 or 3                                          waiting, or given up
//
//   state (of a peer)    message              action                                              next
//   (new)         begin_keeping               6 call its address                                   calling
//   calling       peer_called (an actor)      7 monitor it, name it; part_up to those who use it   up
//   calling       peer_called (an error)      8 call it again after a delay                        calling
//   up            down                        9 part_down to those who use it; as 8                calling
//
//   any           exit                       10 stop the actors                                    gone
//
// What ends by itself, normally or as user_shutdown, has not failed: unless its policy is to make
// it again always, it is forgotten, and `over` is told when it was all of the process.
//
// Thread rule: SpawnKeeper from any thread; `make`, `named` and `over` are called in the actor's
// turn.
//
// Tests of the edges, tests/play/keeper_test.cc:
//   1, 4     edges_1_and_4_an_actor_is_made_named_and_made_again
//   2, 3     edges_2_and_3_an_actor_that_fails_too_often_is_given_up
//   5        edge_5_an_actor_that_cannot_be_made_has_failed
//   6, 7, 9  edges_6_7_and_9_those_who_use_a_peer_are_told_of_it
//   8        edge_8_a_peer_is_called_until_it_is_there
//   10       edge_10_the_end_stops_the_actors
#ifndef TROUPE_NET_PLAY_KEEPER_H_
#define TROUPE_NET_PLAY_KEEPER_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "actors/supervision/supervisor.h"
#include "net/control_actor.h"
#include "troupe/play_actors.h"

namespace troupe::play {

struct KeptActor {
  std::string name;
  RestartPolicy policy;  // `escalate`: to give it up ends the process
  bool whole = false;    // its end is the end of the process, also when it ends well
  std::vector<std::string> uses;
  std::function<absl::StatusOr<caf::actor>(uint64_t incarnation)> make;
  // It is there; may be empty.
  std::function<absl::Status(const caf::actor& actor)> named;
};

// An actor of another process.
struct KeptPeer {
  std::string name;
  HostPort address;
  std::function<absl::Status(const caf::actor& actor)> named;  // as above
};

struct KeeperOptions {
  std::vector<KeptActor> actors;
  std::vector<KeptPeer> peers;
  Dial dial;
  std::chrono::milliseconds call_again_after{100};
  // An actor has ended, or was given up, whose end is that of the process. Called once.
  std::function<void(absl::Status why)> over;
};

caf::actor SpawnKeeper(caf::actor_system& system, KeeperOptions options);

struct begin_keeping {};
struct make_again {
  size_t actor = 0;
};
struct peer_called {
  size_t peer = 0;
  absl::StatusOr<caf::actor> found;
};
struct call_again {
  size_t peer = 0;
};

}  // namespace troupe::play

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::play::begin_keeping)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::play::make_again)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::play::peer_called)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::play::call_again)

#endif  // TROUPE_NET_PLAY_KEEPER_H_
