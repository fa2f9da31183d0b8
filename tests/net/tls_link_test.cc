// Links with TLS by themselves, over a pair of sockets: keys that are used up, and a handshake for
// whose end the socket has no room.
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "net/tls_context.h"
#include "tests/net/certificates.h"
#include "tests/net/processes.h"

namespace troupe {
namespace tls_link_test {

using namespace std::chrono_literals;
using Result = Link::Result;

struct Sockets {
  Sockets() {
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    server = std::make_shared<Socket>(ends[0]);
    client = std::make_shared<Socket>(ends[1]);
  }
  std::shared_ptr<Socket> server, client;
};

// Both ends by one context, and one thread.
struct Pair {
  explicit Pair(TlsContext* context) {
    const Sockets sockets;
    server = context->Accept(sockets.server).value();
    client = context->Connect(sockets.client).value();
  }
  // The server is through only when it has the client's certificate, which is sent last.
  void Handshake() {
    absl::Status why;
    Result s = Result::kAgain, c = Result::kAgain;
    BOOST_REQUIRE(Await([&] {
      if (c != Result::kOk) c = client->Handshake(&why);
      if (s != Result::kOk) s = server->Handshake(&why);
      return s != Result::kAgain && c != Result::kAgain;
    }));
    BOOST_REQUIRE_MESSAGE((s == Result::kOk && c == Result::kOk), why);
  }
  std::unique_ptr<Link> server, client;
};

// One direction, as a program has it: bytes in pieces of many sizes, and what has arrived of them.
class Direction {
 public:
  Direction(Link* from, Link* to, size_t size, uint32_t factor) : from_(from), to_(to), sent_(size) {
    for (size_t i = 0; i < size; ++i) sent_[i] = static_cast<char>(i * factor >> 13);
  }
  void Go() {
    size_t n = 0;
    const size_t some = std::min(sent_.size() - out_, kPieces[turn_++ % std::size(kPieces)]);
    if (some == 0) {
      (void)from_->Flush();
    } else if (const Result r = from_->Write(sent_.data() + out_, some, &n); r == Result::kOk) {
      out_ += n;
    } else if (r == Result::kEnd) {
      ended_ = true;
    }
    char piece[50000];
    switch (to_->Read(piece, sizeof(piece), &n)) {
      case Result::kOk:
        in_.insert(in_.end(), piece, piece + n);
        return;
      case Result::kEnd:
        ended_ = true;
        return;
      case Result::kAgain:
        return;
    }
  }
  bool Over() const { return ended_ || in_.size() >= sent_.size(); }
  bool Right() const { return in_ == sent_; }

