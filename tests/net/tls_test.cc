// Servers and clients whose connections are encrypted, in this process and in others: who is let
// in, who is refused and with which words, and what files do that are missing, wrong or replaced.
#include "troupe/tls.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/actors/graphs.h"
#include "tests/net/certificates.h"
#include "tests/net/processes.h"
#include "troupe/server.h"

namespace troupe {
namespace tls_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// Not what the environment says.
TlsOptions Plain() {
  TlsOptions o;
  o.use_environment = false;
  return o;
}
// What clients of this process use, until the object goes.
struct Clients {
  explicit Clients(const TlsOptions& o) { TROUPE_REQUIRE_OK(UseTls(o)); }
  ~Clients() { (void)UseTls(TlsOptions()); }
};

ServerOptions Options(const std::string& cluster, const std::string& job, const TlsOptions& tls) {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(cluster).value(), {job, 0}};
  o.heartbeat = HeartbeatPolicy::Of(1000ms);
  o.runtime.threads = 1;
  o.tls = tls;
  return o;
}
std::vector<std::string> ServeArguments(const std::string& cluster, const std::string& job, const TlsOptions& tls) {
  std::vector<std::string> words{"serve", "--cluster", cluster, "--job", job, "--task", "0", "--heartbeat", "1000"};
  const std::vector<std::string> flags = TlsFlagsOf(tls);
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}
// How the first other task is seen, and why it is not up.
TaskStatus First(const Server& server) { return server.status().value().others.at(0); }
bool Has(absl::string_view text, absl::string_view what) { return text.find(what) != absl::string_view::npos; }
std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }

float AddAt(const std::string& target) {
  const Scope root = Scope::NewRootScope();
  const Output sum = ops::Add(root, ops::Const(root, 1.0f), ops::Const(root, 2.0f));
  SessionOptions options;
  options.target = target;
  const auto session = NewSession(root, options);
  return RunOne(*session, {}, sum).scalar<float>();
}
absl::Status SessionAt(const std::string& target, int64_t within_ms = 20000) {
  SessionOptions options;
  options.target = target;
  options.connect_timeout_ms = within_ms;
  return Session::Create(options).status();
}

BOOST_AUTO_TEST_SUITE(tls)

BOOST_AUTO_TEST_CASE(servers_and_clients_with_certificates_of_one_ca_work_together) {
  const TestCa ca;
  const std::string cluster = LocalCluster(1);
  const auto ps = Server::Start(Options(cluster, "ps", ca.Issue("ps"))).value();
  Process worker(ServeArguments(cluster, "worker", ca.Issue("worker")));
  BOOST_TEST(Await([&] { return First(*ps).health == TaskHealth::kAlive; }));
  const Clients clients(ca.Issue("client"));
  BOOST_TEST(AddAt(ps->target()) == 3);
  const HostPort there = AddressIn(cluster, "worker", 0);
  BOOST_TEST(AddAt("troupe://" + there.ToString()) == 3);
  BOOST_TEST(HealthAt(there, {"ps", 0}) == "alive");
  std::vector<std::string> words{"status", there.ToString()};
  const auto flags = TlsFlagsOf(ca.Issue("client"));
  words.insert(words.end(), flags.begin(), flags.end());
  Process status(words);
  BOOST_TEST(status.Line().starts_with("/job:worker/replica:0/task:0 at "));
  BOOST_TEST(status.Wait() == 0);
}

BOOST_AUTO_TEST_CASE(a_client_without_a_certificate_of_the_ca_is_refused_and_others_are_not) {
  const TestCa ca, other;
  const auto ps = Server::Start(Options(LocalCluster(0), "ps", ca.Issue("ps"))).value();
  {
    const Clients clients(Plain());
    const absl::Status none = SessionAt(ps->target(), 3000);
    BOOST_TEST(CodeOf(none) == "FAILED_PRECONDITION");
    BOOST_TEST(Has(none.message(), "its connections are encrypted (TLS), and this process has no certificate"), none);
    BOOST_TEST(CodeOf(AskServer(HostPort::Parse(ps->target().substr(9)).value(), 3s).status()) ==
               "FAILED_PRECONDITION");
  }
  {
    const Clients clients(other.Issue("client"));
    const absl::Status foreign = SessionAt(ps->target());
    BOOST_TEST(CodeOf(foreign) == "PERMISSION_DENIED");
    BOOST_TEST(Has(foreign.message(), "its certificate is not accepted: "), foreign);
  }
  const Clients clients(ca.Issue("client"));
  BOOST_TEST(AddAt(ps->target()) == 3);
}

