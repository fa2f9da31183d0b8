// Servers within one process: how they start and stop, what they refuse, what they leave behind.
#include "troupe/server.h"

#include <boost/test/unit_test.hpp>
#include <atomic>
#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "net/messages.h"
#include "net/probe.h"
#include "tests/net/processes.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

ServerOptions Options(const std::string& cluster, const std::string& job, int task = 0) {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(cluster).value(), {job, task}};
  // Sparse enough that a busy machine takes nobody for dead.
  o.heartbeat = {1000ms, 1500ms, 1950ms};
  return o;
}
TaskHealth First(const Server& server) { return server.status().value().others.at(0).health; }
size_t Count(const char* folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

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
  BOOST_REQUIRE(o.spec.cluster.Add({"worker", 7}, "elsewhere.example.org:1").ok());
  BOOST_TEST(code(o) == "FAILED_PRECONDITION");
  const auto first = Server::Start(good).value();
  BOOST_TEST(code(good) == "UNAVAILABLE");  // the port is taken
}

BOOST_AUTO_TEST_CASE(a_probe_ends) {
  const auto port = static_cast<uint16_t>(FreePorts(1)[0]);
  BOOST_TEST((Probe({"127.0.0.1", port}, 5s, nullptr).code() == absl::StatusCode::kUnavailable));
  const absl::Status unknown = Probe({"no-such-host.invalid", port}, 5s, nullptr);
  BOOST_TEST((unknown.code() == absl::StatusCode::kUnavailable));
  std::atomic<bool> cancelled{true};
  const auto server = Server::Start(Options(LocalCluster(1), "ps")).value();
  const HostPort there = HostPort::Parse(server->status()->address).value();
  BOOST_TEST(Probe(there, 20s, nullptr).ok());
  BOOST_TEST((Probe(there, 20s, &cancelled).code() == absl::StatusCode::kCancelled));
}

BOOST_AUTO_TEST_CASE(an_actors_handler_may_not_start_a_server) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  absl::Status status;
  caf::scoped_actor self(system);
  const caf::actor asked = system.spawn([&](caf::event_based_actor* a) -> caf::behavior {
    return {[&, a](int) {
      status = Server::Start(Options(LocalCluster(1), "ps")).status();
      a->quit();
    }};
  });
  self->send(asked, 1);
  self->wait_for(asked);
  BOOST_TEST((status.code() == absl::StatusCode::kFailedPrecondition));
}

// TROUPE_NET_CYCLES says how many; a thousand take some minutes.
BOOST_AUTO_TEST_CASE(starting_and_stopping_leaves_nothing_behind) {
  const char* const wanted = std::getenv("TROUPE_NET_CYCLES");
  const int cycles = wanted == nullptr ? 50 : std::atoi(wanted);
  const std::string cluster = LocalCluster(1);
  size_t threads = 0, descriptors = 0;
  for (int i = 0; i < cycles; ++i) {
    auto ps = Server::Start(Options(cluster, "ps"));
    BOOST_REQUIRE_MESSAGE(ps.ok(), ps.status());
    auto worker = Server::Start(Options(cluster, "worker"));
    BOOST_REQUIRE_MESSAGE(worker.ok(), worker.status());
    BOOST_REQUIRE(Await([&] { return First(**ps) == TaskHealth::kAlive; }));
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
  }
  BOOST_TEST(Await([&] { return Count("/proc/self/task") <= threads; }, 5s));
  BOOST_TEST(Await([&] { return Count("/proc/self/fd") <= descriptors; }, 5s));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
