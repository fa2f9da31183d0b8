// How sessions in servers end: a server or a client that stops or dies, and the process itself.
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <utility>

#include <unistd.h>

#include "actors/runtime/runtime_impl.h"
#include "actors/threads/aside.h"
#include "tests/net/clients.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/train/monitored_session.h"

namespace troupe {
namespace clients_end_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(clients)

BOOST_AUTO_TEST_CASE(a_server_that_stops_ends_its_sessions_and_not_those_of_its_process) {
  auto server = Server::Start(Alone()).value();
  Model m;
  const auto session = NewSession(m.root, At(*server));
  SessionOptions local;
  local.runtime = server->runtime();
  const auto here = NewSession(m.root, local);
  auto waiting = std::async(std::launch::async, [&] { return session->Run({}, {m.next}, {}, nullptr); });
  auto waiting_here = std::async(std::launch::async, [&] { return here->Run({}, {m.next}, {}, nullptr); });
  BOOST_TEST(Await([&] { return server->status()->sessions.at(0).calls == 1; }));
  const absl::Status stopped = server->Stop(60s);
  BOOST_TEST(stopped.ok(), stopped);
  const absl::Status ended = waiting.get();
  BOOST_TEST(CodeOf(ended) == "UNAVAILABLE");
  BOOST_TEST(ended.message().find("task /job:ps/replica:0/task:0 has stopped") != std::string::npos, ended);
  server = nullptr;
  // Its runtime lives as long as this.
  BOOST_TEST(RunOne(*here, {{"x", Tensor::Scalar(2.0f)}}, m.y).data<float>()[0] == 6);
  TROUPE_REQUIRE_OK(here->Close());
  BOOST_TEST(CodeOf(waiting_here.get()) == "CANCELLED");
}

// A process that is stopped for less than the lease, on either side. CAF's own end of a connection
// on which nothing comes was ten seconds.
BOOST_AUTO_TEST_CASE(a_process_that_is_stopped_for_less_than_the_lease_keeps_its_sessions) {
  const std::string cluster = StrCat("ps=127.0.0.1:", FreePorts(1)[0]);
  Process there({"serve", "--cluster", cluster, "--job", "ps", "--task", "0"});
  BOOST_REQUIRE(there.Line() != "");
  const auto here = Server::Start(Alone()).value();
  Model m;
  SessionOptions o;
  o.target = StrCat("troupe://", AddressIn(cluster, "ps", 0).ToString());
  const auto session = NewSession(m.root, o);
  TROUPE_REQUIRE_OK(session->Set(m.count, Tensor::Scalar(7.0f)));
  proto::GraphDef def;
  ExportGraphDef(*m.root.graph(), &def);
  const std::string file =
      (std::filesystem::temp_directory_path() / StrCat("troupe_stopped_", ::getpid(), ".pb")).string();
  std::ofstream(file, std::ios::binary) << def.SerializeAsString();
  Process client({"run", file, "--server", here->target(), "--fetch", m.next.name()});
  BOOST_REQUIRE(Await([&] {
    const auto status = here->status();
    return status->sessions.size() == 1 && status->sessions[0].calls == 1;
  }));
  there.Signal(SIGSTOP);
  client.Signal(SIGSTOP);
  std::this_thread::sleep_for(14s);
  there.Signal(SIGCONT);
  client.Signal(SIGCONT);
  const auto count = session->Get(m.count);
  BOOST_TEST(count.ok(), count.status());
  BOOST_TEST((count.ok() && count->data<float>()[0] == 7));
  std::this_thread::sleep_for(1s);
  BOOST_REQUIRE(SessionsOf(*here) == 1u);
  BOOST_TEST(here->status()->sessions[0].calls == 1);
  std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(a_killed_server_ends_its_sessions_and_the_next_one_is_used) {
  const std::string cluster = StrCat("ps=127.0.0.1:", FreePorts(1)[0]);
  const std::vector<std::string> serve{"serve", "--cluster", cluster, "--job", "ps", "--task", "0"};
  auto server = std::make_unique<Process>(serve);
  BOOST_REQUIRE(server->Line() != "");
  Model m;
  SessionOptions o;
  o.target = StrCat("troupe://", AddressIn(cluster, "ps", 0).ToString());
  auto session = NewSession(m.root, o);
  auto waiting = std::async(std::launch::async, [&] { return session->Run({}, {m.next}, {}, nullptr); });
  std::this_thread::sleep_for(100ms);
  server->Signal(SIGKILL);
  const absl::Status dead = waiting.get();
  BOOST_TEST(CodeOf(dead) == "UNAVAILABLE");
  BOOST_TEST(dead.message().find(StrCat("the server at ", AddressIn(cluster, "ps", 0).ToString(), " is gone")) !=
                 std::string::npos,
             dead);
  BOOST_TEST(server->Wait() == -SIGKILL);
  server = std::make_unique<Process>(serve);
  BOOST_REQUIRE(server->Line() != "");
  BOOST_TEST(CodeOf(session->Run({}, {m.next}, {}, nullptr)) == "UNAVAILABLE");
  session = NewSession(m.root, o);
  BOOST_TEST(RunOne(*session, {{"x", Tensor::Scalar(2.0f)}}, m.y).data<float>()[0] == 6);
}

// A graph for the program, which waits for what never comes.
BOOST_AUTO_TEST_CASE(a_killed_client_loses_its_sessions_and_their_state) {
  ServerOptions options = Alone();
  options.runtime.memory_limit = 1 << 30;  // and memory of its own, which is counted
  const auto server = Server::Start(options).value();
  Model m;
  const Variable big(m.root.WithOpName("big"),
                     ops::RandomUniform(m.root, ops::Const(m.root, std::vector<int32_t>{1000}), DType::kFloat));
  BOOST_REQUIRE_MESSAGE(m.root.ok(), m.root.status());
  proto::GraphDef def;
  ExportGraphDef(*m.root.graph(), &def);
  const std::string file =
      (std::filesystem::temp_directory_path() / StrCat("troupe_client_", ::getpid(), ".pb")).string();
  std::ofstream(file, std::ios::binary) << def.SerializeAsString();
  Process client(
      {"run", file, "--server", server->target(), "--init", big.initializer().name(), "--fetch", m.next.name()});
  const bool waits = Await([&] {
    const auto status = server->status();
    return status->sessions.size() == 1 && status->sessions[0].calls == 1;
  });
  BOOST_TEST(waits, client.errors());
  BOOST_TEST(server->status()->sessions.at(0).client == "troupe run");
  BOOST_TEST(Await([&] { return server->status()->devices.at(0).memory.bytes_in_use > 0; }));
  client.Signal(SIGKILL);
  BOOST_TEST(client.Wait() == -SIGKILL);
  BOOST_TEST(Await([&] { return SessionsOf(*server) == 0; }));
  BOOST_TEST(Await([&] { return server->status()->devices.at(0).memory.bytes_in_use == 0; }));
  std::filesystem::remove(file);
}

// The readiness of a chief is told within its process; who waits in another one looks.
BOOST_AUTO_TEST_CASE(a_worker_waits_for_a_chief_in_another_process) {
  const auto server = Server::Start(Alone()).value();
  const auto options = [&] {
    SessionOptions o = At(*server);
    o.share_variables = true;
    return o;
  }();
  const auto create = [&](bool chief) -> absl::StatusOr<float> {
    const Scope root = Scope::NewRootScope();
    const Variable v(root.WithOpName("v"), 4.0f);
    const auto scaffold = std::make_shared<train::Scaffold>();
    std::unique_ptr<Session> session;
    if (chief) {
      TROUPE_ASSIGN_OR_RETURN(session, train::ChiefSessionCreator(root, scaffold, options, "", "").CreateSession());
    } else {
      TROUPE_ASSIGN_OR_RETURN(session, train::WorkerSessionCreator(root, scaffold, options, 60000).CreateSession());
    }
    TROUPE_ASSIGN_OR_RETURN(const Tensor value, session->Get(v));
    return value.data<float>()[0];
  };
  // In this process its client's runtime is the chief's, too; so the chief tells nobody here.
  auto worker = std::async(std::launch::async, [&] { return create(false); });
  BOOST_TEST(Await([&] { return SessionsOf(*server) == 1; }));
  {
    const Scope root = Scope::NewRootScope();
    const Variable v(root.WithOpName("v"), 4.0f);
    const Operation init = GlobalVariablesInitializer(root);
    SessionOptions here;
    here.runtime = server->runtime();
    here.share_variables = true;
    TROUPE_REQUIRE_OK(NewSession(root, here)->Run({}, {}, {init}, nullptr));
  }
  const auto value = worker.get();
  BOOST_TEST(value.ok(), value.status());
  BOOST_TEST(value.value_or(0) == 4);
  BOOST_TEST(create(true).value_or(0) == 4);
}

// What is still to end when a program goes on would end beside the program's own end.
BOOST_AUTO_TEST_CASE(servers_and_sessions_leave_no_runtime_that_ends_by_itself) {
  for (int i = 0; i < 20; ++i) {
    auto server = Server::Start(Alone()).value();
    const std::weak_ptr<Runtime> servers = server->runtime();
    auto session = Session::Create(At(*server)).value();
    const std::weak_ptr<Runtime> clients = session->runtime()->impl()->self;
    Model m;
    TROUPE_REQUIRE_OK(session->Extend(*m.root.graph()));
    session = nullptr;
    BOOST_TEST(clients.expired());
    server = nullptr;
    BOOST_TEST(servers.expired());
  }
}

// A call that waits has a share of the session, and is let go when the server has ended.
BOOST_AUTO_TEST_CASE(the_process_ends_after_the_calls_of_a_server_that_was_stopped) {
  int early = 0;
  for (int i = 0; i < 20; ++i) {
    auto server = Server::Start(Alone()).value();
    const std::weak_ptr<Runtime> servers = server->runtime();
    const auto session = Session::Create(At(*server)).value();
    Model m;
    TROUPE_REQUIRE_OK(session->Extend(*m.root.graph()));
    const std::string handle = session->PartialRunSetup({}, {m.next}, {}).value();
    auto waits = std::async(std::launch::async, [&] {
      std::vector<Tensor> out;
      return session->PartialRun(handle, {}, {m.next}, &out);
    });
    BOOST_TEST((waits.wait_for(10ms) == std::future_status::timeout));
    server = nullptr;
    for (bool told = false;;) {
      const bool ends = AwaitNoneUntilExit(0ms);  // first: what it waits for goes after the runtime
      if (servers.expired()) break;
      early += ends && !std::exchange(told, true);
    }
    BOOST_TEST(!waits.get().ok());
  }
  // The thread that has ended a step has a share of the runtime a little longer than who waited for
  // it.
  BOOST_TEST(early <= 5);
}
BOOST_AUTO_TEST_SUITE_END()

}  // namespace clients_end_test
}  // namespace troupe
