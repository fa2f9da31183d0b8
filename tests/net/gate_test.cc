// The gate of a port: who may pass, and how little those who may not can do. With real sockets.
#include "net/gate.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <mutex>
#include <thread>
#include <vector>

#include "net/probe.h"
#include "tests/net/certificates.h"
#include "tests/net/processes.h"

namespace troupe {
namespace gate_test {

using namespace std::chrono_literals;

struct Client {
  explicit Client(uint16_t port) : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BOOST_REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0);
  }
  ~Client() { ::close(socket); }
  void Say(const std::string& what) const { (void)!::send(socket, what.data(), what.size(), MSG_NOSIGNAL); }
  // The other side has closed it; what it said before is not looked at.
  bool Ended() const {
    char byte = 0;
    ssize_t n = 0;
    do {
      n = ::recv(socket, &byte, 1, MSG_DONTWAIT);
    } while (n > 0);
    return n == 0 || (errno != EAGAIN && errno != EINTR);
  }
  const int socket;
};

// A gate that keeps who passes, and speaks to them as a server does.
struct Port {
  Port(const std::shared_ptr<TlsContext>& tls, Gate::Bounds bounds) : port(static_cast<uint16_t>(FreePorts(1)[0])) {
    auto opened = Gate::Open(
        "127.0.0.1", port, tls,
        [this](std::unique_ptr<Link> link) {
          size_t taken = 0;
          (void)link->Write("x", 1, &taken);
          link->socket()->greeted = greeted;
          std::lock_guard<std::mutex> lock(mu);
          passed.push_back(std::move(link));
        },
        bounds);
    BOOST_REQUIRE_MESSAGE(opened.ok(), opened.status());
    gate = *std::move(opened);
  }
  size_t Passed() {
    std::lock_guard<std::mutex> lock(mu);
    return passed.size();
  }
  HostPort Address() const { return {"127.0.0.1", port}; }
  const uint16_t port;
  bool greeted = false;  // all of them at once, when they pass
  std::mutex mu;
  std::vector<std::unique_ptr<Link>> passed;
  std::unique_ptr<Gate> gate;  // the first to go
};

std::shared_ptr<TlsContext> Tls(const TlsOptions& o) { return TlsContext::Make(o).value(); }
std::shared_ptr<TlsContext> NoTls() { return nullptr; }
std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }
size_t Open(const std::vector<std::unique_ptr<Client>>& clients) {
  return static_cast<size_t>(std::count_if(clients.begin(), clients.end(), [](const auto& c) { return !c->Ended(); }));
}

BOOST_AUTO_TEST_SUITE(gate)

BOOST_AUTO_TEST_CASE(edge_1_the_oldest_of_many_that_are_silent_makes_room) {
  const TestCa ca;
  const auto tls = Tls(ca.Issue("node"));
  Port port(tls, {.most = 4, .patience = 20s});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(std::make_unique<Client>(port.port));
  BOOST_TEST(Await([&] { return Open(silent) == 4; }));
  BOOST_TEST(silent[0]->Ended());
  BOOST_TEST(!silent[11]->Ended());
  // They keep nobody out.
  const auto reached = Probe(port.Address(), 20s, nullptr, tls);
  BOOST_TEST(reached.ok(), reached.status());
  BOOST_TEST(Await([&] { return port.Passed() == 1; }));
  BOOST_TEST(Open(silent) == 3);
}

BOOST_AUTO_TEST_CASE(edge_6_while_all_have_just_come_the_next_one_waits) {
  const TestCa ca;
  const auto tls = Tls(ca.Issue("node"));
  Port port(tls, {.most = 4, .patience = 1h});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(std::make_unique<Client>(port.port));
  BOOST_TEST(CodeOf(Probe(port.Address(), 300ms, nullptr, tls).status()) == "UNAVAILABLE");
  BOOST_TEST(Open(silent) == 4);
  // One of them goes by itself.
  silent.pop_back();
  const auto reached = Probe(port.Address(), 60s, nullptr, tls);
  BOOST_TEST(reached.ok(), reached.status());
  BOOST_TEST(Open(silent) == 3);
}

// More than have a place, all in the handshake together.
BOOST_AUTO_TEST_CASE(edge_6_many_who_shake_hands_at_once_all_get_in) {
  const TestCa ca;
  const auto tls = Tls(ca.Issue("node"));
  Port port(tls, {.most = 16, .patience = 1h});
  port.greeted = true;
  std::atomic<int> in{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 300; ++i) {
    callers.emplace_back([&] { in += Probe(port.Address(), 120s, nullptr, tls).ok() ? 1 : 0; });
  }
  for (std::thread& t : callers) t.join();
  BOOST_TEST(in == 300);
}

