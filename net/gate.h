// The port of a server: who connects there, and may pass.
//
// CAF would listen itself; but it never ends a connection on which nobody speaks, and with TLS it
// reads certificates whenever somebody connects, and ends the process when it cannot
// (docs/choices.md). So a thread of the gate's own accepts, brings handshakes to an end, and gives
// CAF only those links whose other side has a certificate. It has kMost places for handshakes, each
// for at most kPatience, and as many for links that have passed and whose other side has not said
// yet who it is, again for kPatience. Neither those who are silent keep many out, nor many who call
// at once each other:
// - while no place is free, the oldest gives up its own, unless it is a newcomer: who has said
//   nothing for a 50th of kPatience, who is in a handshake for a 10th, who has passed for a 20th;
// - while all are newcomers, nobody is accepted: who comes then waits in the system's queue;
// - without a descriptor left, a connection waits, too, or the oldest of those above makes room.
// So of those who say nothing 640 a second go by, by the bounds below, or 256 where links are
// plain. Whoever has ended the handshake is not made to wait: there may be kMost more of those.
//
// Want of memory, and whatever else is thrown on that thread, ends one connection, not the gate.
//
//   state (of a connection)  event                                              next
//   waiting                  there is a free place, or 1 the oldest is cut      greeting
//   waiting                  no place is free, all are newcomers: 6 it waits    waiting
//   greeting                 the handshake is over           2 admit            admitted
//   greeting                 it failed, or its time is over  3 say so, close    (none)
//   admitted                 it has said who it is           4 forget it        (none)
//   admitted                 its time is over                5 cut              (none)
//
// Blocks: Open for a moment; Close and the destructor, for the gate's thread. Thread rule: one
// thread at a time.
//
// Tests of the edges, tests/net/gate_test.cc:
//   1     edge_1_the_oldest_of_many_that_are_silent_makes_room
//   2, 4  edges_2_and_4_who_says_who_it_is_stays
//   3     edge_3_who_is_silent_for_long_or_has_no_certificate_is_refused
//   5     edge_5_who_passes_and_says_nothing_is_cut
//   6     edge_6_while_all_have_just_come_the_next_one_waits
//   6     edge_6_many_who_shake_hands_at_once_all_get_in
//   6     edge_6_many_who_pass_at_once_all_stay
#ifndef TROUPE_NET_GATE_H_
#define TROUPE_NET_GATE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "net/tls_context.h"

namespace troupe {

class Gate {
 public:
  // On the gate's thread; must not block.
  using Admitted = std::function<void(std::unique_ptr<Link>)>;
  struct Bounds {
    size_t most = 64;
    std::chrono::milliseconds patience{5000};
  };
  // Listens at `host` ("": all interfaces). Without `tls` all links are plain, and pass at once.
  // UNAVAILABLE with the system's reason.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(const std::string& host, uint16_t port,
                                                    std::shared_ptr<TlsContext> tls, Admitted admitted) {
    return Open(host, port, std::move(tls), std::move(admitted), Bounds());
  }
  static absl::StatusOr<std::unique_ptr<Gate>> Open(const std::string& host, uint16_t port,
                                                    std::shared_ptr<TlsContext> tls, Admitted admitted, Bounds bounds);
  ~Gate() { Close(); }
  // Nobody is admitted afterwards. Links that were go on.
  void Close();

 private:
  class Loop;
  explicit Gate(std::shared_ptr<Loop> loop);
  std::shared_ptr<Loop> loop_;  // null once it is closed
  std::thread thread_;
};

}  // namespace troupe

#endif  // TROUPE_NET_GATE_H_
