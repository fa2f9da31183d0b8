// The session actor: every numbered edge of session_master.h; and the worker, the device and the
// container that it works with.
#include "tests/cast/asked.h"

namespace troupe {
namespace session_test {

using namespace std::chrono_literals;

BOOST_FIXTURE_TEST_CASE(edge_1_extend_is_all_or_nothing, Asked) {
  Extend();
  AskExtend("more");
  AskExtend("more");
  BOOST_TEST(Go() == R"(
session <- extend_request | extend OK; 
session <- extend_request | extend ALREADY_EXISTS; )");
}

BOOST_FIXTURE_TEST_CASE(edges_2_and_3_and_4_and_6_a_signature_is_compiled_once_by_the_worker, Asked) {
  Extend();
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(Go() == R"(
session <- compile_request | 
worker <- register_graph | 
session <- graph_registered | compile OK; )");
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(Go() == R"(
session <- compile_request | compile OK; )");
  // Who comes while it is compiled waits with the first.
  AskCompile({"x"}, {"twice", "x"});
  AskCompile({"x"}, {"twice", "x"});
  BOOST_TEST(Go() == R"(
session <- compile_request | 
session <- compile_request | 
worker <- register_graph | 
session <- graph_registered | compile OK; compile OK; )");
}

BOOST_FIXTURE_TEST_CASE(edge_3_an_error_of_a_pass_answers_at_once, Asked) {
  Extend();
  AskCompile({}, {"nix"});
  AskCompile({}, {"twice"});
  BOOST_TEST(Go() == R"(
session <- compile_request | compile NOT_FOUND; 
session <- compile_request | compile INVALID_ARGUMENT; )");
}

BOOST_FIXTURE_TEST_CASE(edges_1_and_3_work_is_done_in_the_order_in_which_it_came, Asked) {
  Extend();
  AskCompile({"x"}, {"twice"});
  AskExtend("more");
  AskCompile({}, {"more"});
  AskCompile({"x"}, {"twice", "x"});
  BOOST_TEST(Go() == R"(
session <- compile_request | 
session <- extend_request | 
session <- compile_request | 
session <- compile_request | 
worker <- register_graph | 
session <- graph_registered | compile OK; extend OK; compile INVALID_ARGUMENT; 
worker <- register_graph | 
session <- graph_registered | compile OK; )");
}

BOOST_FIXTURE_TEST_CASE(edge_5_while_the_worker_is_down_a_compile_is_refused, Asked) {
  Extend();
  stage.Kill(Find("worker"));
  BOOST_TEST(Go() == R"(
worker <- exit | 
supervisor <- down | 
session <- actor_failed | )");
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(Go() == R"(
session <- compile_request | compile UNAVAILABLE; )");
  stage.Advance(2ms);
  AskCompile({"x"}, {"twice"});
  stage.Play();
  BOOST_TEST(said == "compile OK; ");
}

BOOST_FIXTURE_TEST_CASE(workers_edge_5_a_call_that_the_worker_took_with_it_is_answered, Asked) {
  Extend();
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.Deliver() == "session <- compile_request");
  BOOST_TEST(stage.Queue() == "worker <- register_graph");
  stage.Kill(Find("worker"));  // urgent or not, the call must not be lost: send it behind the exit
  AskCompile({"x"}, {"twice", "x"});
  stage.Play();
  stage.Advance(2ms);
  stage.Play();
  // The first was compiled before the exit; the second met a dead worker's mailbox or the time
  // without one.
  BOOST_TEST(said.find("compile OK; ") == 0u, said);
  BOOST_TEST(
      (said.find("compile ABORTED; ") != std::string::npos || said.find("compile UNAVAILABLE; ") != std::string::npos),
      said);
}

// The news of the worker's death comes while the session that is being made asks it for its
// devices.
BOOST_FIXTURE_TEST_CASE(edge_18_a_session_that_is_made_while_the_worker_dies_is_told, Asked) {
  Extend();
  stage.Kill(Find("worker"));
  stage.Inline([&] { session = Session::Create({.runtime = runtime}).value(); });
  stage.Advance(10ms);
  stage.Play();
  Extend();
  AskCompile({"x"}, {"twice"});
  stage.Play();
  BOOST_TEST(said == "compile OK; ");
}

BOOST_FIXTURE_TEST_CASE(edge_7_a_users_actor_runs_steps, Asked) {
  Extend();
  caf::scoped_actor user(stage.system());
  user->send(ActorOf(*session), run_request{feeds, {"twice"}, {}, {}});
  BOOST_TEST(Go() == R"(
session <- run_request | 
worker <- register_graph | 
session <- graph_registered | 
executor <- run_step | 
session <- step_answered | )");
  user->send(ActorOf(*session), run_request{feeds, {"twice"}, {}, {}});
  BOOST_TEST(Go() == R"(
session <- run_request | 
executor <- run_step | 
session <- step_answered | )");
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    user->receive([&](const run_reply& r) { answers += r.status.ok() && r.outputs.at(0).scalar<float>() == 4.0f; },
                  caf::after(0s) >> [] {});
  }
  BOOST_TEST(answers == 2);
}

