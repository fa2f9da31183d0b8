// Sessions in servers over the loopback interface, as programs use them: SessionOptions.target.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <thread>
#include <utility>

#include <unistd.h>

#include "actors/runtime/runtime_impl.h"
#include "actors/threads/aside.h"
#include "net/session_host.h"
#include "net/target.h"
#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "troupe/import_export.h"
#include "troupe/ops.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/queues.h"
#include "troupe/server.h"
#include "troupe/serving.h"
#include "troupe/train/monitored_session.h"
#include "troupe/variable.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

ServerOptions Alone() {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(StrCat("ps=127.0.0.1:", FreePorts(1)[0])).value(), {"ps", 0}};
  o.runtime.threads = 2;
  return o;
}
SessionOptions At(const Server& server) {
  SessionOptions o;
  o.target = server.target();
  o.client_name = "tester";
  o.connect_timeout_ms = 60000;
  return o;
}
std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }
size_t SessionsOf(const Server& server) { return server.status()->sessions.size(); }

// x -> 3x; a counter; a queue from which nothing comes.
struct Model {
  Model() {
    x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    y = x * 3.0f;
    count = Variable(root.WithOpName("count"), 0.0f);
    more = count.AssignAdd(root.WithOpName("more"), 1.0f);
    queue = Queue::Fifo(root.WithOpName("queue"), {DType::kFloat});
    next = queue.Dequeue(root.WithOpName("next"))[0];
    BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  }
  Scope root = Scope::NewRootScope();
  Output x, y, next, more;
  Variable count;
  Queue queue;
};

BOOST_AUTO_TEST_SUITE(clients)

BOOST_AUTO_TEST_CASE(edge_6_a_host_that_dies_is_restarted_and_sessions_go_on) {
  Model m;
  ServerOptions options = Alone();
  options.clients.most_sessions = 2;
  const auto server = Server::Start(options).value();
  const auto before = Session::Create(At(*server)).value();
  BOOST_REQUIRE(before->Extend(*m.root.graph()).ok());
  for (int i = 0; i < 3; ++i) {
    caf::actor host;
    BOOST_TEST(Await([&] { return (host = HostOf(*server->runtime())) != nullptr; }));
    caf::anon_send_exit(host, caf::exit_reason::kill);
    BOOST_TEST(Await([&] { return HostOf(*server->runtime()) != host; }));
  }
  std::vector<Tensor> out;
  BOOST_TEST(before->Run({{m.x, Tensor::Scalar(2.0f)}}, {m.y}, {}, &out).ok());
  BOOST_TEST(out.at(0).scalar<float>() == 6.0f);
  // The next host opens sessions, counts those that there were, and sees them end.
  absl::StatusOr<std::unique_ptr<Session>> second = absl::UnavailableError("");
  BOOST_TEST(Await([&] { return (second = Session::Create(At(*server))).ok(); }));
  BOOST_TEST(CodeOf(Session::Create(At(*server)).status()) == "RESOURCE_EXHAUSTED");
  BOOST_TEST(SessionsOf(*server) == 2u);
  BOOST_TEST((*second)->Close().ok());
  BOOST_TEST(Await([&] { return SessionsOf(*server) == 1u; }));
  // And ends the others when the server stops.
  BOOST_TEST(server->Stop(60s).ok());
  BOOST_TEST(Await([&] {
    return CodeOf(before->Run({{m.x, Tensor::Scalar(2.0f)}}, {m.y}, {}, &out)) == "UNAVAILABLE";
  }));
}

BOOST_AUTO_TEST_CASE(a_server_that_stops_names_sessions_that_have_not_ended) {
  const auto server = Server::Start(Alone()).value();
  const auto session = Session::Create(At(*server)).value();
  // Nobody is there who would end them.
  DismissHost(*server->runtime());
  BOOST_TEST(Await([&] { return HostOf(*server->runtime()) == nullptr; }));
  const absl::Status stopped = server->Stop(200ms);
  BOOST_TEST(CodeOf(stopped) == "DEADLINE_EXCEEDED");
  BOOST_TEST(stopped.message() ==
             "after 200 ms these are still alive: sessions of clients: there is no host of theirs now");
}

