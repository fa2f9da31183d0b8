// The agent of a client's session: the actor that the desk in the server (session_desk.h) answers
// to, and that finds out when either is gone.
//
//   state   message                            action                                             next
//   open    call_answer                      1 the call is answered; what is being sent of it is cancelled at the desk
//                                                                                                 open
//   open    call_answer to a call that is not known
//                                            2 dropped; a partial run that it began is given up   open
//   open    look_at_calls (timer)            3 calls whose time is over are answered, and cancelled at the desk;
//                                              beat, four times in a lease                        open
//   open    beat_noted                       4 note the time                                      open
//   open    cancel_begun                     5 cancel_call to the desk; half a second later, or at once when a part of
//                                              its answer is here, the call is answered without it
//                                                                                                 open
//   open    session_over                     6 calls are answered with its status                 over
//   open    down of the desk                 7 calls are answered UNAVAILABLE                     over
//   open    (silence for the lease)          8 close_session to the desk; as 7                    over
//   open    send_parcel, parcel_piece, piece_taken
//                                           10 as parcels.h; a whole answer is read aside, and then as 1; one that nobody
//                                              waits for is cancelled at the desk, or not sent    open
//   open    end_agent                        9 close_session to the desk; calls are answered CANCELLED
//                                                                                                 over; ended
//
// While the session is over the agent has nothing to do, and ends with the client's object. A look
// that comes late gives the server as much time more: who slept does not judge.
//
// Blocks: never; what calls answer is called in its turn. Owner: the client's session. Thread rule:
// SpawnAgent from any thread.
//
// Tests of the edges, tests/net/sessions_test.cc:
//   1, 4, 9  edges_1_to_3_and_9_a_session_is_used_from_elsewhere
//   10       edge_10_a_call_that_is_over_is_not_sent
// and tests/net/session_ends_test.cc:
//   2, 5     edges_2_and_5_a_call_that_is_cancelled_is_answered_though_the_server_is_silent
//   3        edge_3_a_call_with_a_deadline_is_answered_though_the_server_is_silent
//   6        edge_12_a_server_that_stops_ends_its_sessions
//   7        edge_7_a_server_that_dies_ends_its_sessions
//   8        edge_8_a_server_that_is_silent_ends_its_sessions
// and tests/net/clients_test.cc:
//   10       edge_13_big_tensors_and_graphs_travel_in_pieces
#ifndef TROUPE_NET_SESSION_AGENT_H_
#define TROUPE_NET_SESSION_AGENT_H_

#include <memory>
#include <string>
#include <vector>

#include "net/agent_calls.h"

namespace troupe {

// To an agent: its desk.
struct desk_opened {
  caf::actor desk;
  int64_t lease_ms = 0;
  std::shared_ptr<Runtime> runtime;  // whose actor system has the agent, for what it does aside
};
// To an agent: a call has begun, which is due earlier than others.
struct call_begun {};
struct cancel_begun {
  uint64_t call = 0;
};
// To an agent: these calls wait still, and no other will.
struct end_agent {
  std::vector<std::shared_ptr<AgentCall>> calls;
};
// To an agent: send this to the desk in pieces.
struct send_parcel {
  uint64_t call = 0;
  parcel_piece::Kind kind = parcel_piece::Kind::kExtend;
  std::shared_ptr<const std::vector<char>> bytes;
};
// To an agent: an answer that came in pieces, read.
struct answer_read {
  std::shared_ptr<call_answer> answer;
};
// To an agent, by its own timer.
struct look_at_calls {};

// `server`: how messages call it.
caf::actor SpawnAgent(caf::actor_system& system, std::shared_ptr<AgentCalls> calls, std::string server);

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::desk_opened)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::call_begun)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::cancel_begun)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::end_agent)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::send_parcel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::answer_read)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::look_at_calls)

#endif  // TROUPE_NET_SESSION_AGENT_H_
