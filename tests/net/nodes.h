// Two nodes of CAF's network with one connection, of which a test makes both ends.
#ifndef TROUPE_TESTS_NET_NODES_H_
#define TROUPE_TESTS_NET_NODES_H_

#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "net/caller.h"
#include "net/link.h"
#include "net/link_scribe.h"
#include "tests/net/processes.h"

namespace troupe {

// Two nodes with a connection: the first one has been called by the second.
struct Nodes {
  Nodes() {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    called_socket = std::make_shared<Socket>(ends[0]);
    caller_socket = std::make_shared<Socket>(ends[1]);
    // With an argument: CAF's header binds a reference to nothing where there is none.
    echo = called.spawn(
        [](caf::event_based_actor*, int) -> caf::behavior { return {[](const std::string& s) { return s; }}; }, 0);
  }
  ~Nodes() { caf::anon_send_exit(echo, caf::exit_reason::user_shutdown); }
  // Who is there, or nobody when it has not said so in time.
  caf::actor Call(std::unique_ptr<Link> link) {
    caf::scoped_actor self(caller);
    caf::actor found;
    self->request(BrokerOf(caller), std::chrono::seconds(20), caf::connect_atom::value,
                  ScribeOf(caller, std::move(link)), uint16_t{1})
        .receive([&](const caf::node_id&, const caf::strong_actor_ptr& a,
                     const std::set<std::string>&) { found = caf::actor_cast<caf::actor>(a); },
                 [](const caf::error&) {});
    return found;
  }
  // What is silent stays silent.
  static std::unique_ptr<caf::actor_system_config> WithoutHeartbeats() {
    auto config = NodeConfig(std::chrono::hours(1));
    config->set("middleman.heartbeat-interval", caf::timespan(0));
    return config;
  }
  const std::unique_ptr<caf::actor_system_config> configs[2] = {WithoutHeartbeats(), WithoutHeartbeats()};
  caf::actor_system called{*configs[0]}, caller{*configs[1]};
  std::shared_ptr<Socket> called_socket, caller_socket;
  caf::actor echo;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_NET_NODES_H_