BOOST_AUTO_TEST_CASE(a_target_is_checked) {
  const auto wrong = [](const char* text) { return std::string(ParseTarget(text).status().message()); };
  BOOST_TEST(ParseTarget("troupe://a:1,[::1]:2")->at(1).ToString() == "[::1]:2");
  BOOST_TEST(wrong("grpc://a:1") ==
             "target 'grpc://a:1' does not begin with troupe://, as in troupe://host:port,host:port");
  BOOST_TEST(wrong("troupe://").starts_with("target: the address '' is not host:port"));
  BOOST_TEST(wrong("troupe://a:1,").starts_with("target: the address '' is not host:port"));
  SessionOptions o;
  o.target = "troupe://a";
  BOOST_TEST(CodeOf(Session::Create(o).status()) == "INVALID_ARGUMENT");
  o.connect_timeout_ms = 0;
  BOOST_TEST(CodeOf(Session::Create(o).status()) == "INVALID_ARGUMENT");
}

BOOST_AUTO_TEST_CASE(a_session_at_a_target_is_used_as_one_here) {
  const auto server = Server::Start(Alone()).value();
  Model m;
  const auto session = NewSession(m.root, At(*server));
  BOOST_TEST(RunOne(*session, {{"x", Tensor::Scalar(2.0f)}}, m.y).data<float>()[0] == 6);
  // State.
  TROUPE_REQUIRE_OK(session->Set(m.count, Tensor::Scalar(5.0f)));
  TROUPE_REQUIRE_OK(session->Run({}, {m.more}, {}, nullptr));
  BOOST_TEST(session->Get(m.count)->data<float>()[0] == 6);
  // Prepared.
  const Callable triple = session->Prepare({m.x}, {m.y}, {}).value();
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(triple.Run({Tensor::Scalar(3.0f)}, &out));
  BOOST_TEST(out.at(0).data<float>()[0] == 9);
  BOOST_TEST(CodeOf(triple.Run({}, &out)) == "INVALID_ARGUMENT");
  BOOST_TEST(CodeOf(session->Prepare({"nothing"}, {m.y}, {}).status()) == "NOT_FOUND");
  // Asynchronous, one after the other.
  std::promise<float> told;
  session->RunAsync({{m.x, Tensor::Scalar(1.0f)}}, {m.y}, {}, [&](absl::Status s, std::vector<Tensor> first) {
    if (!s.ok()) return told.set_value(-1);
    // Blocking calls are refused here.
    if (session->Run({{m.x, first[0]}}, {m.y}, {}, nullptr).ok()) return told.set_value(-2);
    triple.RunAsync({first[0]}, [&](const absl::Status&, const std::vector<Tensor>& second) {
      told.set_value(second.empty() ? -3 : second[0].data<float>()[0]);
    });
  });
  BOOST_TEST(told.get_future().get() == 9);
  // More nodes, which the graph may be given again with.
  const Output z = m.y + 1.0f;
  TROUPE_REQUIRE_OK(session->Extend(*m.root.graph()));
  BOOST_TEST(RunOne(*session, {{"x", Tensor::Scalar(2.0f)}}, z).data<float>()[0] == 7);
  proto::GraphDef twice;
  twice.add_node()->set_name("x");
  twice.mutable_node(0)->set_op("NoOp");
  BOOST_TEST(CodeOf(session->Extend(twice)) == "ALREADY_EXISTS");
  // Statistics and graphs.
  RunOptions traced;
  traced.collect_stats = traced.partition_graphs = true;
  proto::RunMetadata metadata;
  TROUPE_REQUIRE_OK(session->Run(traced, {{m.x, Tensor::Scalar(1.0f)}}, {m.y}, {}, &out, &metadata));
  BOOST_TEST(metadata.step_stats().dev_stats_size() == 1);
  BOOST_TEST(metadata.partition_graphs_size() == 1);
  const auto devices = session->ListDevices().value();
  BOOST_REQUIRE(devices.size() == 1u);
  BOOST_TEST(devices[0].name == "/job:ps/replica:0/task:0/device:CPU:0");
  TROUPE_REQUIRE_OK(session->Reset({""}));
  BOOST_TEST(!session->Get(m.count).ok());
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST(CodeOf(session->Run({}, {m.more}, {}, nullptr)) == "CANCELLED");
  BOOST_TEST(CodeOf(triple.Run({Tensor::Scalar(3.0f)}, &out)) == "CANCELLED");
  BOOST_TEST(Await([&] { return SessionsOf(*server) == 0; }));
}

