// A client's session in a server, message by message: agent, host and desk in one actor system
// whose scheduler and clock are the test's, with a real runtime behind them.
#include <boost/test/unit_test.hpp>
#include <caf/binary_serializer.hpp>
#include <map>
#include <memory>
#include <set>

#include "actors/messages/reply.h"
#include "actors/threads/actor_thread.h"
#include "actors/threads/surely.h"
#include "net/parcels.h"
#include "net/session_agent.h"
#include "net/session_desk.h"
#include "net/session_host.h"
#include "tests/actors/graphs.h"
#include "tests/cast/stage.h"
#include "troupe/node_builder.h"
#include "troupe/ops.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

ClientPolicy Policy() {
  ClientPolicy p;
  p.most_sessions = 3;
  p.most_sessions_of_client = 2;
  p.most_calls = 2;
  p.lease = 1000ms;
  return p;
}

// A host on the stage, and a client with one agent.
struct Office {
  explicit Office(const ClientPolicy& policy = Policy()) : sessions(std::make_shared<HostedSessions>(policy)) {
    stage.Inline([&] {
      runtime = StartRuntimeIn(stage.system(), {.threads = 1}, stage.clock(), CastPolicies()).value();
      host = SpawnHost(stage.system(), runtime, policy, sessions);
    });
    names[host.id()] = "host";
  }
  ~Office() {
    silent.clear();
    if (agent) caf::anon_send(agent, end_agent{});
    Play();
    StopSurely(stage.system(), host);
    Play();
    stage.Inline([&] {
      agent = desk = host = nullptr;
      runtime = nullptr;
    });
  }
  void NewAgent() {
    calls = std::make_shared<AgentCalls>();
    agent = SpawnAgent(stage.system(), calls, "the server");
    names[agent.id()] = "agent";
  }
  // Asks for a session; what the host says is written down, and the agent told.
  void Open(uint32_t protocol = kNetProtocol) {
    open_session m;
    m.protocol = protocol;
    m.name = "tester";
    m.client = agent;
    AskThen<session_opened>(stage.system(), host, std::move(m), Reply<session_opened>([this](session_opened o) {
                              Note("opened", o.status);
                              if (!o.status.ok()) return;
                              desk = o.desk;
                              names[desk.id()] = "desk";
                              caf::anon_send(agent, desk_opened{o.desk, o.lease_ms});
                            }));
  }
  void OpenAndPlay() {
    NewAgent();
    Open();
    Play();
    said.clear();
  }
  void Note(std::string_view what, const absl::Status& s) {
    StrAppend(&said, what, " ", absl::StatusCodeToString(s.code()), "; ");
  }
  // Begins a call as a client's session does, and returns its number.
  template <class Message>
  uint64_t Call(std::string name, Message m, AgentCalls::Time due = AgentCalls::Time::max()) {
    const auto number = std::make_shared<uint64_t>(0);
    const auto call = std::make_shared<AgentCall>(
        [this, name](const call_answer& a) {
          Note(name, a.reply.status);
          for (const Tensor& t : a.reply.outputs) StrAppend(&said, t.DebugString(), "; ");
          last = a;
        },
        [this, number] { caf::anon_send(agent, cancel_begun{*number}); });
    auto begun = calls->Begin(call, due, DeadlineExceeded("too late"));
    if (!begun.ok()) {
      call->Fail(begun.status());
      return 0;
    }
    m.call = *number = *begun;
    Tell(std::move(m));
    call->Watch(&token);
    caf::anon_send(agent, call_begun{});
    return *number;
  }
  template <class Message>
  void Tell(Message m) {
    SendSurely(
        stage.system(), desk, [&] { return std::move(m); }, caf::actor_cast<caf::strong_actor_ptr>(agent));
  }
  extend_session Extension() {
    extend_request request{nullptr, std::shared_ptr<const Graph>(std::shared_ptr<void>(), root.graph())};
    extend_session m;
    caf::binary_serializer out(stage.system(), m.graph);
    BOOST_REQUIRE(!out(request));
    return m;
  }
  static run_session Step(const std::string& fetch, float x) {
    run_session m;
    m.step.feeds = {{"x", Tensor::Scalar(x)}};
    m.step.fetches = {fetch};
    return m;
  }
  // x -> twice, and x -> never.
  void BuildGraph() {
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    const Output twice = ops::Add(root.WithOpName("twice"), x, x);
    BOOST_REQUIRE(root.ok() && twice.node() != nullptr);
    BOOST_REQUIRE(NodeBuilder(root.graph(), "never", "CastNever").Input(NodeOut{x.node(), x.index()}).Build().ok());
  }
  void ExtendAndPlay() {
    BuildGraph();
    Call("extend", Extension());
    Play();
    BOOST_REQUIRE(std::exchange(said, "") == "extend OK; ");
  }
  // Delivers what there is, but for those who are silent; a line a message of the three.
  std::string Play() {
    std::string text;
    for (int i = 0; i < 10000; ++i) {
      auto& jobs = stage.scheduler().jobs;
      const auto next =
          std::find_if(jobs.begin(), jobs.end(), [&](caf::resumable* r) { return !silent.contains(NameOf(r)); });
      if (next == jobs.end()) return text;
      caf::resumable* const job = *next;
      jobs.erase(next);
      jobs.push_front(job);
      const std::string who = NameOf(job);
      if (auto* const actor = dynamic_cast<caf::scheduled_actor*>(job); !who.empty() && actor != nullptr) {
        caf::mailbox_element* const e = actor->mailbox().peek();
        StrAppend(&text, "\n", who, " <- ", e == nullptr ? "init" : What(*e));
      }
      const NoBlockingHere as_a_handler;
      stage.scheduler().run_once();
    }
    BOOST_ERROR("it does not end");
    return text;
  }
  // In small steps; returns what was said meanwhile.
  std::string Pass(std::chrono::milliseconds time) {
    for (; time > 0ms; time -= 10ms) {
      stage.Advance(10ms);
      Play();
    }
    return std::exchange(said, "");
  }
  std::string NameOf(caf::resumable* job) {
    auto* const actor = dynamic_cast<caf::scheduled_actor*>(job);
    if (actor == nullptr) return "";
    const auto it = names.find(actor->id());
    return it != names.end() ? it->second : actor->name() == std::string("troupe.desk") ? "desk" : "";
  }
  static std::string What(caf::mailbox_element& e) {
    const caf::type_erased_tuple& c = e.content();
    if (c.match_elements<open_session>()) return "open_session";
    if (c.match_elements<extend_session>()) return "extend_session";
    if (c.match_elements<prepare_session>()) return "prepare_session";
    if (c.match_elements<run_session>()) return "run_session";
    if (c.match_elements<ask_session>()) return "ask_session";
    if (c.match_elements<cancel_call>()) return "cancel_call";
    if (c.match_elements<close_session>()) return "close_session";
    if (c.match_elements<client_beat>()) return "client_beat";
    if (c.match_elements<beat_noted>()) return "beat_noted";
    if (c.match_elements<call_answer>()) return "call_answer";
    if (c.match_elements<call_over>()) return "call_over";
    if (c.match_elements<session_over>()) return "session_over";
    if (c.match_elements<desk_opened>()) return "desk_opened";
    if (c.match_elements<call_begun>()) return "call_begun";
    if (c.match_elements<cancel_begun>()) return "cancel_begun";
    if (c.match_elements<look_at_calls>()) return "look_at_calls";
    if (c.match_elements<look_at_client>()) return "look_at_client";
    if (c.match_elements<end_agent>()) return "end_agent";
    if (c.match_elements<send_parcel>()) return "send_parcel";
    if (c.match_elements<parcel_piece>()) return "parcel_piece";
    if (c.match_elements<parcel_made>()) return "parcel_made";
    if (c.match_elements<piece_taken>()) return "piece_taken";
    if (c.match_elements<give_up_partial>()) return "give_up_partial";
    if (c.match_elements<end_desk>()) return "end_desk";
    if (c.match_elements<stop_host>()) return "stop_host";
    if (c.match_elements<caf::down_msg>()) return "down";
    if (c.match_elements<caf::exit_msg>()) return "exit";
    return caf::to_string(c);
  }

