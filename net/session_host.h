// The host of a server: opens sessions for clients, each with a desk of its own (session_desk.h),
// and knows how many there are.
//
//   state    message                    action                                             reply
//   serving  open_session             1 make a session and its desk                        session_opened
//   serving  open_session that does not fit, or when there are too many
//                                     2 nothing                                            session_opened {why not}
//   serving  down of a desk           3 forget it                                          none
//   serving  stop_host                4 end all desks; refuse who comes                    host_stopped, when the last is gone
//   stopping open_session             5 nothing                                            session_opened {UNAVAILABLE}
//   any      (a host dies, and the next one is spawned)
//                                     6 it watches the desks that there are                none
//
// A client is a process: a node of CAF's. The desks do not need the host: sessions go on while
// there is none, and to open one is answered with UNAVAILABLE. The runtime's supervisor restarts
// it. Blocks: never. Thread rule: any thread, but DismissHost where nobody waits for the runtime.
//
// Tests of the edges, tests/net/sessions_test.cc:
//   1, 3     edges_1_to_3_and_9_a_session_is_used_from_elsewhere
//   2        edge_2_sessions_are_bounded_and_options_are_checked
// and tests/net/session_ends_test.cc:
//   4, 5     edge_12_a_server_that_stops_ends_its_sessions
// and tests/net/clients_test.cc:
//   6        edge_6_a_host_that_dies_is_restarted_and_sessions_go_on
#ifndef TROUPE_NET_SESSION_HOST_H_
#define TROUPE_NET_SESSION_HOST_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "net/client_messages.h"
#include "troupe/server.h"
#include "troupe/session.h"

namespace troupe {

// The sessions of a server. Shared with who wants to know of them.
//
// Thread rule: all methods are thread safe.
class HostedSessions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit HostedSessions(const ClientPolicy& policy) : policy_(policy) {}
  // OK: there is place for one more of this client.
  absl::Status MayOpen(const std::string& client) const;
  // `name`: what the client calls itself. `calls`: how many are under way, as its desk counts them.
  // `handle`: of the desk.
  void Opened(uint64_t desk, const std::string& client, const std::string& name, Time now,
              std::shared_ptr<const std::atomic<int64_t>> calls, caf::actor handle = nullptr);
  std::vector<caf::actor> Desks() const;
  void Gone(uint64_t desk);
  std::vector<SessionStatus> Status(Time now) const;

 private:
  struct Hosted {
    std::string client, name;
    Time since;
    std::shared_ptr<const std::atomic<int64_t>> calls;
    caf::actor handle;
  };
  const ClientPolicy policy_;
  mutable std::mutex mu_;
  std::map<uint64_t, Hosted> sessions_;  // by desk
  std::map<std::string, int> counts_;    // by client; never 0
};

// What a client asked for, within what a server keeps for one: at most 1024 signatures and as many
// partial runs, and a report of a step that stands still at most once a second.
SessionOptions WithinBounds(SessionOptions options);

// To a host, answered by host_stopped.
struct stop_host {};
struct host_stopped {
  absl::Status status;
};

caf::actor SpawnHost(caf::actor_system& system, const std::shared_ptr<Runtime>& runtime, const ClientPolicy& policy,
                     std::shared_ptr<HostedSessions> sessions);

// A host as a child of the runtime's supervisor.
void AdoptHost(const std::shared_ptr<Runtime>& runtime, const ClientPolicy& policy,
               std::shared_ptr<HostedSessions> sessions);
// Null while there is none.
caf::actor HostOf(const Runtime& runtime);
// It goes, and no other one comes.
void DismissHost(const Runtime& runtime);

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stop_host)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::host_stopped)

#endif  // TROUPE_NET_SESSION_HOST_H_