BOOST_FIXTURE_TEST_CASE(edge_8_the_next_incarnation_takes_the_calls_that_came_meanwhile, Asked) {
  Extend();
  const caf::actor before = ActorOf(*session);
  stage.Kill(before);
  BOOST_TEST(Go() == R"(
session <- exit | 
supervisor <- down | )");
  BOOST_TEST(!ActorOf(*session));
  Start({"twice"});
  BOOST_TEST(Go() == "");
  BOOST_TEST(State() == "running");
  stage.Advance(2ms);
  BOOST_TEST(Go() == R"(
supervisor <- restart_child | 
session2 <- init | 
worker <- register_graph | 
session2 <- graph_registered | 
executor <- run_step | )");  // it takes the compile in its first turn
  BOOST_TEST(State() == "OK");
  BOOST_TEST((ActorOf(*session) && ActorOf(*session) != before));
}

BOOST_FIXTURE_TEST_CASE(edges_8_and_12_a_compile_ends_with_the_actor, Asked) {
  Extend();
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.Deliver() == "session <- compile_request");
  stage.Kill(ActorOf(*session));
  BOOST_TEST(Go() == R"(
worker <- register_graph | 
session <- exit | compile ABORTED; 
worker <- withdraw_graph | 
supervisor <- down | )");
  stage.Advance(2ms);
  BOOST_TEST(Go() == R"(
supervisor <- restart_child | 
session2 <- init | )");
  // It is compiled anew for who asks next, and later work is done.
  AskCompile({"x"}, {"twice"});
  AskExtend("more");
  BOOST_TEST(Go() == R"(
session2 <- compile_request | 
session2 <- extend_request | 
worker <- register_graph | 
session2 <- graph_registered | compile OK; extend OK; )");
}

// A compile begins when the devices of all tasks are known.
BOOST_FIXTURE_TEST_CASE(edges_14_to_16_devices_are_asked_for_when_they_may_have_changed, Asked) {
  Extend();
  const std::string device = runtime->devices()[0].name;
  stage.Kill(Find("device:" + device));
  stage.Play();
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(Go() == R"(
session <- compile_request | 
worker <- list_devices | 
session <- device_list | 
worker <- register_graph | 
session <- graph_registered | compile OK; )");
  // The worker dies with a question in its mailbox, and with a graph.
  stage.Advance(1s);
  stage.Play();
  stage.Kill(Find("device:" + device));
  stage.Play();
  AskCompile({"x"}, {"twice", "x"});
  stage.Kill(Find("worker"));
  BOOST_TEST(Go() == R"(
session <- compile_request | 
worker <- exit | 
supervisor <- down | 
session <- actor_failed | compile UNAVAILABLE; )");
  stage.Advance(1s);
  stage.Play();
  AskCompile({"x"}, {"x"});
  stage.Play();
  BOOST_TEST(std::exchange(said, "") == "compile OK; ");
  AskCompile({"x"}, {"twice", "x"});
  stage.Kill(Find("worker"));
  BOOST_TEST(Go() == R"(
session <- compile_request | 
worker2 <- exit | 
supervisor <- down | 
session <- actor_failed | compile ABORTED; )");
}