  Stage stage;
  const std::shared_ptr<HostedSessions> sessions;
  std::shared_ptr<Runtime> runtime;
  Scope root = Scope::NewRootScope();
  std::map<caf::actor_id, std::string> names;
  std::set<std::string> silent;
  caf::actor host, desk, agent;
  std::shared_ptr<AgentCalls> calls;
  CancellationToken token;
  call_answer last;
  std::string said;
};

BOOST_AUTO_TEST_SUITE(sessions)

BOOST_FIXTURE_TEST_CASE(edges_1_to_3_and_9_a_session_is_used_from_elsewhere, Office) {
  NewAgent();
  Open();
  BOOST_TEST(Play() == R"(
agent <- init
host <- open_session
desk <- init
agent <- desk_opened
desk <- client_beat
agent <- beat_noted)");
  BOOST_TEST(std::exchange(said, "") == "opened OK; ");
  BOOST_REQUIRE(sessions->Status({}).size() == 1u);
  BOOST_TEST(sessions->Status({})[0].client == "tester");
  BuildGraph();
  Call("extend", Extension());
  BOOST_TEST(Play() == R"(
desk <- extend_session
agent <- call_begun
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(std::exchange(said, "") == "extend OK; ");
  Call("prepare", prepare_session{0, {"x"}, {"twice"}, {}});
  BOOST_TEST(Play() == R"(
desk <- prepare_session
agent <- call_begun
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(std::exchange(said, "") == "prepare OK; ");
  Call("run", Step("twice", 4));
  BOOST_TEST(Play() == R"(
desk <- run_session
agent <- call_begun
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(std::exchange(said, "") == "run OK; float32 [] [8]; ");
  Call("nothing", Step("nothing", 4));
  Play();
  BOOST_TEST(std::exchange(said, "") == "nothing NOT_FOUND; ");
  BOOST_TEST(last.reply.status.message().find("nothing") != std::string::npos);
  // Beats keep both.
  BOOST_TEST(Pass(5000ms) == "");
  BOOST_TEST(sessions->Status({}).size() == 1u);
  // An answer that nobody waits for.
  Call("run", Step("twice", 5));
  const std::shared_ptr<AgentCall> nobody = calls->Take(5);
  // How long the step before took decides where this one runs, and so the order.
  BOOST_TEST(Play().find("agent <- call_answer") != std::string::npos);
  BOOST_TEST(std::exchange(said, "") == "");
  Call("never", Step("never", 5));
  Play();
  BOOST_TEST(std::exchange(said, "") == "");
  caf::anon_send(agent, end_agent{});
  BOOST_TEST(Play() == R"(
agent <- end_agent
desk <- close_session
host <- down)");
  BOOST_TEST(std::exchange(said, "") == "never CANCELLED; ");
  BOOST_TEST(sessions->Status({}).empty());
  agent = nullptr;
}

BOOST_AUTO_TEST_CASE(a_client_gets_no_more_than_a_server_keeps) {
  SessionOptions o;
  o.max_signatures = 0;  // all
  o.max_partial_runs = int64_t{1} << 40;
  o.stall_report_ms = 1;
  const SessionOptions kept = WithinBounds(o);
  BOOST_TEST(kept.max_signatures == 1024);
  BOOST_TEST(kept.max_partial_runs == 1024);
  BOOST_TEST(kept.stall_report_ms == 1000);
  BOOST_TEST(WithinBounds({}).max_signatures == SessionOptions().max_signatures);
  BOOST_TEST(WithinBounds({}).stall_report_ms == 0);
}

BOOST_FIXTURE_TEST_CASE(edge_2_sessions_are_bounded_and_options_are_checked, Office) {
  NewAgent();
  Open(kNetProtocol + 1);
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened FAILED_PRECONDITION; ");
  Open();
  Open();
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened OK; opened OK; ");
  Open();
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened RESOURCE_EXHAUSTED; ");
  // One that ends makes room.
  StopSurely(stage.system(), desk);
  Play();
  Open();
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened OK; ");
  // Of all clients together.
  HostedSessions three(Policy());
  const auto calls = std::make_shared<std::atomic<int64_t>>(0);
  three.Opened(1, "a", "", {}, calls);
  three.Opened(2, "a", "", {}, calls);
  BOOST_TEST(absl::IsResourceExhausted(three.MayOpen("a")));
  BOOST_TEST(three.MayOpen("b").ok());
  three.Opened(3, "b", "", {}, calls);
  BOOST_TEST(three.MayOpen("b").message().find("most_sessions (") != std::string::npos);
  three.Gone(1);
  three.Gone(1);
  BOOST_TEST(three.MayOpen("a").ok());
}

BOOST_FIXTURE_TEST_CASE(edge_5_a_client_asks_for_devices, Office) {
  OpenAndPlay();
  Call("devices", ask_session{0, ask_session::What::kDevices});
  Play();
  BOOST_TEST(std::exchange(said, "") == "devices OK; ");
  BOOST_REQUIRE(last.devices.size() == 1u);
  BOOST_TEST(last.devices[0].name == "/job:localhost/replica:0/task:0/device:CPU:0");
}

BOOST_FIXTURE_TEST_CASE(edge_6_calls_are_bounded_and_have_numbers, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  const uint64_t first = Call("first", Step("never", 1));
  Call("second", Step("never", 1));
  Call("third", Step("twice", 1));
  Play();
  BOOST_TEST(std::exchange(said, "") == "third RESOURCE_EXHAUSTED; ");
  BOOST_TEST(sessions->Status({})[0].calls == 2);
  // A number that is in use is refused, and what has it goes on.
  run_session again = Step("twice", 1);
  again.call = first;
  Tell(std::move(again));
  Play();
  BOOST_TEST(std::exchange(said, "") == "first ALREADY_EXISTS; ");
  DeskCalls table(ClientPolicy{}, {});
  for (uint64_t i = 0; i < DeskCalls::kMostWaiting; ++i) BOOST_TEST(table.Begin(i, true).ok());
  BOOST_TEST(absl::IsResourceExhausted(table.Begin(1000, true).status()));
  BOOST_TEST(table.Begin(1000, false).ok());
  BOOST_TEST(table.Over(0));
  BOOST_TEST(!table.Over(0));
  BOOST_TEST(table.Begin(1001, true).ok());
}

BOOST_FIXTURE_TEST_CASE(edge_7_a_cancelled_call_ends_its_step, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  token.Cancel();
  BOOST_TEST(Play() == R"(
agent <- cancel_begun
desk <- cancel_call
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(said == "never CANCELLED; ");
  BOOST_TEST(sessions->Status({})[0].calls == 0);
}

BOOST_FIXTURE_TEST_CASE(edges_2_and_5_a_call_that_is_cancelled_is_answered_though_the_server_is_silent, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("desk");
  Call("twice", Step("twice", 1));
  Play();
  token.Cancel();
  BOOST_TEST(Pass(490ms) == "");
  BOOST_TEST(Pass(20ms) == "twice CANCELLED; ");
  silent.clear();
  Play();
  BOOST_TEST(said == "");  // its own answer is nobody's
  BOOST_TEST(calls->size() == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_3_a_call_with_a_deadline_is_answered_though_the_server_is_silent, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("desk");
  Call("twice", Step("twice", 1), stage.system().clock().now() + 300ms);
  Call("later", Step("twice", 1), stage.system().clock().now() + 400ms);
  BOOST_TEST(Pass(290ms) == "");
  BOOST_TEST(Pass(20ms) == "twice DEADLINE_EXCEEDED; ");
  BOOST_TEST(Pass(100ms) == "later DEADLINE_EXCEEDED; ");
}

BOOST_FIXTURE_TEST_CASE(edges_8_and_11_a_client_that_is_silent_loses_its_session, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("agent");
  Pass(900ms);
  BOOST_TEST(sessions->Status({}).size() == 1u);
  Pass(400ms);
  BOOST_TEST(sessions->Status({}).empty());
  silent.clear();
  Play();
  Call("twice", Step("twice", 1));
  BOOST_TEST(said == "twice UNAVAILABLE; ");
  // A server that slept gives the client as much time more.
  DeskCalls table(Policy(), DeskCalls::Time());
  BOOST_TEST(!table.Look(DeskCalls::Time() + 5000ms));
  BOOST_TEST(!table.Look(DeskCalls::Time() + 5250ms));
  BOOST_TEST(!table.Look(DeskCalls::Time() + 5500ms));
  BOOST_TEST(table.Look(DeskCalls::Time() + 5750ms));
}

BOOST_FIXTURE_TEST_CASE(edge_8_a_client_that_sends_is_not_silent, Office) {
  OpenAndPlay();
  silent.insert("agent");  // and so no beat
  uint64_t call = 100;
  for (int i = 0; i < 10; ++i) {
    Tell(ask_session{++call, ask_session::What::kDevices});
    Pass(200ms);
  }
  for (int i = 0; i < 10; ++i) {
    Tell(piece_taken{call});
    Pass(200ms);
  }
  for (int i = 0; i < 10; ++i) {
    parcel_piece piece;
    piece.call = call;
    piece.total = 1000;
    piece.bytes.resize(10);
    Tell(std::move(piece));
    Pass(200ms);
  }
  BOOST_TEST(sessions->Status({}).size() == 1u);
  Pass(1300ms);
  BOOST_TEST(sessions->Status({}).empty());
}

BOOST_FIXTURE_TEST_CASE(edge_13_the_metadata_of_a_step_travels_in_pieces, Office) {
  OpenAndPlay();
  std::vector<float> many(400000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = float(i);
  const Output big = ops::Const(root.WithOpName("big"), many);
  ops::Add(root.WithOpName("more"), big, ops::Placeholder(root.WithOpName("y"), DType::kFloat));
  ExtendAndPlay();
  run_session step = Step("more", 1);
  step.step.feeds[0].first = "y";
  step.step.fetches.clear();
  step.step.targets = {"more"};
  step.step.options.partition_graphs = true;
  // Nobody takes the answer, which would be read on another thread.
  const std::shared_ptr<AgentCall> nobody = calls->Take(Call("graphs", std::move(step)));
  const std::string text = Play();
  BOOST_TEST(text.find("agent <- parcel_piece\n") != std::string::npos, text);
  BOOST_TEST(text.find("agent <- call_answer") == std::string::npos, text);
}

// Who takes no pieces keeps no more answers in the server than it may have calls.
BOOST_FIXTURE_TEST_CASE(edge_6_answers_in_pieces_are_calls_until_they_were_taken, Office) {
  OpenAndPlay();
  ops::Const(root.WithOpName("big"), std::vector<float>(400000));
  ExtendAndPlay();
  run_session step = Step("big", 1);
  step.step.feeds.clear();
  silent.insert("agent");
  const uint64_t first = Call("first", step), second = Call("second", step);
  Play();
  Call("third", step);
  Play();
  const std::shared_ptr<AgentCall> nobody = calls->Take(first), nobody_either = calls->Take(second);
  silent.clear();
  const std::string text = Play();
  BOOST_TEST(text.find("agent <- parcel_piece\n") != std::string::npos, text);
  BOOST_TEST(std::exchange(said, "").find("third RESOURCE_EXHAUSTED; ") == 0u);
  // They were cancelled, and there is room again.
  Call("fourth", Step("twice", 1));
  Play();
  BOOST_TEST(said.find("fourth OK; ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_6_calls_in_pieces_are_calls_before_they_have_been_read, Office) {
  OpenAndPlay();
  for (const char* name : {"first", "second", "third"}) {
    parcel_piece piece;
    piece.kind = parcel_piece::Kind::kRun;
    piece.total = 1;
    piece.bytes = {'x'};
    Call(name, std::move(piece));
  }
  Play();
  BOOST_TEST(said.find("third RESOURCE_EXHAUSTED; ") != std::string::npos, said);
  BOOST_TEST(said.find("first INVALID_ARGUMENT; ") != std::string::npos, said);
  BOOST_TEST(said.find("second INVALID_ARGUMENT; ") != std::string::npos, said);
}

// Each number once: otherwise a client could have any number of them read at a time.
BOOST_FIXTURE_TEST_CASE(edge_6_a_call_in_pieces_has_its_number_while_it_is_read, Office) {
  OpenAndPlay();
  parcel_piece piece;
  piece.kind = parcel_piece::Kind::kRun;
  piece.total = 1;
  piece.bytes = {'x'};
  parcel_piece again = piece;
  again.call = Call("first", std::move(piece));
  Tell(std::move(again));
  Play();
  BOOST_TEST(said == "first ALREADY_EXISTS; ");
}

// Its pieces, which were under way, would take the place of another one's.
BOOST_FIXTURE_TEST_CASE(edge_7_a_cancelled_call_takes_no_pieces, Office) {
  OpenAndPlay();
  const auto call = std::make_shared<AgentCall>([this](const call_answer& a) { Note("call", a.reply.status); }, [] {});
  const uint64_t number = calls->Begin(call, AgentCalls::Time::max(), DeadlineExceeded("too late")).value();
  caf::anon_send(agent, cancel_begun{number});
  Play();
  BOOST_TEST(!calls->Waits(number));
  // A small answer still is one.
  call_answer answer;
  answer.call = number;
  caf::anon_send(agent, std::move(answer));
  Play();
  BOOST_TEST(said == "call OK; ");
}

BOOST_FIXTURE_TEST_CASE(edge_10_a_call_that_is_over_is_not_sent, Office) {
  OpenAndPlay();
  const auto bytes = std::make_shared<const std::vector<char>>(20 * ParcelsOut::kPiece);
  caf::anon_send(agent, send_parcel{77, parcel_piece::Kind::kRun, bytes});
  BOOST_TEST(Play() == "\nagent <- send_parcel");
  // And no further when its answer comes.
  const auto number = calls->Begin(std::make_shared<AgentCall>([](const call_answer&) {}, [] {}),
                                   AgentCalls::Time::max(), absl::OkStatus());
  silent.insert("desk");
  caf::anon_send(agent, send_parcel{*number, parcel_piece::Kind::kRun, bytes});
  call_answer refused;
  refused.call = *number;
  refused.reply.status = absl::ResourceExhaustedError("too many");
  caf::anon_send(agent, std::move(refused));
  Play();
  silent.clear();
  const std::string text = Play();
  size_t pieces = 0;
  for (size_t at = text.find("desk <- parcel_piece"); at != std::string::npos;
       at = text.find("desk <- parcel_piece", at + 1))
    ++pieces;
  BOOST_TEST(pieces == static_cast<size_t>(ParcelsOut::kUnderWay));
  BOOST_TEST(text.find("desk <- cancel_call") != std::string::npos, text);
}

BOOST_FIXTURE_TEST_CASE(edge_2_a_partial_run_that_nobody_waits_for_is_given_up, Office) {
  OpenAndPlay();
  call_answer begun;
  begun.call = 99;
  begun.partial_run = "one";
  caf::anon_send(agent, std::move(begun));
  BOOST_TEST(Play() == R"(
agent <- call_answer
desk <- give_up_partial)");
}

BOOST_AUTO_TEST_CASE(a_call_that_is_dropped_is_answered) {
  std::string said;
  const auto call = [&] {
    return std::make_shared<AgentCall>(
        [&](const call_answer& a) { StrAppend(&said, absl::StatusCodeToString(a.reply.status.code()), "; "); }, [] {});
  };
  call()->Answer({});
  BOOST_TEST(std::exchange(said, "") == "OK; ");
  call();
  BOOST_TEST(said == "ABORTED; ");
}

// Who begins a call that is due first tells the agent: the others count on it.
BOOST_AUTO_TEST_CASE(a_call_that_is_due_first_is_known) {
  AgentCalls table;
  const auto first = [&](AgentCalls::Time due) {
    bool is = false;
    const auto call = std::make_shared<AgentCall>([](const call_answer&) {}, [] {});
    BOOST_TEST(table.Begin(call, due, absl::OkStatus(), &is).ok());
    return is;
  };
  BOOST_TEST(!first(AgentCalls::Time::max()));
  BOOST_TEST(first(AgentCalls::Time(5s)));
  BOOST_TEST(!first(AgentCalls::Time(6s)));
  BOOST_TEST(first(AgentCalls::Time(4s)));
}

BOOST_FIXTURE_TEST_CASE(edge_8_a_server_that_is_silent_ends_its_sessions, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("desk");
  Call("twice", Step("twice", 1));
  BOOST_TEST(Pass(950ms) == "");
  BOOST_TEST(Pass(300ms) == "twice UNAVAILABLE; ");
  BOOST_TEST(calls->ended().message().find("the server has been silent for ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_10_a_client_that_dies_loses_its_session, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  caf::anon_send_exit(agent, caf::exit_reason::kill);
  BOOST_TEST(Play() == R"(
agent <- exit
desk <- down
host <- down)");
  BOOST_TEST(sessions->Status({}).empty());
  agent = nullptr;
}

BOOST_FIXTURE_TEST_CASE(edge_7_a_server_that_dies_ends_its_sessions, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  caf::anon_send_exit(desk, caf::exit_reason::kill);
  Play();
  BOOST_TEST(std::exchange(said, "") == "never UNAVAILABLE; ");
  Call("next", Step("twice", 1));
  BOOST_TEST(said == "next UNAVAILABLE; ");
  BOOST_TEST(last.reply.status.message().find("the server is gone, and the session with it: ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_12_a_server_that_stops_ends_its_sessions, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  bool stopped = false;
  AskThen<host_stopped>(stage.system(), host, stop_host{},
                        Reply<host_stopped>([&](const host_stopped& s) { stopped = s.status.ok(); }));
  BOOST_TEST(Play() == R"(
host <- stop_host
desk <- end_desk
agent <- session_over
agent <- down
host <- down)");
  BOOST_TEST(stopped);
  BOOST_TEST(std::exchange(said, "") == "never UNAVAILABLE; ");
  BOOST_TEST(last.reply.status.message() == "the server: task /job:localhost/replica:0/task:0 has stopped");
  Open();
  Play();
  BOOST_TEST(said == "opened UNAVAILABLE; ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
