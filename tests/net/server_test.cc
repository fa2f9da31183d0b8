// Servers within one process: how they start and stop, what they refuse, what they leave behind.
#include "troupe/server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <atomic>
#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <thread>

#include "net/messages.h"
#include "net/probe.h"
#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "tests/sanitizers/sanitized.h"
#include "troupe/queues.h"

namespace troupe {
namespace server_test {

using namespace std::chrono_literals;

ServerOptions Options(const std::string& cluster, const std::string& job, int task = 0) {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(cluster).value(), {job, task}};
  // Sparse enough that a busy machine takes nobody for dead.
  o.heartbeat = HeartbeatPolicy::Of(1000ms);
  return o;
}
HostPort AddressOf(const ServerOptions& o) { return o.spec.cluster.AddressOf(o.spec.task).value(); }
TaskHealth First(const Server& server) { return server.status().value().others.at(0).health; }
size_t Count(const char* folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

// Pages of memory that the process has.
size_t Resident() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident;
}

// A session whose step waits for what never comes, in the server's runtime or at a target.
struct Waiting {
  Waiting(const Server& server, const std::string& target) {
    const Scope root = Scope::NewRootScope();
    const Output next = Queue::Fifo(root, {DType::kFloat}).Dequeue(root)[0];
    SessionOptions options;
    options.target = target;
    if (target.empty()) options.runtime = server.runtime();
    session = NewSession(root, options);
    session->RunAsync({}, {next}, {}, [](const absl::Status&, const std::vector<Tensor>&) {});
  }
  std::unique_ptr<Session> session;
};

// A port where connections are accepted and nobody speaks.
struct Silent {
  Silent() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(where);
    BOOST_REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&where), size) == 0);
    BOOST_REQUIRE(::listen(socket, 10) == 0);
    BOOST_REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    address = {"127.0.0.1", ntohs(where.sin_port)};
  }
  ~Silent() { ::close(socket); }
  const int socket;
  HostPort address;
};

BOOST_AUTO_TEST_SUITE(servers)

BOOST_AUTO_TEST_CASE(two_servers_find_each_other_and_part) {
  const std::string cluster = LocalCluster(1);
  auto ps = Server::Start(Options(cluster, "ps")).value();
  auto worker = Server::Start(Options(cluster, "worker")).value();
  BOOST_TEST(Await([&] { return First(*ps) == TaskHealth::kAlive && First(*worker) == TaskHealth::kAlive; }));
  const ServerStatus seen = ps->status().value();
  BOOST_TEST(seen.others.at(0).incarnation == worker->status()->incarnation);
  BOOST_TEST(seen.cluster == ClusterSpec::FromFlags(cluster)->Id());
  const absl::Status stopped = worker->Stop(10s);
  BOOST_TEST(stopped.ok(), stopped);
  BOOST_TEST((First(*ps) == TaskHealth::kStopped));
  BOOST_TEST((worker->status().status().code() == absl::StatusCode::kFailedPrecondition));
  BOOST_TEST(worker->Stop(10s).ok());
  // The port is free again, and the next incarnation is let in.
  worker = Server::Start(Options(cluster, "worker")).value();
  BOOST_TEST(Await([&] { return First(*ps) == TaskHealth::kAlive; }));
}

BOOST_AUTO_TEST_CASE(a_server_starts_in_the_programs_own_actor_system) {
  struct Config : caf::actor_system_config {
    Config() { ConfigureServer(this); }
  };
  const std::string cluster = LocalCluster(1);
  Config config;
  caf::actor_system system(config);
  {
    const auto ps = Server::StartIn(system, Options(cluster, "ps")).value();
    const auto worker = Server::Start(Options(cluster, "worker")).value();
    BOOST_TEST(Await([&] { return First(*ps) == TaskHealth::kAlive; }));
  }
  caf::actor_system_config plain;
  caf::actor_system without(plain);
  const auto refused = Server::StartIn(without, Options(cluster, "ps"));
  BOOST_TEST((refused.status().code() == absl::StatusCode::kFailedPrecondition));
}

