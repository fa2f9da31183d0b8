// A client's session in a server, message by message: agent, host and desk in one actor system
// whose scheduler and clock are the test's, with a real runtime behind them.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_NET_OFFICE_H_
#define TROUPE_TESTS_NET_OFFICE_H_

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <caf/binary_serializer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "actors/messages/reply.h"
#include "actors/threads/actor_thread.h"
#include "actors/threads/surely.h"
#include "net/session_agent.h"
#include "net/session_desk.h"
#include "net/session_host.h"
#include "tests/actors/graphs.h"
#include "tests/cast/stage.h"
#include "troupe/node_builder.h"
#include "troupe/ops.h"

namespace troupe {

inline ClientPolicy Policy() {
  ClientPolicy p;
  p.most_sessions = 3;
  p.most_sessions_of_client = 2;
  p.most_calls = 2;
  p.lease = std::chrono::milliseconds(1000);
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
  // Delivers what there is, but for those who are silent; a line a message of the three. Not from
  // the first message on whose line is `before`.
  std::string Play(std::string_view before = "") {
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
        const std::string line = StrCat(who, " <- ", e == nullptr ? "init" : What(*e));
        if (line == before) return text;
        StrAppend(&text, "\n", line);
      }
      const NoBlockingHere as_a_handler;
      stage.scheduler().run_once();
    }
    BOOST_ERROR("it does not end");
    return text;
  }
  // In small steps; returns what was said meanwhile.
  std::string Pass(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds kStep(10);
    for (; time.count() > 0; time -= kStep) {
      stage.Advance(kStep);
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

}  // namespace troupe

#endif  // TROUPE_TESTS_NET_OFFICE_H_