// One caller after the other goes; the last one takes the compile along, whatever it has come to.
BOOST_FIXTURE_TEST_CASE(edge_17_a_compile_for_which_nobody_waits_ends, Asked) {
  Extend();
  const auto first = AskCompile({"x"}, {"twice"}), second = AskCompile({"x"}, {"twice"});
  for (int i = 0; i < 2; ++i) BOOST_TEST(stage.Deliver() == "session <- compile_request");
  Withdraw(first);
  BOOST_TEST(stage.Deliver() == "worker <- register_graph");
  BOOST_TEST(said == "");
  BOOST_TEST(Go() == R"(
session <- withdraw_compile | compile CANCELLED; 
session <- graph_registered | compile OK; )");
  // What waits behind another compile is not begun.
  AskCompile({"x"}, {"twice", "x"});
  const auto behind = AskCompile({"x"}, {"x", "twice"});
  for (int i = 0; i < 2; ++i) BOOST_TEST(stage.Deliver() == "session <- compile_request");
  Withdraw(behind);
  Withdraw(behind);  // it is known no more
  Withdraw(first);
  BOOST_TEST(Go() == R"(
worker <- register_graph | 
session <- withdraw_compile | compile CANCELLED; 
session <- withdraw_compile | 
session <- withdraw_compile | 
session <- graph_registered | compile OK; )");
  caf::scoped_actor user(stage.system());
  uint64_t waiting = 1;
  user->send(ActorOf(*session), get_session_stats{});
  stage.Play();
  user->receive([&](const session_stats& s) { waiting = s.calls_waiting; }, caf::after(0s) >> [] {});
  BOOST_TEST(waiting == 0u);
  // Who asks then has it compiled.
  AskCompile({"x"}, {"x", "twice"});
  BOOST_TEST(Go() == R"(
session <- compile_request | 
worker <- register_graph | 
session <- graph_registered | compile OK; )");
}

BOOST_FIXTURE_TEST_CASE(edge_18_a_death_is_told_in_a_message, Asked) {
  Extend();
  Warm(feeds, {"never"});
  Start({"never"});
  stage.Play();
  const std::string device = "device:" + runtime->devices()[0].name;
  stage.Kill(Find(device));
  BOOST_TEST(stage.Deliver() == "device <- exit");
  BOOST_TEST(stage.Deliver() == "worker <- down");
  BOOST_TEST(State() == "running");
  BOOST_TEST(stage.Queue() == "session <- actor_failed");
  stage.Play();
  BOOST_TEST(State() == "ABORTED");
  BOOST_TEST(*runtime->impl()->news == 0);
  stage.Advance(2ms);
  stage.Play();
  BOOST_TEST(!!Find(device));
  // Nobody takes the place of a dead actor before all sessions have heard: not while a session has
  // no actor either.
  Start({"never"});
  stage.Play();
  stage.Kill(ActorOf(*session));
  stage.Play();
  stage.Kill(Find(device));
  stage.Play();
  BOOST_TEST(*runtime->impl()->news == 1);
  BOOST_TEST(State() == "running");
  for (int i = 0; i < 100 && !ActorOf(*session); ++i) {
    BOOST_TEST(!Find(device));
    stage.Advance(1ms);
    stage.Play();
  }
  BOOST_TEST(State() == "ABORTED");
  for (int i = 0; i < 100 && !Find(device); ++i) {
    stage.Advance(1ms);
    stage.Play();
  }
  BOOST_TEST(!!Find(device));
  BOOST_TEST(*runtime->impl()->news == 0);
}

BOOST_FIXTURE_TEST_CASE(edges_12_and_18_a_death_is_told_again_when_the_actor_dies_with_the_news, Asked) {
  Extend();
  Warm(feeds, {"never"});
  Start({"never"});
  stage.Play();
  const std::string device = "device:" + runtime->devices()[0].name;
  stage.Kill(Find(device));
  BOOST_TEST(stage.Deliver() == "device <- exit");
  // The exit lies in the mailbox of the session's actor before the news.
  stage.Kill(ActorOf(*session));
  BOOST_TEST(stage.DeliverTo("worker") == "worker <- down");
  BOOST_TEST(*runtime->impl()->news == 1);
  BOOST_TEST(stage.DeliverTo("session") == "session <- exit");
  BOOST_TEST(*runtime->impl()->news == 1);
  stage.Play();
  BOOST_TEST(State() == "running");
  for (int i = 0; i < 100 && !ActorOf(*session); ++i) {
    BOOST_TEST(!Find(device));
    stage.Advance(1ms);
    stage.Play();
  }
  BOOST_TEST(State() == "ABORTED");
  BOOST_TEST(*runtime->impl()->news == 0);
  for (int i = 0; i < 100 && !Find(device); ++i) {
    stage.Advance(1ms);
    stage.Play();
  }
  // What names the incarnation that is over is compiled anew.
  Start({"twice"});
  stage.Play();
  BOOST_TEST(State() == "OK");
}

