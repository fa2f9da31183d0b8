// Connections as CAF's broker has them: what a node says on those that it needs, and does not need;
// what it reads of a link that has read ahead, and what it does not read at all.
#include "net/link_scribe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/multiplexer.hpp>
#include <set>
#include <thread>
#include <vector>

#include "net/caller.h"
#include "tests/net/processes.h"
#include "troupe/server.h"

namespace troupe {
namespace link_scribe_test {

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

// Whether it is there, and what it answers, is one connection's matter.
BOOST_AUTO_TEST_CASE(a_server_is_asked_on_one_connection) {
  ServerOptions options;
  const uint16_t port = static_cast<uint16_t>(FreePorts(1)[0]);
  options.spec = {ClusterSpec::FromFlags(StrCat("ps=127.0.0.1:", port)).value(), {"ps", 0}};
  const auto server = Server::Start(options).value();
  Relay relay(port);
  const auto status = AskServer(relay.address(), 60s);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.status());
  BOOST_TEST(status->task.ToString() == "/job:ps/replica:0/task:0");
  BOOST_TEST(relay.Connections() == 1);
}

// A plain link that reads long messages ahead to their end: what it holds then, the socket does not
// tell.
class Ahead : public Link {
 public:
  explicit Ahead(const std::shared_ptr<Socket>& socket) : Link(socket), under_(PlainLink(socket)) {}
  // The next message; waits for it.
  void ReadMessageAhead() {
    Wait(kHeader);
    Wait(Announced(held_.data() + held_.size() - kHeader));
  }
  Result Handshake(absl::Status* /*why*/) override { return Result::kOk; }
  Result Read(char* to, size_t most, size_t* got) override {
    if (begin_ < held_.size()) {
      *got = std::min(most, held_.size() - begin_);
      std::copy_n(held_.data() + begin_, *got, to);
      begin_ += *got;
      return Result::kOk;
    }
    const Result r = under_->Read(to, most, got);
    if (r == Result::kOk && *got == kHeader && Announced(to) >= kLong) {
      held_.clear();
      begin_ = 0;
      Wait(Announced(to));
      ++long_ones;
    }
    return r;
  }
  Result Peek(absl::Status* why) override { return under_->Peek(why); }
  Result Write(const char* from, size_t size, size_t* taken) override { return under_->Write(from, size, taken); }
  bool Owes() const override { return under_->Owes(); }
  Result Flush() override { return under_->Flush(); }
  bool Holds() const override { return begin_ < held_.size() || under_->Holds(); }
  void Finish() override { under_->Finish(); }

  std::atomic<int> long_ones{0};

 private:
  static constexpr size_t kHeader = 32, kLong = 1 << 20;
  static size_t Announced(const char* header) {
    size_t size = 0;
    for (size_t i = 4; i < 8; ++i) size = size << 8 | static_cast<unsigned char>(header[i]);
    return size;
  }
  void Wait(size_t bytes) {
    size_t have = held_.size();
    held_.resize(have + bytes);
    while (have < held_.size()) {
      size_t got = 0;
      pollfd p{descriptor(), POLLIN, 0};
      const Result r = under_->Read(held_.data() + have, held_.size() - have, &got);
      if (r == Result::kOk) have += got;
      if (r == Result::kAgain) (void)::poll(&p, 1, 1000);
      if (r == Result::kEnd) return held_.resize(have);
    }
  }
  const std::unique_ptr<Link> under_;
  std::vector<char> held_;
  size_t begin_ = 0;
};

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
    self->request(BrokerOf(caller), 20s, caf::connect_atom::value, ScribeOf(caller, std::move(link)), uint16_t{1})
        .receive([&](const caf::node_id&, const caf::strong_actor_ptr& a,
                     const std::set<std::string>&) { found = caf::actor_cast<caf::actor>(a); },
                 [](const caf::error&) {});
    return found;
  }
  // What is silent stays silent.
  static std::unique_ptr<caf::actor_system_config> WithoutHeartbeats() {
    auto config = NodeConfig(3600s);
    config->set("middleman.heartbeat-interval", caf::timespan(0));
    return config;
  }
  const std::unique_ptr<caf::actor_system_config> configs[2] = {WithoutHeartbeats(), WithoutHeartbeats()};
  caf::actor_system called{*configs[0]}, caller{*configs[1]};
  std::shared_ptr<Socket> called_socket, caller_socket;
  caf::actor echo;
};

