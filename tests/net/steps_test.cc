// What the runtimes of a cluster's servers know of each other.
#include <boost/test/unit_test.hpp>

#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "troupe/server.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPs = "/job:ps/replica:0/task:0";
constexpr const char* kWorker = "/job:worker/replica:0/task:0";

// Sparse enough that a busy machine takes nobody for dead.
ServerOptions Options(const std::string& cluster, const std::string& job, int task = 0) {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(cluster).value(), {job, task}};
  o.heartbeat = {1000ms, 1500ms, 1950ms};
  o.runtime.threads = 1;
  return o;
}
std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }

BOOST_AUTO_TEST_SUITE(steps)

// What a runtime knows of another task.
RemoteTask Known(const Server& server, const char* task) { return server.runtime()->impl()->remote->Find(task); }

BOOST_AUTO_TEST_CASE(edges_8_and_9_a_worker_that_was_restarted_is_known_to_the_others) {
  const std::string cluster = LocalCluster(1);
  auto ps = Server::Start(Options(cluster, "ps")).value();
  const auto worker = Server::Start(Options(cluster, "worker")).value();
  TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
  const RemoteTask before = Known(*worker, kPs);
  BOOST_TEST(before.incarnation == ps->status()->incarnation);
  BOOST_TEST(before.incarnation == IncarnationOf(*ps->runtime()));
  BOOST_REQUIRE(!!before.worker);
  BOOST_TEST(before.worker.id() == WorkerOf(*ps->runtime(), kPs).id());
  caf::anon_send_exit(WorkerOf(*ps->runtime(), kPs), caf::exit_reason::kill);
  BOOST_TEST(Await([&] {
    const caf::actor next = Known(*worker, kPs).worker, own = WorkerOf(*ps->runtime(), kPs);
    return next && own && next.id() == own.id() && next != before.worker;
  }));
  BOOST_TEST(Known(*worker, kPs).incarnation == before.incarnation);
  // A task that goes is forgotten, at both ends.
  BOOST_TEST(!!Known(*ps, kWorker).worker);
  TROUPE_REQUIRE_OK(ps->Stop(60s));
  BOOST_TEST(Await([&] { return !Known(*worker, kPs).worker; }));
  BOOST_TEST(!Known(*ps, kWorker).worker);
}

BOOST_AUTO_TEST_CASE(tasks_that_do_not_come_are_named) {
  const std::string cluster = LocalCluster(2);
  const auto ps = Server::Start(Options(cluster, "ps")).value(),
             worker = Server::Start(Options(cluster, "worker")).value();
  TROUPE_REQUIRE_OK(ps->AwaitTasks({{"worker", 0}, {"ps", 0}}, 60s));
  BOOST_TEST(ps->AwaitTasks({}, 50ms).message() ==
             "within 50 ms these tasks have not come: /job:worker/replica:0/task:1");
  BOOST_TEST(CodeOf(ps->AwaitTasks({{"worker", 7}}, 50ms)) == "NOT_FOUND");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