// The news goes to a session that ends before its next actor comes.
BOOST_FIXTURE_TEST_CASE(edge_18_a_session_that_has_ended_holds_up_nobody, Asked) {
  Extend();
  const std::string device = "device:" + runtime->devices()[0].name;
  stage.Kill(Find(device));
  BOOST_TEST(stage.Deliver() == "device <- exit");
  stage.Kill(ActorOf(*session));
  BOOST_TEST(stage.DeliverTo("worker") == "worker <- down");
  BOOST_TEST(stage.DeliverTo("session") == "session <- exit");
  BOOST_TEST(*runtime->impl()->news == 1);
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST(*runtime->impl()->news == 0);
  stage.Play();
}

BOOST_FIXTURE_TEST_CASE(edges_9_to_11_close_ends_what_runs_and_refuses_what_comes, Asked) {
  Extend();
  Warm(feeds, {"never"});
  Start({"never"});
  stage.Play();
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.Deliver() == "session <- compile_request");
  AskClose();
  BOOST_TEST(Go() == R"(
worker <- register_graph | 
session <- close_request | compile CANCELLED; close OK; 
session <- graph_registered | 
executor <- doorbell | 
executor <- exit | 
worker <- withdraw_graph | )");
  BOOST_TEST(State() == "CANCELLED");
  BOOST_TEST(Message() == "the session was closed");
  AskExtend("late");
  AskCompile({"x"}, {"twice"});
  AskClose();
  BOOST_TEST(Go() == R"(
session <- extend_request | extend CANCELLED; 
session <- compile_request | compile CANCELLED; 
session <- close_request | close OK; )");
  Start({"twice"});
  BOOST_TEST(State() == "CANCELLED");
  caf::scoped_actor user(stage.system());
  user->send(ActorOf(*session), run_request{feeds, {"twice"}, {}, {}});
  stage.Play();
  absl::Status status;
  user->receive([&](const run_reply& r) { status = r.status; }, caf::after(0s) >> [] {});
  BOOST_TEST(status.code() == absl::StatusCode::kCancelled, status);
}

BOOST_FIXTURE_TEST_CASE(edge_12_whoever_waits_for_a_dying_session_actor_gets_an_answer, Asked) {
  Extend();
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.Deliver() == "session <- compile_request");
  caf::scoped_actor user(stage.system());
  user->send(ActorOf(*session), run_request{feeds, {"never"}, {}, {}});
  AskExtend("behind");
  stage.Kill(ActorOf(*session));
  stage.Play();
  absl::Status status;
  user->receive([&](const run_reply& r) { status = r.status; }, caf::after(0s) >> [] {});
  BOOST_TEST(status.code() == absl::StatusCode::kAborted, status);
  BOOST_TEST(said.find("compile ABORTED; ") != std::string::npos, said);
  stage.Advance(2ms);
  stage.Play();
  AskExtend("afterwards");
  stage.Play();
  BOOST_TEST(said.find("extend OK; ") != std::string::npos, said);
}

