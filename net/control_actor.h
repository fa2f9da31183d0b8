// The control actor of a server: what other servers greet, and who greets them. What to do its
// Membership decides, whose table has the protocol (membership.h); the actor keeps the handles of
// the peers' control actors, the timer and the listeners.
//
//   state    message            action                                                             next
//   serving  watch_tasks        1 tell task_up of each that is up, and what comes and goes; the
//                                 1025th listener gets an error                                  serving
//   serving  down of a listener 2 forget it                                                        serving
//   serving  get_cluster_state  3 reply cluster_state                                              serving
//   serving  open_session       7 the host answers; UNAVAILABLE when there is none                 serving
//   serving  own_worker         8 tell its new handle to all that are up or greeted                serving
//   serving  worker_here        9 the runtime hears of the peer's new worker                       serving
//   serving  stop_control       4 say goodbye to all that are up or greeted; refuse who greets     leaving
//   leaving  goodbye_noted, or the peer is down: the last one
//                               5 reply farewells_noted, with nobody                               leaving
//   leaving  (its time is over) 6 reply farewells_noted, with those who have not answered          leaving
//
// A runtime that is given hears of each task that comes, with its worker's handle, and goes
// (actors/runtime/remote_tasks.h): hello and welcome have the handle, so the callee knows the
// caller before it is asked to work.
//
// A handle means one incarnation. It is forgotten when the peer goes down, and whoever takes the
// peer's place has another one. Blocks: never. Thread rule: SpawnControl from any thread.
//
// Tests of the edges, tests/net/control_test.cc:
//   1     edge_1_listeners_are_told_who_comes_and_goes
//   1, 2  who_does_not_listen_any_more_makes_room_for_others
//   3     edge_3_whoever_asks_is_told_how_the_cluster_looks
//   4, 5  edges_4_and_5_who_stops_says_goodbye
//   6     edge_6_who_does_not_answer_a_goodbye_is_named
//   7     edge_7_without_a_host_nobody_opens_a_session
//   8     edge_8_a_worker_that_is_restarted_during_a_greeting_is_told_of
// and tests/net/steps_test.cc:
//   8, 9  edges_8_and_9_a_worker_that_was_restarted_is_known_to_the_others
#ifndef TROUPE_NET_CONTROL_ACTOR_H_
#define TROUPE_NET_CONTROL_ACTOR_H_

#include <functional>
#include <memory>

#include "net/client_messages.h"
#include "net/membership.h"
#include "net/messages.h"

namespace troupe {

class HostedSessions;

// Connects to the control actor at an address and tells `done`, once, on any thread. Called in the
// control actor's turn.
using Dial = std::function<void(const HostPort& address, std::function<void(absl::StatusOr<caf::actor>)> done)>;

// What else of the server the control actor speaks for. All may be null.
struct ControlLinks {
  std::function<caf::actor()> host;  // who opens sessions now (session_host.h), and which there are
  std::shared_ptr<const HostedSessions> sessions;
  std::shared_ptr<Runtime> runtime;
};

// `options` are valid (Server::Start checks them). `seed`: of the jitter.
caf::actor SpawnControl(caf::actor_system& system, const ServerOptions& options, uint64_t incarnation, uint64_t seed,
                        Dial dial, ControlLinks links = {});

}  // namespace troupe

#endif  // TROUPE_NET_CONTROL_ACTOR_H_