// More than have a place pass, and say after a while who they are.
BOOST_AUTO_TEST_CASE(edge_6_many_who_pass_at_once_all_stay) {
  Port port(NoTls(), {.most = 16, .patience = 1h});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(std::make_unique<Client>(port.port));
  size_t greeted = 0;
  BOOST_TEST(Await([&] {
    // Of those who have passed since the last time; they cannot be more than have a place.
    std::lock_guard<std::mutex> lock(port.mu);
    BOOST_TEST(port.passed.size() <= greeted + 16);
    for (; greeted < port.passed.size(); ++greeted) port.passed[greeted]->socket()->greeted = true;
    return greeted == 300;
  }));
  BOOST_TEST(Open(clients) == 300);
}

// As many as fill the places many times over, with certificates and without.
BOOST_AUTO_TEST_CASE(who_is_silent_keeps_nobody_out_within_the_patience) {
  const TestCa ca;
  const Gate::Bounds bounds;
  const std::pair<std::shared_ptr<TlsContext>, int> cases[] = {{Tls(ca.Issue("node")), 1000}, {NoTls(), 500}};
  for (const auto& [tls, count] : cases) {
    Port port(tls, bounds);
    std::vector<std::unique_ptr<Client>> silent;
    for (int i = 0; i < count; ++i) silent.push_back(std::make_unique<Client>(port.port));
    const auto reached = Probe(port.Address(), bounds.patience, nullptr, tls);
    BOOST_TEST(reached.ok(), reached.status());
  }
}

BOOST_AUTO_TEST_CASE(edges_2_and_4_who_says_who_it_is_stays) {
  Port port(NoTls(), {.most = 4, .patience = 1500ms});
  const Client client(port.port);
  BOOST_REQUIRE(Await([&] { return port.Passed() == 1; }));
  port.passed[0]->socket()->greeted = true;
  std::this_thread::sleep_for(3000ms);
  BOOST_TEST(!client.Ended());
}

// What a client without a certificate hears. It finds out when it reads, since its own part of the
// handshake is over before the server has seen that there is none.
std::string WithoutCertificate(const Client& client) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(::SSL_new(context.get()), &::SSL_free);
  ::SSL_set_fd(ssl.get(), client.socket);
  if (::SSL_connect(ssl.get()) != 1) return "no handshake";
  char byte = 0;
  return ::SSL_read(ssl.get(), &byte, 1) == 1 ? "let in" : "refused";
}

BOOST_AUTO_TEST_CASE(edge_3_who_is_silent_for_long_or_has_no_certificate_is_refused) {
  const TestCa ca, other;
  const TlsOptions node = ca.Issue("node");
  Port port(Tls(node), {.most = 16, .patience = 3s});
  // At once: none, one of another CA, and what is no TLS.
  const Client without(port.port), garbage(port.port), plain(port.port), half(port.port);
  BOOST_TEST(WithoutCertificate(without) == "refused");
  garbage.Say("GET / HTTP/1.0\r\n\r\n");
  plain.Say(std::string("\x01\0\0\0", 4));
  half.Say(std::string("\x16\x03\x01\x02\0\x01", 6));  // the beginning of a handshake
  BOOST_TEST(Await([&] { return garbage.Ended() && plain.Ended(); }, 2s));
  const absl::Status foreign = Probe(port.Address(), 20s, nullptr, Tls(other.Issue("node"))).status();
  BOOST_TEST((foreign.code() == absl::StatusCode::kPermissionDenied));
  BOOST_TEST(foreign.message() ==
             StrCat(port.Address().ToString(),
                    ": its certificate is not accepted: self-signed certificate in certificate chain"));
  // It trusts the server, but the server does not trust it.
  TlsOptions half_known = other.Issue("node");
  half_known.ca_folder = other.PathOf("both");
  BOOST_REQUIRE(
      ::system(StrCat("mkdir ", half_known.ca_folder, " && cp ", node.ca_file, " ", half_known.ca_folder).c_str()) ==
      0);
  const absl::Status unknown = Probe(port.Address(), 20s, nullptr, Tls(half_known)).status();
  BOOST_TEST((unknown.code() == absl::StatusCode::kPermissionDenied));
  BOOST_TEST(unknown.message() == StrCat(port.Address().ToString(),
                                         ": it does not accept this process's certificate: tlsv1 alert unknown ca"));
  const absl::Status naked = Probe(port.Address(), 2s, nullptr, nullptr).status();
  BOOST_TEST((naked.code() == absl::StatusCode::kFailedPrecondition));
  BOOST_TEST(naked.message() == StrCat(port.Address().ToString(),
                                       ": its connections are encrypted (TLS), and this "
                                       "process has no certificate: see TlsOptions"));
  // When its time is over.
  BOOST_TEST(Await([&] { return half.Ended(); }));
  BOOST_TEST(port.Passed() == 0);
  BOOST_TEST(Probe(port.Address(), 20s, nullptr, Tls(node)).ok());
}