// A batcher asks the session's actor, which is in the server.
BOOST_AUTO_TEST_CASE(a_batcher_needs_a_session_of_this_process) {
  const auto server = Server::Start(Alone()).value();
  Model m;
  const std::shared_ptr<Session> session = NewSession(m.root, At(*server));
  const absl::Status refused =
      SpawnBatcher(*server->runtime()->impl()->system, session, {.feeds = {"x"}, .fetches = {m.y.name()}}).status();
  BOOST_TEST(CodeOf(refused) == "INVALID_ARGUMENT");
  BOOST_TEST(refused.message().find("a session of this process") != std::string::npos, refused);
}

BOOST_AUTO_TEST_CASE(edge_4_what_waits_has_threads_of_its_own) {
  const auto server = Server::Start(Alone()).value();
  Scope root = Scope::NewRootScope();
  const Output a = ops::Placeholder(root.WithOpName("a"), DType::kFloat),
               b = ops::Placeholder(root.WithOpName("b"), DType::kFloat);
  const Output first = a * 2.0f, second = first + b;
  const auto session = NewSession(root, At(*server));
  const std::string handle = session->PartialRunSetup({a, b}, {first, second}, {}).value();
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->PartialRun(handle, {{a, Tensor::Scalar(1.0f)}}, {first}, &out));
  BOOST_TEST(out.at(0).data<float>()[0] == 2);
  // A step that waits keeps nobody else from running.
  BOOST_TEST(RunOne(*session, {{"a", Tensor::Scalar(3.0f)}}, first).data<float>()[0] == 6);
  TROUPE_REQUIRE_OK(session->PartialRun(handle, {{b, Tensor::Scalar(5.0f)}}, {second}, &out));
  BOOST_TEST(out.at(0).data<float>()[0] == 7);
  BOOST_TEST(CodeOf(session->PartialRun(handle, {}, {second}, &out)) == "INVALID_ARGUMENT");
  const std::string given_up = session->PartialRunSetup({a, b}, {first, second}, {}).value();
  TROUPE_REQUIRE_OK(session->PartialRunCancel(given_up));
  BOOST_TEST(Await([&] { return CodeOf(session->PartialRun(given_up, {}, {first}, &out)) == "INVALID_ARGUMENT"; }));
}

BOOST_AUTO_TEST_CASE(edge_13_big_tensors_and_graphs_travel_in_pieces) {
  const auto server = Server::Start(Alone()).value();
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = x * 2.0f;
  std::vector<float> many(600000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = float(i);
  const Output big = ops::Const(root.WithOpName("big"), many), sum = big + x;  // a graph of 2.4 MB
  const auto session = NewSession(root, At(*server));
  const Tensor fed = Tensor::Vector<float>(absl::Span<const float>(many));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({{x, fed}}, {y, sum}, {}, &out));
  BOOST_TEST(out.at(0).data<float>()[599999] == 1199998);
  BOOST_TEST(out.at(1).data<float>()[599998] == 1199996);
  const std::string handle = session->PartialRunSetup({x}, {y}, {}).value();
  TROUPE_REQUIRE_OK(session->PartialRun(handle, {{x, fed}}, {y}, &out));
  BOOST_TEST(out.at(0).data<float>()[599999] == 1199998);
  // Many at once, of which some are given up on the way.
  std::vector<std::future<absl::Status>> runs;
  CancellationToken token;
  for (int i = 0; i < 8; ++i) {
    runs.push_back(std::async(std::launch::async, [&, i] {
      RunOptions options;
      if (i % 2 == 0) options.cancellation = &token;
      std::vector<Tensor> mine;
      return session->Run(options, {{x, fed}}, {y}, {}, &mine, nullptr);
    }));
  }
  token.Cancel();
  for (size_t i = 0; i < runs.size(); ++i) {
    const absl::Status s = runs[i].get();
    BOOST_TEST((s.ok() || (i % 2 == 0 && absl::IsCancelled(s))), s);
  }
  TROUPE_REQUIRE_OK(session->Run({{x, fed}}, {y}, {}, &out));
}

