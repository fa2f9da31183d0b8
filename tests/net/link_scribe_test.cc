// Connections as CAF's broker has them: what a node says on those that it needs, and does not need.
#include "net/link_scribe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <caf/actor_system.hpp>
#include <thread>
#include <vector>

#include "net/caller.h"
#include "tests/net/processes.h"
#include "troupe/server.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

// Stands between clients and a server, and counts what clients say on each connection.
class Relay {
 public:
  explicit Relay(uint16_t server) : server_(server), listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in at = Loopback(port_);
    const int on = 1;
    ::setsockopt(listening_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    BOOST_REQUIRE(::bind(listening_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0);
    BOOST_REQUIRE(::listen(listening_, 16) == 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() {
    done_ = true;
    thread_.join();
    for (const Pair& p : pairs_) Close(p);
    ::close(listening_);
  }
  HostPort address() const { return {"127.0.0.1", port_}; }
  size_t Said(size_t connection) const { return said_.at(connection); }
  bool Ended(size_t connection) const { return ended_.at(connection); }
  size_t Connections() const { return connections_; }

 private:
  struct Pair {
    int client, server;
    size_t number;
  };
  static void Close(const Pair& p) {
    ::close(p.client);
    ::close(p.server);
  }
  // False at the end of `from`. `count` may be null.
  static bool Pass(int from, int to, std::atomic<size_t>* count) {
    char bytes[4096];
    const ssize_t n = ::recv(from, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    if (count != nullptr) *count += static_cast<size_t>(n);
    return ::send(to, bytes, static_cast<size_t>(n), MSG_NOSIGNAL) == n;
  }
  void Run() {
    while (!done_) {
      std::vector<pollfd> fds{{listening_, POLLIN, 0}};
      for (const Pair& p : pairs_) {
        fds.push_back({p.client, POLLIN, 0});
        fds.push_back({p.server, POLLIN, 0});
      }
      if (::poll(fds.data(), fds.size(), 20) <= 0) continue;
      for (size_t i = pairs_.size(); i-- > 0;) {
        const Pair p = pairs_[i];
        bool good = true;
        if (fds[1 + 2 * i].revents != 0) good = Pass(p.client, p.server, &said_.at(p.number));
        if (good && fds[2 + 2 * i].revents != 0) good = Pass(p.server, p.client, nullptr);
        if (good) continue;
        Close(p);
        ended_.at(p.number) = true;
        pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (fds[0].revents == 0) continue;
      const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in at = Loopback(server_);
      if (::connect(server, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0) done_ = true;
      pairs_.push_back({client, server, connections_++});
    }
  }

  const uint16_t server_, port_ = static_cast<uint16_t>(FreePorts(1)[0]);
  const int listening_;
  std::atomic<bool> done_{false};
  std::array<std::atomic<size_t>, 16> said_{};
  std::array<std::atomic<bool>, 16> ended_{};
  std::atomic<size_t> connections_{0};
  std::vector<Pair> pairs_;  // of the thread
  std::thread thread_;
};

BOOST_AUTO_TEST_SUITE(link_scribe)

// Of a connection that a node closes again, since it has another with the same server, the server
// must not know whose it is: it might choose it for its answers, and they would be lost.
BOOST_AUTO_TEST_CASE(a_connection_that_is_not_needed_says_nothing) {
  ServerOptions options;
  const uint16_t port = static_cast<uint16_t>(FreePorts(1)[0]);
  options.spec = {ClusterSpec::FromFlags(StrCat("ps=127.0.0.1:", port)).value(), {"ps", 0}};
  options.tls.use_environment = false;  // plain: what is said is counted
  const auto server = Server::Start(options).value();
  Relay relay(port);
  const auto config = NodeConfig(60s);
  caf::actor_system client(*config);
  const auto first = ConnectTo(client, relay.address(), 60s, nullptr);
  BOOST_REQUIRE_MESSAGE(first.ok(), first.status());
  BOOST_TEST(Await([&] { return relay.Said(0) > 0; }));
  for (size_t i = 1; i < 8; ++i) {
    const auto again = ConnectTo(client, relay.address(), 60s, nullptr);
    BOOST_REQUIRE_MESSAGE(again.ok(), again.status());
    BOOST_TEST((*again == *first));
    BOOST_TEST(Await([&] { return relay.Ended(i); }));
    BOOST_TEST(relay.Said(i) == 0);
  }
  BOOST_TEST(!relay.Ended(0));
  BOOST_TEST(relay.Connections() == 8);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