BOOST_AUTO_TEST_CASE(a_client_with_a_certificate_refuses_a_server_without) {
  const TestCa ca;
  const auto ps = Server::Start(Options(LocalCluster(0), "ps", Plain())).value();
  {
    const Clients clients(ca.Issue("client"));
    const absl::Status status = SessionAt(ps->target());
    BOOST_TEST(CodeOf(status) == "FAILED_PRECONDITION");
    BOOST_TEST(Has(status.message(), "its connections are not encrypted, and this process uses TLS"), status);
  }
  const Clients clients(Plain());
  BOOST_TEST(AddAt(ps->target()) == 3);
}

BOOST_AUTO_TEST_CASE(servers_of_different_cas_never_greet_each_other_and_say_why) {
  const TestCa ca, other;
  const std::string cluster = LocalCluster(1);
  const auto ps = Server::Start(Options(cluster, "ps", ca.Issue("ps"))).value();
  // The later one in the order of the cluster calls.
  const auto worker = Server::Start(Options(cluster, "worker", other.Issue("worker"))).value();
  BOOST_TEST(Await([&] { return Has(First(*worker).why, "its certificate is not accepted: "); }), First(*worker).why);
  BOOST_TEST((First(*ps).health == TaskHealth::kAbsent));
  const auto plain = Server::Start(Options(LocalCluster(1), "worker", Plain()));
  BOOST_TEST(plain.ok(), plain.status());
}

// Of the three ways to listen elsewhere there is no fourth.
BOOST_AUTO_TEST_CASE(certificates_allow_addresses_of_other_machines) {
  const TestCa ca;
  ServerOptions o = Options(LocalCluster(0), "ps", Plain());
  o.bind = "0.0.0.0";
  BOOST_TEST(CodeOf(Server::Start(o).status()) == "FAILED_PRECONDITION");
  o.tls = ca.Issue("ps");
  const auto ps = Server::Start(o);
  BOOST_REQUIRE_MESSAGE(ps.ok(), ps.status());
  const Clients clients(o.tls);
  BOOST_TEST(AddAt(StrCat("troupe://127.0.0.1:", AddressIn(o.spec.cluster.ToFlags(), "ps", 0).port)) == 3);
}