BOOST_AUTO_TEST_CASE(a_listener_hears_of_other_tasks) {
  struct Config : caf::actor_system_config {
    Config() { ConfigureServer(this); }
  };
  const std::string cluster = LocalCluster(1);
  Config config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto ps = Server::StartIn(system, Options(cluster, "ps")).value();
  self->send(ControlActorOf(*ps), watch_tasks{});
  const auto worker = Server::Start(Options(cluster, "worker")).value();
  task_up up;
  task_down down;
  self->receive([&](const task_up& m) { up = m; }, caf::after(60s) >> [] { BOOST_ERROR("nobody came"); });
  BOOST_TEST((up.task == ClusterTask{"worker", 0}));
  BOOST_TEST(up.incarnation == worker->status()->incarnation);
  BOOST_TEST(worker->Stop(10s).ok());
  self->receive([&](const task_down& m) { down = m; }, caf::after(60s) >> [] { BOOST_ERROR("nobody went"); });
  BOOST_TEST((down.task == up.task && down.incarnation == up.incarnation));
  BOOST_TEST((down.status.code() == absl::StatusCode::kCancelled));
  BOOST_TEST(!ControlActorOf(*worker));
}

BOOST_AUTO_TEST_CASE(impossible_options_are_refused) {
  const auto code = [](const ServerOptions& o) { return absl::StatusCodeToString(Server::Start(o).status().code()); };
  const ServerOptions good = Options(LocalCluster(1), "ps");
  ServerOptions o = good;
  o.spec.task.index = 1;
  BOOST_TEST(code(o) == "NOT_FOUND");
  o = good;
  o.heartbeat.dead_after = o.heartbeat.suspect_after;
  BOOST_TEST(code(o) == "INVALID_ARGUMENT");
  o = good;
  o.connect.jitter = 1;
  BOOST_TEST(code(o) == "INVALID_ARGUMENT");
  o = good;
  o.heartbeat.dead_after = std::chrono::hours(25);
  BOOST_TEST(code(o) == "INVALID_ARGUMENT");
  o = good;
  o.connect.timeout = std::chrono::milliseconds::max();
  BOOST_TEST(code(o) == "INVALID_ARGUMENT");
  for (const char* open : {"0.0.0.0", "::", "10.0.0.1", "elsewhere.example.org"}) {
    o = good;
    o.bind = open;
    BOOST_TEST(code(o) == "FAILED_PRECONDITION");
  }
  o = good;
  o.bind = "0.0.0.0";
  o.insecure = true;
  BOOST_TEST(Server::Start(o).value()->listens_at() == StrCat("0.0.0.0:", AddressOf(o).port));
  BOOST_TEST(Server::Start(good).value()->listens_at() == AddressOf(good).ToString());
  o = good;
  BOOST_REQUIRE(o.spec.cluster.Add({"worker", 7}, "elsewhere.example.org:1").ok());
  BOOST_TEST(code(o) == "FAILED_PRECONDITION");
  const auto first = Server::Start(good).value();
  BOOST_TEST(code(good) == "UNAVAILABLE");  // the port is taken
}

BOOST_AUTO_TEST_CASE(a_probe_ends) {
  const auto port = static_cast<uint16_t>(FreePorts(1)[0]);
  const auto tls = ClientTls().value();
  BOOST_TEST((Probe({"127.0.0.1", port}, 5s, nullptr, tls).status().code() == absl::StatusCode::kUnavailable));
  const absl::Status unknown = Probe({"no-such-host.invalid", port}, 5s, nullptr, tls).status();
  BOOST_TEST((unknown.code() == absl::StatusCode::kUnavailable));
  std::atomic<bool> cancelled{true};
  const auto server = Server::Start(Options(LocalCluster(1), "ps")).value();
  const HostPort there = HostPort::Parse(server->status()->address).value();
  BOOST_TEST(Probe(there, 20s, nullptr, tls)->at.ToString() == there.ToString());
  BOOST_TEST(Probe({"localhost", there.port}, 20s, nullptr, tls)->at.ToString() == there.ToString());
  BOOST_TEST((Probe(there, 20s, &cancelled, tls).status().code() == absl::StatusCode::kCancelled));
  // Who accepts connections and says nothing.
  const Silent silent;
  BOOST_TEST(Probe(silent.address, 200ms, nullptr, nullptr).status().message() ==
             StrCat(silent.address.ToString(), ": it accepted the connection and does not speak: no answer in time"));
}