// What is queued is answered; what runs goes on, but for the step that the actor runs for another.
BOOST_FIXTURE_TEST_CASE(edge_12_steps_outlive_the_session_actor, Asked) {
  Extend();
  Warm(feeds, {"never"});
  Start({"never"});
  stage.Play();
  caf::scoped_actor user(stage.system());
  user->send(ActorOf(*session), run_request{feeds, {"never", "twice"}, {}, {}});
  stage.Play();
  BOOST_TEST(session->RunningSteps().size() >= 2u);
  stage.Play();
  AskCompile({"x"}, {"twice", "x"});
  AskExtend("queued");
  for (int i = 0; i < 2; ++i)
    BOOST_TEST(stage.Deliver() == (i == 0 ? "session <- compile_request" : "session <- extend_request"));
  stage.Kill(ActorOf(*session));
  stage.Play();
  BOOST_TEST(said == "compile ABORTED; extend ABORTED; ");
  absl::Status status;
  user->receive([&](const run_reply& r) { status = r.status; }, caf::after(0s) >> [] {});
  BOOST_TEST(status.code() == absl::StatusCode::kAborted, status);
  BOOST_TEST(State() == "running");
  stage.Advance(2ms);
  stage.Play();
  BOOST_TEST(State() == "running");
  said.clear();
  AskExtend("queued");
  stage.Play();
  BOOST_TEST(said == "extend OK; ");  // the first one did nothing
  TROUPE_REQUIRE_OK(session->Close());
  stage.Play();
  BOOST_TEST(State() == "CANCELLED");
  Start({"never"});
  BOOST_TEST(State() == "CANCELLED");
}

BOOST_FIXTURE_TEST_CASE(edge_13_an_actor_that_dies_too_often_ends_the_session, Asked) {
  Extend();
  Warm(feeds, {"never"});
  Start({"never"});
  stage.Play();
  for (int deaths = 1; deaths <= 11; ++deaths) {
    BOOST_TEST(State() == "running");
    for (int i = 0; i < 2000 && !ActorOf(*session); ++i) {
      stage.Advance(1ms);
      stage.Play();
    }
    stage.Kill(ActorOf(*session));
    stage.Play();
  }
  BOOST_TEST(State() == "ABORTED");
  Start({"twice"});
  BOOST_TEST(State() == "FAILED_PRECONDITION");
  BOOST_TEST(Message().find("the session's actor failed too often") == 0u, Message());
  stage.Inline([&] { BOOST_TEST(absl::IsFailedPrecondition(session->Extend(proto::GraphDef()))); });
  stage.Advance(1h);
  BOOST_TEST(Go() == "");
  BOOST_TEST(!ActorOf(*session));
  TROUPE_REQUIRE_OK(session->Close());
}

TROUPE_OP("CastBare")
    .Output("y: dtype")
    .Attr("dtype: type")
    .NotDifferentiable("it has no kernel")
    .Doc("An op that no device can run.");

// Sends `message` to the worker, and gives its answer.
template <class Answer, class Message>
Answer AskWorker(Asked* in, Message message) {
  caf::scoped_actor asker(in->stage.system());
  asker->send(in->Find("worker"), std::move(message));
  in->stage.Play();
  Answer answer;
  bool came = false;
  asker->receive(
      [&](Answer& a) {
        answer = std::move(a);
        came = true;
      },
      caf::after(0s) >> [] {});
  BOOST_TEST(came);
  return answer;
}

BOOST_FIXTURE_TEST_CASE(worker_edge_1_a_task_tells_its_devices, Asked) {
  const auto answer = AskWorker<device_list>(this, list_devices{7});
  BOOST_TEST(answer.number == 7);
  BOOST_TEST(answer.task == "/job:localhost/replica:0/task:0");
  BOOST_TEST(answer.incarnation == 1u);
  BOOST_REQUIRE_EQUAL(answer.devices.size(), 1u);
  BOOST_TEST(answer.devices[0].name == runtime->devices()[0].name);
  BOOST_TEST(answer.devices[0].type == "CPU");
  BOOST_TEST(answer.devices[0].incarnation == runtime->devices()[0].incarnation);
}