BOOST_AUTO_TEST_CASE(files_that_are_missing_or_wrong_are_named_when_a_server_starts) {
  const TestCa ca, other;
  const TlsOptions good = ca.Issue("node");
  const std::string cluster = LocalCluster(0);
  const auto why = [&](const TlsOptions& o) { return Server::Start(Options(cluster, "ps", o)).status(); };
  const auto refused = [&](const TlsOptions& o, const char* code, const std::string& message) {
    const absl::Status s = why(o);
    BOOST_TEST(CodeOf(s) == code);
    BOOST_TEST(std::string(s.message()).starts_with(message), s << " does not begin with: " << message);
  };
  TlsOptions o = good;
  o.key = "";
  refused(o, "INVALID_ARGUMENT",
          "TLS needs a certificate, its key, and a CA to trust: TlsOptions.key (TROUPE_TLS_KEY)");
  o = good;
  o.ca_file = "";
  refused(o, "INVALID_ARGUMENT", "TLS needs a certificate, its key, and a CA to trust: TlsOptions.ca_file");
  o = good;
  o.certificate = ca.PathOf("none.crt");
  refused(o, "NOT_FOUND", ca.PathOf("none.crt: No such file or directory"));
  o = good;
  o.key = ca.PathOf("");
  refused(o, "INVALID_ARGUMENT", ca.PathOf(": it is no regular file"));
  o = good;
  o.certificate = good.key;
  refused(o, "INVALID_ARGUMENT", good.key + ": no certificate in PEM form is there");
  o = good;
  o.key = good.certificate;
  refused(o, "INVALID_ARGUMENT", good.certificate + ": the key cannot be read, without a passphrase: ");
  o = good;
  o.key = ca.Issue("second").key;
  refused(o, "INVALID_ARGUMENT", StrCat(o.key, ": the key is not that of the certificate ", good.certificate, ": "));
  o = good;
  o.ca_file = other.PathOf("ca.crt");
  refused(o, "INVALID_ARGUMENT", StrCat(good.certificate, ": the CAs of ", o.ca_file, " do not accept it: "));
  o = ca.Issue("old", {.from_days = -20, .until_days = -10});
  refused(o, "INVALID_ARGUMENT", StrCat(o.certificate, ": the certificate expired at "));
  o = ca.Issue("new", {.from_days = 10});
  refused(o, "INVALID_ARGUMENT", StrCat(o.certificate, ": the certificate is not valid before "));
  o = good;
  o.ca_folder = ca.PathOf("nothing");
  refused(o, "NOT_FOUND", ca.PathOf("nothing: No such file or directory"));
  fs::create_directories(ca.PathOf("empty"));
  o.ca_folder = ca.PathOf("empty");
  refused(o, "INVALID_ARGUMENT", ca.PathOf("empty: no file *.pem or *.crt is there"));
  std::ofstream(ca.PathOf("broken.crt")) << "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  o = good;
  o.certificate = ca.PathOf("broken.crt");
  refused(o, "INVALID_ARGUMENT", ca.PathOf("broken.crt: a certificate in it cannot be read: "));
  if (::geteuid() != 0) {  // who may read everything
    o = ca.Issue("closed");
    fs::permissions(o.key, fs::perms::none);
    refused(o, "NOT_FOUND", StrCat(o.key, ": Permission denied"));
  }
  BOOST_TEST(why(good).ok());
  // The same of the command line, and of clients.
  o = good;
  o.certificate = ca.PathOf("none.crt");
  Process serve(ServeArguments(cluster, "ps", o));
  BOOST_TEST(serve.Wait() == 1);
  BOOST_TEST(serve.errors() == StrCat("troupe: NOT_FOUND: ", ca.PathOf("none.crt: No such file or directory\n")));
  BOOST_TEST(CodeOf(UseTls(o)) == "NOT_FOUND");
}

BOOST_AUTO_TEST_CASE(a_key_may_have_a_passphrase_which_nobody_sees) {
  const TestCa ca;
  TlsOptions o = ca.Issue("node", {.passphrase = "open sesame"});
  const std::string cluster = LocalCluster(0);
  const absl::Status without = Server::Start(Options(cluster, "ps", o)).status();
  BOOST_TEST(Has(without.message(), ": the key cannot be read, without a passphrase: "), without);
  o.passphrase_file = ca.PathOf("passphrase");
  std::ofstream(o.passphrase_file) << "open\n";
  const absl::Status wrong = Server::Start(Options(cluster, "ps", o)).status();
  BOOST_TEST(Has(wrong.message(), ": the key cannot be read, with the passphrase that is given: "), wrong);
  BOOST_TEST(!Has(wrong.message(), "open"));
  std::ofstream(o.passphrase_file) << "open sesame\n";
  BOOST_TEST(Server::Start(Options(cluster, "ps", o)).ok());
  // By the environment.
  o.passphrase_file = "";
  ::setenv("TROUPE_TLS_PASSPHRASE", "open sesame", 1);
  BOOST_TEST(Server::Start(Options(cluster, "ps", o)).ok());
  Process serve(ServeArguments(cluster, "ps", o));
  BOOST_TEST(serve.Line() != "");
  ::unsetenv("TROUPE_TLS_PASSPHRASE");
  std::ifstream arguments(StrCat("/proc/", serve.pid(), "/cmdline"));
  const std::string said(std::istreambuf_iterator<char>(arguments), {});
  BOOST_TEST(Has(said, "--tls_key"));
  BOOST_TEST(!Has(said, "sesame"));
  BOOST_TEST(!Has(serve.errors(), "sesame"));
}