// A look-up of a name, for one, goes on after Close: it may refer to nothing of the actor system.
BOOST_AUTO_TEST_CASE(probes_that_are_closed_hold_nobody) {
  const Silent silent;
  const auto probes = Probes::With(ClientTls().value());
  std::atomic<int> told{0};
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  probes->Start(silent.address, 60s, [&told, held = std::move(held)](const auto&) { ++told; });
  BOOST_TEST(!watched.expired());
  BOOST_TEST(probes->Close(0ms));
  BOOST_TEST(watched.expired());
  auto late = std::make_shared<int>(1);
  const std::weak_ptr<int> watched_late = late;
  probes->Start(silent.address, 60s, [&told, late = std::move(late)](const auto&) { ++told; });
  BOOST_TEST(watched_late.expired());
  BOOST_TEST(told == 0);
}

// As of a name server that does not answer.
BOOST_AUTO_TEST_CASE(look_ups_that_do_not_end_take_a_bounded_number_of_threads) {
  std::latch answer(1);
  std::atomic<int> looking{0};
  const auto probes = std::make_shared<Probes>(
      [&](const HostPort& address, std::chrono::milliseconds, const std::atomic<bool>*) -> absl::StatusOr<Reached> {
        ++looking;
        answer.wait();
        return Reached{address, nullptr};
      });
  std::atomic<int> found{0}, again{0}, too_many{0};
  const auto told = [&](const absl::StatusOr<Reached>& r) {
    if (r.ok()) ++found;
    if (!r.ok() && r.status().message().find("an earlier probe of it") != std::string::npos) ++again;
    if (!r.ok() && r.status().message().find("64 other probes") != std::string::npos) ++too_many;
  };
  for (int i = 0; i < 100; ++i) probes->Start({"a", 1}, 1ms, told);
  BOOST_TEST(again == 99);
  for (uint16_t port = 2; port <= 100; ++port) probes->Start({"a", port}, 1ms, told);
  BOOST_TEST(too_many == 100 - 64);
  BOOST_TEST(Await([&] { return looking == 64; }));
  answer.count_down();
  BOOST_TEST(Await([&] { return found == 64; }));
  probes->Start({"a", 1}, 1ms, told);
  BOOST_TEST(Await([&] { return found == 65; }));
}

BOOST_AUTO_TEST_CASE(a_start_that_fails_ends_its_calls_to_others) {
  const Silent silent;
  const std::string cluster = StrCat("ps=", silent.address.ToString(), ";worker=127.0.0.1:", FreePorts(1)[0]);
  ServerOptions options = Options(cluster, "worker");
  options.connect.timeout = 60s;
  const auto first = Server::Start(options).value();
  const size_t threads = Count("/proc/self/task");
  for (int i = 0; i < 5; ++i) {
    const absl::Status second = Server::Start(options).status();
    BOOST_TEST((second.code() == absl::StatusCode::kUnavailable));
    BOOST_TEST(second.message().find("/job:worker/replica:0/task:0 cannot listen at 127.0.0.1:") == 0u);
  }
  // Far sooner than the calls would end by themselves. The first one's own call may not have begun
  // when the threads were counted.
  BOOST_TEST(Await([&] { return Count("/proc/self/task") < threads + 5; }, 30s));
}

BOOST_AUTO_TEST_CASE(a_server_ends_while_the_thread_that_stopped_it_lives) {
  auto server = Server::Start(Options(LocalCluster(1), "ps")).value();
  std::latch stopped(1), over(1);
  std::thread other([&] {
    (void)server->Stop(10s);
    stopped.count_down();
    over.wait();
  });
  stopped.wait();
  const auto ended = std::async(std::launch::async, [&] { server = nullptr; });
  BOOST_TEST((ended.wait_for(60s) == std::future_status::ready));
  over.count_down();
  other.join();
}

