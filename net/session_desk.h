// The desk of a session: the actor of a server by which one client uses one session. It owns the
// session, and does for the client what the client's own Session object would do.
//
//   state  message                                action                                              to the client
//   open   extend_session                       1 read the bytes aside; ask the session               call_answer
//   open   prepare_session                      2 ask the session                                     call_answer
//   open   run_session                          3 run it asynchronously, with a token of its own      call_answer
//   open   begin_partial, go_on_partial, reset_session, ask_session (steps)
//                                               4 on a thread of their own, so many at a time          call_answer
//   open   ask_session (devices)                5 ask the runtime                                     call_answer
//   open   a call, or its first piece, when there are too many, or with a number that is in use
//                                               6 nothing is done                                     call_answer, RESOURCE_EXHAUSTED or ALREADY_EXISTS
//   open   cancel_call                          7 cancel its token                                    (the call's own answer)
//   open   parcel_piece, piece_taken           13 as parcels.h; the whole is the message that it is    (its answer)
//   open   client_beat                          8 note the time, as with all calls and pieces         beat_noted
//   open   close_session                        9 close the session                                   nothing; ended
//   open   down of the client                  10 as 9                                                nothing; ended
//   open   (silence for the lease)             11 as 9                                                session_over; ended
//   open   end_desk                            12 as 9                                                session_over; ended
//
// The last piece of a call is taken when the call has been read. A call that is cancelled while it
// is read, or while its answer is made bytes, is one of those under way until that is done: the
// threads that do so are never more than the calls that a client may have.
//
// An answer to a call that is not known any more is dropped. A call whose answer travels in pieces
// is over when the last one was taken. A desk that ends, however it ends,
// closes its session: steps are cancelled, and the state that is the session's own is dropped. A
// look that comes late gives the client as much time more: who slept does not judge.
//
// Blocks: never. Owner: the host (session_host.h). Thread rule: SpawnDesk from any thread.
//
// Tests of the edges, tests/net/sessions_test.cc:
//   1, 2, 3, 9  edges_1_to_3_and_9_a_session_is_used_from_elsewhere
//   5           edge_5_a_client_asks_for_devices
//   6           edge_6_calls_are_bounded_and_have_numbers
//   7           edge_7_a_cancelled_call_ends_its_step
//   13          edge_13_the_metadata_of_a_step_travels_in_pieces
// and tests/net/session_ends_test.cc:
//   8           edge_8_a_client_that_sends_is_not_silent
//   8, 11       edges_8_and_11_a_client_that_is_silent_loses_its_session
//   10          edge_10_a_client_that_dies_loses_its_session
//   12          edge_12_a_server_that_stops_ends_its_sessions
// and tests/net/clients_test.cc:
//   4           edge_4_what_waits_has_threads_of_its_own
//   13          edge_13_big_tensors_and_graphs_travel_in_pieces
#ifndef TROUPE_NET_SESSION_DESK_H_
#define TROUPE_NET_SESSION_DESK_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>

#include "net/client_messages.h"
#include "troupe/server.h"

namespace troupe {

// The calls of a session that are under way, and how long the client has been silent.
//
// Thread rule: belongs to its actor.
class DeskCalls {
 public:
  using Time = std::chrono::steady_clock::time_point;
  DeskCalls(const ClientPolicy& policy, Time now) : policy_(policy), heard_(now), next_look_(now + policy_.lease / 4) {}

  // The token of a call that begins; `waits`: it takes a thread until it is over.
  absl::StatusOr<CancellationToken> Begin(uint64_t call, bool waits);
  // Whether there was such a call.
  bool Over(uint64_t call);
  void Cancel(uint64_t call);
  bool Has(uint64_t call) const { return calls_.contains(call); }
  // OK when so many besides those that have begun can begin, too.
  absl::Status Room(size_t more) const;
  size_t size() const { return calls_.size(); }

  void Heard(Time now) { heard_ = now; }
  // True when the lease is over.
  bool Look(Time now);
  Time NextLook() const { return next_look_; }

  static constexpr int kMostWaiting = 32;

 private:
  struct Call {
    CancellationToken token;
    bool waits = false;
  };
  const ClientPolicy policy_;
  std::map<uint64_t, Call> calls_;
  int waiting_ = 0;
  Time heard_, next_look_;
};

// To a desk, by the host: end. The client is told this.
struct end_desk {
  absl::Status why;
};
// To a desk: the call is over.
struct call_over {
  call_answer answer;
};
// To a desk: a message that came in pieces has been read; an answer has been made bytes.
struct parcel_read {
  uint64_t call = 0;
  absl::Status status;
  std::shared_ptr<run_session> run;  // one of them
  std::shared_ptr<go_on_partial> partial;
};
struct parcel_made {
  uint64_t call = 0;
  absl::Status status;
  std::shared_ptr<const std::vector<char>> bytes;
};
// To a desk, by its own timer.
struct look_at_client {};

// `calls`: how many are under way is written there.
caf::actor SpawnDesk(caf::event_based_actor* host, std::unique_ptr<Session> session, caf::actor client,
                     const ClientPolicy& policy, std::shared_ptr<std::atomic<int64_t>> calls);

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::end_desk)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::call_over)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::look_at_client)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::parcel_read)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::parcel_made)

#endif  // TROUPE_NET_SESSION_DESK_H_