BOOST_AUTO_TEST_CASE(what_a_link_holds_is_read_although_the_socket_is_silent) {
  Nodes nodes;
  Admit(nodes.called, PlainLink(std::move(nodes.called_socket)), 1, nodes.echo);
  auto link = std::make_unique<Ahead>(nodes.caller_socket);
  Ahead* const ahead = link.get();
  // The greeting, of which the event loop will not be told.
  link->ReadMessageAhead();
  pollfd p{nodes.caller_socket->descriptor(), POLLIN, 0};
  BOOST_REQUIRE(::poll(&p, 1, 0) == 0);
  const caf::actor there = nodes.Call(std::move(link));
  BOOST_REQUIRE(there);
  // So is an answer that takes several turns to be read.
  const std::string big(20 << 20, 'b');
  caf::scoped_actor self(nodes.caller);
  std::string answer;
  self->request(there, 60s, big).receive([&](std::string& s) { answer = std::move(s); }, [](const caf::error&) {});
  BOOST_TEST((answer == big));
  BOOST_TEST(ahead->long_ones == 1);
}

// A plain link on which heartbeats come for ever, while it is told so.
class Endless : public Link {
 public:
  explicit Endless(const std::shared_ptr<Socket>& socket) : Link(socket), under_(PlainLink(socket)) {}
  Result Handshake(absl::Status* /*why*/) override { return Result::kOk; }
  Result Read(char* to, size_t most, size_t* got) override {
    if (!endless || most != 32) return under_->Read(to, most, got);
    ++reads;
    std::fill_n(to, most, '\0');
    to[0] = 6;  // a heartbeat
    *got = most;
    return Result::kOk;
  }
  Result Peek(absl::Status* why) override { return under_->Peek(why); }
  Result Write(const char* from, size_t size, size_t* taken) override { return under_->Write(from, size, taken); }
  bool Owes() const override { return under_->Owes(); }
  Result Flush() override { return under_->Flush(); }
  bool Holds() const override { return endless || under_->Holds(); }
  void Finish() override { under_->Finish(); }

  std::atomic<bool> endless{false};
  std::atomic<int64_t> reads{0};

 private:
  const std::unique_ptr<Link> under_;
};

// A connection that always has something, and says so by its socket, too, has one turn in a round
// of the event loop.
BOOST_AUTO_TEST_CASE(who_always_has_something_leaves_others_their_turns) {
  Nodes nodes;
  Admit(nodes.called, PlainLink(nodes.called_socket), 1, nodes.echo);
  auto link = std::make_unique<Endless>(nodes.caller_socket);
  Endless* const endless = link.get();
  const caf::actor there = nodes.Call(std::move(link));
  BOOST_REQUIRE(there);
  endless->endless = true;
  caf::scoped_actor self(nodes.caller);
  auto asked = self->request(there, 60s, std::string("an answer that stays in the socket"));
  BOOST_REQUIRE(Await([&] { return endless->reads > 1000000; }));
  // Of two things that are done one after the other in the loop, the second waits for few turns.
  auto& loop = nodes.caller.middleman().backend();
  std::atomic<int64_t> meanwhile{-1};
  loop.post([&] {
    const int64_t before = endless->reads;
    loop.post([&, before] { meanwhile = endless->reads - before; });
  });
  BOOST_TEST(Await([&] { return meanwhile >= 0; }));
  BOOST_TEST(meanwhile < 10000);
  endless->endless = false;
  std::string answer;
  asked.receive([&](std::string& s) { answer = std::move(s); }, [](const caf::error&) {});
  BOOST_TEST(answer == "an answer that stays in the socket");
}

// What is announced in a greeting, and would be read for as long as it is small pieces.
BOOST_AUTO_TEST_CASE(a_greeting_that_is_too_long_is_refused_before_it_is_read) {
  for (const bool too_long : {true, false}) {
    Nodes nodes;
    Admit(nodes.called, PlainLink(std::move(nodes.called_socket)), 1, nodes.echo);
    const uint32_t size = (64 << 10) + (too_long ? 1 : 0);
    std::string header(32, '\0');
    header[0] = 1;  // of who calls
    for (size_t i = 0; i < 4; ++i) header[4 + i] = static_cast<char>(size >> (24 - 8 * i));
    const int s = nodes.caller_socket->descriptor();
    BOOST_REQUIRE(::send(s, header.data(), header.size(), MSG_NOSIGNAL) == 32);
    char bytes[4096];
    const auto ended = [&] {
      ssize_t n = 0;
      do {
        n = ::recv(s, bytes, sizeof(bytes), MSG_DONTWAIT);
      } while (n > 0);
      return n == 0;
    };
    if (too_long) {
      BOOST_TEST(Await(ended, 20s));
      continue;
    }
    // As much as that is read, up to its last byte; it makes no sense then.
    std::string garbage(size - 1, 'g');
    BOOST_TEST(::send(s, garbage.data(), garbage.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(garbage.size()));
    BOOST_TEST(!Await(ended, 300ms));
    BOOST_TEST(::send(s, "g", 1, MSG_NOSIGNAL) == 1);
    BOOST_TEST(Await(ended, 20s));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace link_scribe_test
}  // namespace troupe