BOOST_AUTO_TEST_CASE(edge_5_who_passes_and_says_nothing_is_cut) {
  Port port(NoTls(), {.most = 4, .patience = 300ms});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<Client>(port.port));
  BOOST_TEST(Await([&] { return port.Passed() == 10; }));
  BOOST_TEST(Await([&] { return Open(clients) <= 4; }, 200ms));
  BOOST_TEST(Await([&] { return Open(clients) == 0; }));
}

BOOST_AUTO_TEST_CASE(a_client_with_tls_is_told_that_a_server_has_none) {
  const TestCa ca;
  Port port(NoTls(), Gate::Bounds());
  const absl::Status status = Probe(port.Address(), 20s, nullptr, Tls(ca.Issue("node"))).status();
  BOOST_TEST((status.code() == absl::StatusCode::kFailedPrecondition));
  BOOST_TEST(status.message() ==
             StrCat(port.Address().ToString(), ": its connections are not encrypted, and this process uses TLS"));
}

BOOST_AUTO_TEST_CASE(a_closed_gate_leaves_its_port) {
  auto port = std::make_unique<Port>(NoTls(), Gate::Bounds());
  const uint16_t number = port->port;
  BOOST_TEST((Gate::Open("127.0.0.1", number, nullptr, [](auto) {}).status().code() == absl::StatusCode::kUnavailable));
  port->gate->Close();
  BOOST_TEST(Gate::Open("127.0.0.1", number, nullptr, [](auto) {}).ok());
}

// Both directions at once, more than any buffer holds.
void ExpectCarried(Link* a, Link* b) {
  Link* const ends[] = {a, b};
  std::vector<char> sent(30 << 20), in[2];
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 13);
  size_t out[2] = {0, 0};
  for (const auto end = std::chrono::steady_clock::now() + 120s; std::chrono::steady_clock::now() < end;) {
    for (size_t e = 0; e < 2; ++e) {
      size_t n = 0;
      const size_t some = std::min<size_t>(sent.size() - out[e], 1 << 20);
      if (some > 0 && ends[e]->Write(sent.data() + out[e], some, &n) == Link::Result::kOk) out[e] += n;
      if (some == 0) (void)ends[e]->Flush();
      std::vector<char> piece(777777);
      if (ends[e]->Read(piece.data(), piece.size(), &n) == Link::Result::kOk)
        in[e].insert(in[e].end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(n));
    }
    if (in[0].size() == sent.size() && in[1].size() == sent.size()) break;
  }
  BOOST_TEST((in[0] == sent));
  BOOST_TEST((in[1] == sent));
}

// The last one also by its own hands: both ends learn of the end.
BOOST_AUTO_TEST_CASE(a_link_carries_what_is_written) {
  const TestCa ca;
  const auto tls = Tls(ca.Issue("node"));
  Port port(tls, Gate::Bounds());
  port.greeted = true;
  auto reached = Probe(port.Address(), 20s, nullptr, tls);
  BOOST_REQUIRE_MESSAGE(reached.ok(), reached.status());
  BOOST_REQUIRE(Await([&] { return port.Passed() == 1; }));
  Link* const here = reached->link->get();
  Link* const there = port.passed[0].get();
  char byte = 0;
  size_t got = 0;
  BOOST_REQUIRE((here->Read(&byte, 1, &got) == Link::Result::kOk && byte == 'x'));
  ExpectCarried(here, there);
  here->Finish();
  BOOST_TEST(Await([&] { return there->Read(&byte, 1, &got) == Link::Result::kEnd; }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace gate_test
}  // namespace troupe