BOOST_AUTO_TEST_CASE(with_a_peer_name_only_certificates_of_that_name_are_accepted) {
  const TestCa ca;
  TlsOptions o = ca.Issue("ps", {.dns_name = "digits.troupe"});
  o.peer_name = "digits.troupe";
  const auto ps = Server::Start(Options(LocalCluster(0), "ps", o)).value();
  {
    const Clients clients(ca.Issue("stranger", {.dns_name = "letters.troupe"}));
    const absl::Status status = SessionAt(ps->target());
    BOOST_TEST(Has(status.message(), "it does not accept this process's certificate: "), status);
  }
  TlsOptions named = ca.Issue("client", {.dns_name = "digits.troupe"});
  {
    named.peer_name = "letters.troupe";
    const Clients clients(named);
    const absl::Status status = SessionAt(ps->target());
    BOOST_TEST(Has(status.message(), "its certificate is not accepted: hostname mismatch"), status);
  }
  named.peer_name = "digits.troupe";
  const Clients clients(named);
  BOOST_TEST(AddAt(ps->target()) == 3);
}

BOOST_AUTO_TEST_CASE(certificates_are_replaced_while_a_server_runs) {
  const TestCa old, next;
  TlsOptions o = old.Issue("ps");
  const std::string folder = old.PathOf("live");
  fs::create_directories(folder);
  const auto copy = [&](const std::string& from, const std::string& to) {
    // As one does: a new file in place of the other.
    fs::copy_file(from, to + ".new", fs::copy_options::overwrite_existing);
    fs::rename(to + ".new", to);
  };
  TlsOptions live;
  live.certificate = folder + "/node.crt";
  live.key = folder + "/node.key";
  live.ca_file = folder + "/ca.crt";
  copy(o.certificate, live.certificate);
  copy(o.key, live.key);
  copy(o.ca_file, live.ca_file);
  const auto ps = Server::Start(Options(LocalCluster(0), "ps", live)).value();
  const Scope root = Scope::NewRootScope();
  const Output sum = ops::Add(root, ops::Const(root, 1.0f), ops::Const(root, 2.0f));
  std::unique_ptr<Session> before;
  {
    const Clients clients(old.Issue("client"));
    SessionOptions options;
    options.target = ps->target();
    before = NewSession(root, options);
    // Only the key: it does not fit. What was there before is used on.
    copy(next.Issue("ps").key, live.key);
    std::this_thread::sleep_for(1100ms);
    BOOST_TEST(AddAt(ps->target()) == 3);
  }
  copy(next.PathOf("ca.crt"), live.ca_file);
  copy(next.PathOf("ps.crt"), live.certificate);
  std::this_thread::sleep_for(1100ms);
  {
    const Clients clients(next.Issue("client"));
    // A process of its own: the sessions of this one share the connection that is up.
    std::vector<std::string> words{"status", ps->target().substr(9)};
    const auto flags = TlsFlagsOf(next.Issue("client"));
    words.insert(words.end(), flags.begin(), flags.end());
    // On a busy machine the first who comes may do so before they have been read.
    BOOST_TEST(Await([&] { return Process(words).Wait() == 0; }));
  }
  const Clients clients(old.Issue("client"));
  BOOST_TEST(CodeOf(SessionAt(ps->target())) == "PERMISSION_DENIED");
  BOOST_TEST(RunOne(*before, {}, sum).scalar<float>() == 3);
}