// More than may be under way at a time, both ways.
BOOST_AUTO_TEST_CASE(big_calls_wait_for_each_other) {
  const auto server = Server::Start(Alone()).value();
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = x * 2.0f;
  const auto session = NewSession(root, At(*server));
  const std::vector<float> many(9 << 18, 1.0f);  // 9 MB
  const Tensor fed = Tensor::Vector<float>(absl::Span<const float>(many));
  std::vector<std::future<absl::Status>> runs;
  for (int i = 0; i < 20; ++i) {
    runs.push_back(std::async(std::launch::async, [&] {
      std::vector<Tensor> out;
      return session->Run({{x, fed}}, {y}, {}, &out);
    }));
  }
  for (std::future<absl::Status>& run : runs) {
    const absl::Status s = run.get();
    BOOST_TEST(s.ok(), s);
  }
}

// What a reader refuses would never be answered.
BOOST_AUTO_TEST_CASE(odd_values_are_answered) {
  const auto server = Server::Start(Alone()).value();
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kBool), y = ops::LogicalNot(root.WithOpName("y"), x);
  SessionOptions options = At(*server);
  options.client_name = std::string(5000, 'n');
  options.connect_timeout_ms = 5000;
  const auto session = NewSession(root, options);
  BOOST_TEST(server->status()->sessions.at(0).client == std::string(4096, 'n'));
  Tensor odd(DType::kBool, TensorShape({1}));
  *static_cast<unsigned char*>(odd.raw()) = 2;
  RunOptions soon;
  soon.timeout_ms = 5000;
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run(soon, {{x, odd}}, {y}, {}, &out, nullptr));
  BOOST_TEST(!out.at(0).data<bool>()[0]);
}

BOOST_AUTO_TEST_CASE(errors_keep_code_message_and_payloads) {
  const auto server = Server::Start(Alone()).value();
  Model m;
  const auto there = NewSession(m.root, At(*server)), here = NewSession(m.root);
  const auto wrong = [&](Session& s) {
    return s.Run({{m.x, Tensor::Vector<float>({1, 2})}, {"x", Tensor::Scalar(1.0f)}}, {m.y}, {}, nullptr);
  };
  BOOST_TEST(wrong(*there) == wrong(*here));
  const auto unknown = [&](Session& s) { return s.Run({}, {"nothing"}, {"more", "less"}, nullptr); };
  BOOST_TEST(unknown(*there) == unknown(*here));
  BOOST_TEST(unknown(*there).message().find("less") != std::string::npos);
  const absl::Status unfed = there->Run({}, {m.y}, {}, nullptr);
  BOOST_TEST(CodeOf(unfed) == "INVALID_ARGUMENT");
  BOOST_TEST(unfed == here->Run({}, {m.y}, {}, nullptr));
}

BOOST_AUTO_TEST_CASE(deadlines_and_tokens_reach_the_kernels) {
  const auto server = Server::Start(Alone()).value();
  Model m;
  const auto session = NewSession(m.root, At(*server));
  RunOptions soon;
  soon.timeout_ms = 100;
  const absl::Status late = session->Run(soon, {}, {m.next}, {}, nullptr, nullptr);
  BOOST_TEST(CodeOf(late) == "DEADLINE_EXCEEDED");
  // The server's own word: what the step waited for.
  BOOST_TEST(late.message().find("next") != std::string::npos, late);
  CancellationToken token;
  RunOptions options;
  options.cancellation = &token;
  auto waiting =
      std::async(std::launch::async, [&] { return session->Run(options, {}, {m.next}, {}, nullptr, nullptr); });
  BOOST_TEST(Await([&] { return server->status()->sessions.at(0).calls == 1; }));
  BOOST_TEST(Await([&] { return !session->RunningSteps().empty(); }));
  token.Cancel();
  BOOST_TEST(CodeOf(waiting.get()) == "CANCELLED");
  BOOST_TEST(server->status()->sessions.at(0).calls == 0);
  BOOST_TEST(CodeOf(session->Run(options, {}, {m.next}, {}, nullptr, nullptr)) == "CANCELLED");
  // Close ends who waits.
  waiting = std::async(std::launch::async, [&] { return session->Run({}, {m.next}, {}, nullptr); });
  BOOST_TEST(Await([&] { return server->status()->sessions.at(0).calls == 1; }));
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST(CodeOf(waiting.get()) == "CANCELLED");
}