// The worker, edges 2, 3 and 4.
BOOST_FIXTURE_TEST_CASE(the_worker_compiles_for_its_own_devices_only, Asked) {
  const std::string mine = runtime->devices()[0].name;
  const auto request = [&](const std::string& device, const char* op) {
    register_graph message;
    message.compile = 5;
    message.session = "test";
    auto graph = std::make_shared<Graph>();
    auto n = NodeBuilder(graph.get(), "n", op).Attr("dtype", DType::kFloat).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    message.parts.push_back({device, {graph}});
    return message;
  };
  const RegisteredGraphs& graphs = *runtime->impl()->tasks[0].graphs;
  auto good = AskWorker<graph_registered>(this, request(mine, "Placeholder"));
  TROUPE_REQUIRE_OK(good.status);
  BOOST_TEST(good.compile == 5);
  BOOST_TEST(good.task == "/job:localhost/replica:0/task:0");
  BOOST_TEST(good.parts.at(0).device == mine);
  BOOST_TEST((good.graph != nullptr && graphs.Find(good.handle) == good.graph));
  good.graph = nullptr;
  BOOST_TEST(graphs.Find(good.handle) == nullptr);
  const auto others =
      AskWorker<graph_registered>(this, request("/job:other/replica:0/task:0/device:CPU:0", "Placeholder"));
  BOOST_TEST(absl::IsNotFound(others.status), others.status);
  const auto bare = AskWorker<graph_registered>(this, request(mine, "CastBare"));
  BOOST_TEST(absl::IsNotFound(bare.status), bare.status);
  BOOST_TEST(bare.graph == nullptr);
  // Nothing is compiled when only the graphs are asked for.
  register_graph shown = request(mine, "CastBare");
  shown.only_graphs = true;
  const auto graph = AskWorker<graph_registered>(this, std::move(shown));
  TROUPE_REQUIRE_OK(graph.status);
  BOOST_REQUIRE_EQUAL(graph.graphs.size(), 1u);
  BOOST_TEST(graph.graphs[0].graph->Find("n") != nullptr);
  BOOST_TEST(graph.handle == 0u);
  // A part without a graph, as damaged bytes may give it.
  register_graph empty;
  empty.parts.push_back({mine, {}});
  const auto refused = AskWorker<graph_registered>(this, std::move(empty));
  BOOST_TEST(absl::IsInvalidArgument(refused.status), refused.status);
}

BOOST_FIXTURE_TEST_CASE(device_and_container_answer_and_a_call_that_dies_with_them_is_aborted, Asked) {
  VariableOptions options;
  options.container = "ours";
  Variable v(root.WithOpName("v"), 5.0f, options);
  const Operation init = GlobalVariablesInitializer(root);
  Extend();
  stage.Inline([&] { TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr)); });
  const std::string device = runtime->devices()[0].name;
  // An actor of the user's asks.
  const auto ask = [&](const caf::actor& to, auto message, auto got, const char* what) {
    const auto asker = [=, this](caf::event_based_actor* self, const caf::actor& asked) {
      self->request(asked, caf::infinite, message).then(got, [this, what](const caf::error& e) {
        StrAppend(&said, what, e == caf::sec::request_receiver_down ? " is down; " : " failed; ");
      });
    };
    stage.system().spawn(asker, to);
  };
  const auto stats = [&](const caf::actor& to) {
    ask(
        to, get_device_stats{},
        [this, device](const device_stats& s) {
          StrAppend(&said, s.device.name == device ? "stats of mine; " : "stats of others; ");
        },
        "stats");
  };
  const auto list = [&](const caf::actor& to) {
    ask(
        to, list_resources{}, [this](const resource_list& l) { StrAppend(&said, "list of ", l.entries.size(), "; "); },
        "list");
  };
  const auto reset = [&](const caf::actor& to) {
    ask(
        to, reset_resources{{"ours"}}, [this](const resources_reset& r) { Note("reset", r.status); }, "reset");
  };
  const caf::actor d = Find("device:" + device), c = Find("container:" + device);
  stats(d);
  BOOST_TEST(Go() == R"(
scheduled_actor <- init | 
device <- get_device_stats | 
scheduled_actor <- device_stats | stats of mine; )");
  for (const auto& [request, answer] :
       std::map<int, const char*>{{1, "list of 1; "}, {2, "reset OK; "}, {3, "list of 0; "}}) {
    request == 2 ? reset(c) : list(c);
    stage.Play();
    BOOST_TEST(std::exchange(said, "") == answer);
  }
  for (const caf::actor& a : {d, c}) {
    stage.Kill(a);
    a == d ? stats(a) : list(a);
    stage.Play();
    a == d ? stats(a) : list(a);
    stage.Play();
    BOOST_TEST(std::exchange(said, "") == (a == d ? "stats is down; stats is down; " : "list is down; list is down; "));
  }
}

}  // namespace session_test
}  // namespace troupe