size_t Descriptors(pid_t pid) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(StrCat("/proc/", pid, "/fd"))) ++n;
  return n;
}
size_t ResidentBytes(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/statm"));
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}
// Connections of somebody who is no client, closed with the object.
struct Strangers {
  ~Strangers() {
    for (const int s : sockets) ::close(s);
  }
  int Come(const HostPort& address) {
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BOOST_REQUIRE(::connect(s, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0);
    sockets.push_back(s);
    return s;
  }
  std::vector<int> sockets;
};

// With certificates and without.
BOOST_AUTO_TEST_CASE(silent_and_strange_connections_use_up_no_descriptors) {
  const TestCa ca;
  for (const TlsOptions& o : {ca.Issue("node"), Plain()}) {
    const std::string cluster = LocalCluster(0);
    const HostPort there = AddressIn(cluster, "ps", 0);
    Process serve(o.certificate.empty()
                      ? std::vector<std::string>{"serve", "--cluster", cluster, "--job", "ps", "--task", "0"}
                      : ServeArguments(cluster, "ps", o));
    BOOST_REQUIRE(serve.Line() != "");
    const size_t before = Descriptors(serve.pid());
    Strangers strangers;
    for (int i = 0; i < 300; ++i) {
      const int s = strangers.Come(there);
      const std::string said = i % 3 == 0 ? "" : i % 3 == 1 ? std::string(40, 'g') : std::string("\x16\x03\x01\x02", 4);
      (void)!::send(s, said.data(), said.size(), MSG_NOSIGNAL);
    }
    BOOST_TEST(Await([&] { return Descriptors(serve.pid()) <= before + 70; }), Descriptors(serve.pid()));
    const Clients clients(o);
    BOOST_TEST(AddAt("troupe://" + there.ToString()) == 3);
    // They are gone when their time is over, although the other side holds them.
    BOOST_TEST(Await([&] { return Descriptors(serve.pid()) <= before + 8; }), Descriptors(serve.pid()));
  }
}

// A header of CAF's protocol: a message for actor 1 with so many bytes behind it.
std::string Header(uint32_t claim) {
  std::string h(32, '\0');
  h[0] = 2;
  for (int i = 0; i < 4; ++i) h[static_cast<size_t>(4 + i)] = static_cast<char>(claim >> (24 - 8 * i));
  h[31] = 1;
  return h;
}

BOOST_AUTO_TEST_CASE(what_a_header_claims_takes_no_memory) {
  const std::string cluster = LocalCluster(0);
  const HostPort there = AddressIn(cluster, "ps", 0);
  Process serve({"serve", "--cluster", cluster, "--job", "ps", "--task", "0"});
  BOOST_REQUIRE(serve.Line() != "");
  const size_t before = ResidentBytes(serve.pid());
  Strangers strangers;
  for (const uint32_t claim : {0xfffffff0u, 0x7ffffff0u, 0x7ffffff0u, 0x40000000u}) {
    const std::string said = Header(claim) + "and a little";
    (void)!::send(strangers.Come(there), said.data(), said.size(), MSG_NOSIGNAL);
  }
  std::this_thread::sleep_for(2s);
  BOOST_TEST(ResidentBytes(serve.pid()) < before + (64 << 20));
  // More than any message has: the connection is over.
  char byte = 0;
  BOOST_TEST(Await(
      [&] {
        while (::recv(strangers.sockets[0], &byte, 1, MSG_DONTWAIT) > 0) {
        }
        return ::recv(strangers.sockets[0], &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
      },
      3s));
  const Clients clients(Plain());
  BOOST_TEST(AddAt("troupe://" + there.ToString()) == 3);
}

BOOST_AUTO_TEST_CASE(the_certificate_of_a_local_cluster_is_its_owners_alone) {
  const TestCa folder;  // for its folder
  const std::string path = folder.PathOf("cluster");
  TROUPE_REQUIRE_OK(MakeClusterCertificate(path));
  BOOST_TEST((fs::status(path + "/node.key").permissions() == (fs::perms::owner_read | fs::perms::owner_write)));
  BOOST_TEST(CodeOf(MakeClusterCertificate(path)) == "UNAVAILABLE");  // they are there
  TlsOptions o;
  o.certificate = path + "/node.crt";
  o.key = path + "/node.key";
  o.ca_file = path + "/ca.crt";
  const auto ps = Server::Start(Options(LocalCluster(0), "ps", o));
  BOOST_REQUIRE_MESSAGE(ps.ok(), ps.status());
  const Clients clients(o);
  BOOST_TEST(AddAt((*ps)->target()) == 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tls_test
}  // namespace troupe