BOOST_AUTO_TEST_CASE(who_does_not_answer_is_named) {
  const auto server = Server::Start(Alone()).value();
  const int closed = FreePorts(1)[0];
  SessionOptions o = At(*server);
  o.target = StrCat("troupe://127.0.0.1:", closed, ",", server->listens_at());
  BOOST_TEST(Session::Create(o).ok());
  o.target = StrCat("troupe://127.0.0.1:", closed);
  o.connect_timeout_ms = 2000;
  const absl::Status nobody = Session::Create(o).status();
  BOOST_TEST(CodeOf(nobody) == "UNAVAILABLE");
  BOOST_TEST(nobody.message().find(
                 StrCat("no server of target '", o.target, "' gave a session: 127.0.0.1:", closed, ": ")) == 0u);
  o = At(*server);
  o.runtime = server->runtime();
  BOOST_TEST(CodeOf(Session::Create(o).status()) == "INVALID_ARGUMENT");
}

BOOST_AUTO_TEST_CASE(what_cannot_cross_is_refused) {
  const auto server = Server::Start(Alone()).value();
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output big =
      ops::Fill(root.WithOpName("big"), ops::Const(root, std::vector<int64_t>{1 << 10, 1 << 10, 600}), x);
  const auto session = NewSession(root, At(*server));
  const absl::Status s = session->Run({{x, Tensor::Scalar(1.0f)}}, {big}, {}, nullptr);
  BOOST_TEST(CodeOf(s) == "INVALID_ARGUMENT");
  BOOST_TEST(s.message().find("what the step fetched: tensors of 2516582400 bytes") != std::string::npos, s);
}

BOOST_AUTO_TEST_CASE(many_clients_work_at_once) {
  ServerOptions options = Alone();
  options.clients.most_sessions_of_client = 8;
  const auto server = Server::Start(options).value();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Model m;
      for (int round = 0; round < 2; ++round) {
        const auto session = NewSession(m.root, At(*server));
        for (int i = 0; i < 50; ++i) {
          if (RunOne(*session, {{"x", Tensor::Scalar(float(i))}}, m.y).data<float>()[0] == 3.0f * float(i)) ++good;
        }
        (void)t;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_TEST(good == 400);
  BOOST_TEST(Await([&] { return SessionsOf(*server) == 0; }));
}

// Variables of sessions that share them stay with the server; those of one session end with it.
BOOST_AUTO_TEST_CASE(shared_state_stays_and_a_sessions_own_goes) {
  const auto server = Server::Start(Alone()).value();
  Model m;
  SessionOptions shared = At(*server);
  shared.share_variables = true;
  auto first = NewSession(m.root, shared), own = NewSession(m.root, At(*server));
  TROUPE_REQUIRE_OK(first->Set(m.count, Tensor::Scalar(7.0f)));
  TROUPE_REQUIRE_OK(own->Set(m.count, Tensor::Scalar(8.0f)));
  first = nullptr;
  const auto second = NewSession(m.root, shared);
  BOOST_TEST(second->Get(m.count)->data<float>()[0] == 7);
  BOOST_TEST(own->Get(m.count)->data<float>()[0] == 8);
  const auto here = [&] {
    SessionOptions o;
    o.runtime = server->runtime();
    o.share_variables = true;
    return NewSession(m.root, o);
  }();
  BOOST_TEST(here->Get(m.count)->data<float>()[0] == 7);
}

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

}  // namespace
}  // namespace troupe