 private:
  static constexpr size_t kPieces[] = {1, 100, 16384, 16385, 7, 200000};
  Link* const from_;
  Link* const to_;
  std::vector<char> sent_, in_;
  size_t out_ = 0, turn_ = 0;
  bool ended_ = false;
};

// A peer of OpenSSL's alone, which counts the changes of keys that it hears of.
struct Peer {
  Peer(const TlsOptions& o, const Socket& socket) : context(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free) {
    BOOST_REQUIRE(::SSL_CTX_use_certificate_chain_file(context.get(), o.certificate.c_str()) == 1);
    BOOST_REQUIRE(::SSL_CTX_use_PrivateKey_file(context.get(), o.key.c_str(), SSL_FILETYPE_PEM) == 1);
    ssl.reset(::SSL_new(context.get()));
    ::SSL_set_fd(ssl.get(), socket.descriptor());
    ::SSL_set_msg_callback(ssl.get(), [](int writes, int, int type, const void* bytes, size_t size, SSL*, void* me) {
      constexpr unsigned char kKeyUpdate = 24;
      const auto* const b = static_cast<const unsigned char*>(bytes);
      if (writes != 0 || type != SSL3_RT_HANDSHAKE || size != 5 || b[0] != kKeyUpdate) return;
      ++static_cast<Peer*>(me)->updates;
      if (b[4] != SSL_KEY_UPDATE_NOT_REQUESTED) ++static_cast<Peer*>(me)->requests;
    });
    ::SSL_set_msg_callback_arg(ssl.get(), this);
  }
  std::string Read(size_t size) {
    std::string all;
    while (all.size() < size) {
      char piece[1000];
      const int n = ::SSL_read(ssl.get(), piece, sizeof(piece));
      if (n <= 0) return all;
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl{nullptr, &::SSL_free};
  int updates = 0, requests = 0;
};

BOOST_AUTO_TEST_SUITE(tls_link)

// Each side changes the key of what it writes, and does not ask the other to.
BOOST_AUTO_TEST_CASE(a_key_is_changed_after_so_many_records) {
  const TestCa ca;
  const TlsOptions o = ca.Issue("node");
  const auto context = OpenTls(o, "", 4).value();
  const Sockets sockets;
  const auto link = context->Accept(sockets.server).value();
  Peer peer(o, *sockets.client);
  std::string heard;
  std::thread other([&] {
    if (::SSL_connect(peer.ssl.get()) == 1) heard = peer.Read(9 + 20000);
  });
  absl::Status why;
  Result shaken = Result::kAgain;
  BOOST_TEST(Await([&] { return (shaken = link->Handshake(&why)) != Result::kAgain; }));
  BOOST_TEST((shaken == Result::kOk), why);
  std::string said = "123456789";
  size_t taken = 0;
  for (const char& c : said) BOOST_TEST((link->Write(&c, 1, &taken) == Result::kOk));
  const std::string two_records(20000, 'y');
  BOOST_TEST((link->Write(two_records.data(), two_records.size(), &taken) == Result::kOk && taken == 20000));
  other.join();
  BOOST_TEST((heard == said + two_records));
  // Before the fifth and the ninth; two more records are three of the last one.
  BOOST_TEST(peer.updates == 2);
  BOOST_TEST(peer.requests == 0);
  BOOST_TEST((link->Write("z", 1, &taken) == Result::kOk));
  BOOST_TEST(peer.Read(1) == "z");
  BOOST_TEST(peer.updates == 2);
  BOOST_TEST((link->Write("z", 1, &taken) == Result::kOk));
  BOOST_TEST(peer.Read(1) == "z");
  BOOST_TEST(peer.updates == 3);
}

// Messages in both directions at once, over hundreds of changes on both sides.
BOOST_AUTO_TEST_CASE(both_directions_go_on_while_keys_change) {
  const TestCa ca;
  const auto context = OpenTls(ca.Issue("node"), "", 3).value();
  Pair pair(context.get());
  pair.Handshake();
  Direction there(pair.client.get(), pair.server.get(), 20 << 20, 2654435761u);
  Direction back(pair.server.get(), pair.client.get(), 20 << 20, 2246822519u);
  BOOST_TEST(Await(
      [&] {
        for (int i = 0; i < 100; ++i) {
          there.Go();
          back.Go();
        }
        return there.Over() && back.Over();
      },
      120s));
  BOOST_TEST(there.Right());
  BOOST_TEST(back.Right());
}

// One direction alone: the side that only reads has nothing to send.
BOOST_AUTO_TEST_CASE(one_direction_goes_on_while_its_keys_change) {
  const TestCa ca;
  const auto context = OpenTls(ca.Issue("node"), "", 3).value();
  Pair pair(context.get());
  pair.Handshake();
  Direction there(pair.client.get(), pair.server.get(), 5 << 20, 2654435761u);
  BOOST_TEST(Await(
      [&] {
        for (int i = 0; i < 100; ++i) there.Go();
        return there.Over();
      },
      120s));
  BOOST_TEST(there.Right());
  BOOST_TEST(!pair.server->Owes());
}

// The client's part of the handshake is over when its certificates have been written; the socket
// has room for few of them.
BOOST_AUTO_TEST_CASE(the_end_of_a_long_handshake_is_sent_while_an_answer_is_awaited) {
  const TestCa ca;
  const TlsOptions o = ca.Issue("node");
  {
    std::ofstream chain(o.certificate, std::ios::app);
    for (int i = 0; i < 100; ++i) chain << ca.Text();
  }
  const auto context = OpenTls(o, "").value();
  const Sockets sockets;
  const int small = 1;  // the system's least
  BOOST_REQUIRE(::setsockopt(sockets.client->descriptor(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
  const auto server = context->Accept(sockets.server).value(), client = context->Connect(sockets.client).value();
  absl::Status why;
  Result s = Result::kAgain, c = Result::kAgain;
  // The server answers the greeting, and reads nothing more for a while.
  BOOST_REQUIRE((client->Handshake(&why) == Result::kAgain));
  BOOST_REQUIRE(Await([&] {
    if (server->Owes() || s == Result::kAgain) s = server->Owes() ? server->Flush() : server->Handshake(&why);
    c = client->Handshake(&why);
    return c != Result::kAgain;
  }));
  BOOST_REQUIRE_MESSAGE((c == Result::kOk), why);
  BOOST_REQUIRE(client->Owes());
  BOOST_TEST((client->Peek(&why) == Result::kAgain));
  // Whoever connects does nothing but Peek from now on.
  s = Result::kAgain;
  BOOST_TEST(Await(
      [&] {
        s = server->Handshake(&why);
        if (s == Result::kOk) return true;
        return client->Peek(&why) == Result::kEnd;
      },
      20s));
  BOOST_TEST((s == Result::kOk), why);
  size_t taken = 0;
  BOOST_TEST((server->Write("x", 1, &taken) == Result::kOk));
  BOOST_TEST(Await([&] { return client->Peek(&why) == Result::kOk; }, 20s));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tls_link_test
}  // namespace troupe
