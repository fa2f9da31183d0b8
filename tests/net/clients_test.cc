// Sessions in servers over the loopback interface, as programs use them: SessionOptions.target.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "actors/runtime/runtime_impl.h"
#include "net/session_host.h"
#include "net/target.h"
#include "tests/net/clients.h"
#include "troupe/import_export.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/serving.h"
#include "troupe/troupe.h"

namespace troupe {
namespace clients_test {

using namespace std::chrono_literals;

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
  soon.timeout_ms = 1000;  // compiling included
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
  BOOST_TEST(Await([&] { return server->status()->sessions.at(0).calls == 0; }));
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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace clients_test
}  // namespace troupe