BOOST_AUTO_TEST_CASE(who_stops_can_be_asked_meanwhile) {
  const std::string cluster = LocalCluster(1);
  const HostPort ps = AddressIn(cluster, "ps", 0);
  Process peer({"serve", "--cluster", cluster, "--job", "ps", "--task", "0", "--heartbeat", "60000"});
  BOOST_REQUIRE(peer.Line() != "");
  ServerOptions options = Options(cluster, "worker");
  options.heartbeat = HeartbeatPolicy::Of(60000ms);
  const auto server = Server::Start(options).value();
  BOOST_REQUIRE(Await([&] { return First(*server) == TaskHealth::kAlive; }));
  peer.Signal(SIGSTOP);
  auto stopped = std::async(std::launch::async, [&] { return server->Stop(60s); });
  BOOST_TEST((stopped.wait_for(500ms) == std::future_status::timeout));
  BOOST_TEST(bool(ControlActorOf(*server)));
  BOOST_TEST(server->status().ok());
  BOOST_TEST((stopped.wait_for(0ms) == std::future_status::timeout));
  peer.Signal(SIGCONT);
  const absl::Status result = stopped.get();
  BOOST_TEST(result.ok(), result);
}

BOOST_AUTO_TEST_CASE(an_actors_handler_may_not_start_a_server) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  absl::Status status;
  caf::scoped_actor self(system);
  const caf::actor asked = system.spawn(
      [&](caf::event_based_actor* a, int) -> caf::behavior {
        return {[&, a](int) {
          status = Server::Start(Options(LocalCluster(1), "ps")).status();
          a->quit();
        }};
      },
      0);
  self->send(asked, 1);
  self->wait_for(asked);
  BOOST_TEST((status.code() == absl::StatusCode::kFailedPrecondition));
}

// TROUPE_NET_CYCLES says how many; a thousand take some minutes.
BOOST_AUTO_TEST_CASE(starting_and_stopping_leaves_nothing_behind) {
  const char* const wanted = std::getenv("TROUPE_NET_CYCLES");
  const int cycles = wanted == nullptr ? 200 : std::atoi(wanted);
  const std::string cluster = LocalCluster(1);
  size_t threads = 0, descriptors = 0, pages = 0;
  for (int i = 0; i < cycles; ++i) {
    ServerOptions with_memory = Options(cluster, "ps");
    with_memory.runtime.memory_limit = 1 << 30;
    auto ps = Server::Start(with_memory);
    BOOST_REQUIRE_MESSAGE(ps.ok(), ps.status());
    auto worker = Server::Start(Options(cluster, "worker"));
    BOOST_REQUIRE_MESSAGE(worker.ok(), worker.status());
    BOOST_REQUIRE(Await([&] { return First(**ps) == TaskHealth::kAlive; }));
    // A step that runs still when its server ends, here and of a client.
    const Waiting here(**ps, ""), there(**ps, (*ps)->target());
    // In turns: each order of ending, with and without goodbye.
    if (i % 3 == 0) BOOST_TEST((*worker)->Stop(10s).ok());
    if (i % 2 == 0) *ps = nullptr;
    *worker = nullptr;
    *ps = nullptr;
    // Threads that have told may take a moment to be gone.
    if (i < 5) {
      threads = std::max(threads, Count("/proc/self/task"));
      descriptors = std::max(descriptors, Count("/proc/self/fd"));
    }
    // What a process keeps of CAF's nodes and of its allocators has been reached by then.
    if (i == cycles / 2) pages = Resident();
  }
  BOOST_TEST(Await([&] { return Count("/proc/self/task") <= threads; }, 5s));
  BOOST_TEST(Await([&] { return Count("/proc/self/fd") <= descriptors; }, 5s));
  // ASan keeps what has been freed for a while.
  if (!TROUPE_TEST_ASAN) BOOST_TEST(Resident() < pages + pages / 10);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace server_test
}  // namespace troupe
