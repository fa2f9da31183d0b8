// Every actor is killed before, between and after all the messages of every kind of call: at each
// edge of its protocol that the call walks. The call is answered, with what that death may cost it,
// and the next one of its kind works.
#include <set>

#include "tests/cast/play.h"

namespace troupe {
namespace kills_test {

using namespace std::chrono_literals;

// The answers; they outlive the actors, whose end answers what waits.
struct Answers {
  std::vector<absl::Status> said;
};

// x -> twice on the first device -> there on the second; there is a third one.
struct Scene : Answers, Play {
  explicit Scene(SessionOptions options = {}) : Play(options, 3) {
    ops::Neg(root.WithDevice("/device:CPU:1").WithOpName("there"), twice);
    VariableOptions in;
    in.container = "ours";
    const Variable v(root.WithOpName("v"), 5.0f, in);
    const Operation init = GlobalVariablesInitializer(root);
    Extend();
    stage.Inline([&] { TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr)); });
  }
  caf::actor Who(const std::string& who) {
    if (who == "session") return ActorOf(*session);
    if (who == "worker" || who == "supervisor") return Find(who);
    if (who.rfind("executor", 0) == 0) return stage.Actor(who);
    const size_t colon = who.find(':');
    return Find(StrCat(who.substr(0, colon), ":", runtime->devices()[std::stoi(who.substr(colon + 1))].name));
  }
  void Note(const absl::Status& s) { said.push_back(s); }
  // Asks an actor, which may be none.
  template <class Reply, class Message>
  void Request(const caf::actor& to, Message message, absl::Status (*status_of)(const Reply&)) {
    if (!to) return Note(absl::UnavailableError("there is none now"));
    const auto asker = [=, this](caf::event_based_actor* self, const caf::actor& asked) {
      self->request(asked, caf::infinite, message)
          .then([=, this](const Reply& r) { Note(status_of(r)); },
                [this](const caf::error&) { Note(absl::AbortedError("the actor is dead")); });
    };
    stage.system().spawn(asker, to);
  }
};

template <class T>
absl::Status IsOk(const T&) {
  return absl::OkStatus();
}
absl::Status StatusOf(const run_reply& r) { return r.status; }

struct Kind {
  const char* name;
  SessionOptions options;
  std::function<void(Scene&)> warm;  // what is done before
  std::function<void(Scene&, int round)> call;
  // What the call meets, with the devices on which it has parts.
  bool uses_session = false, uses_worker = false, runs = false;
  std::set<std::string> asks = {};
  bool by_request = false;
};

void RunStep(Scene& s, const Names& fetches) {
  s.session->RunAsync({}, s.feeds, fetches, {}, [&s](absl::Status st, std::vector<Tensor> out) {
    if (st.ok()) BOOST_TEST(std::abs(out.at(0).scalar<float>()) == 4.0f);
    s.Note(st);
  });
}

std::vector<Kind> Kinds() {
  const auto nothing = [](Scene&) {};
  const auto known = [](Scene& s) { s.Warm(s.feeds, {"there"}); };
  const auto run = [](Scene& s, int) { RunStep(s, {"there"}); };
  std::vector<Kind> kinds;
  kinds.push_back({"a known step", {}, known, run, false, false, true});
  SessionOptions tokens;
  tokens.token_messages = true;
  tokens.fuse = false;
  kinds.push_back({"a known step, token by token", tokens, known, run, false, false, true});
  kinds.push_back({"a new step", {}, nothing, run, true, true, true});
  kinds.push_back({"a request of a user's actor",
                   {},
                   nothing,
                   [](Scene& s, int) {
                     s.Request<run_reply>(ActorOf(*s.session), run_request{s.feeds, {"there"}, {}, {}}, StatusOf);
                   },
                   true,
                   true,
                   true,
                   {},
                   true});
  kinds.push_back({"an extend",
                   {},
                   nothing,
                   [](Scene& s, int round) {
                     AskThen<extend_reply>(s.stage.system(), ActorOf(*s.session), OneMore(StrCat("more", round)),
                                           [&s](const extend_reply& r) { s.Note(r.status); });
                   },
                   true});
  kinds.push_back({"a question to a device",
                   {},
                   nothing,
                   [](Scene& s, int) { s.Request<device_stats>(s.Who("device:0"), get_device_stats{}, IsOk); },
                   false,
                   false,
                   false,
                   {"device:0"}});
  kinds.push_back({"a list of a container",
                   {},
                   nothing,
                   [](Scene& s, int) { s.Request<resource_list>(s.Who("container:0"), list_resources{}, IsOk); },
                   false,
                   false,
                   false,
                   {"container:0"}});
  kinds.push_back(
      {"a reset of a container",
       {},
       nothing,
       [](Scene& s, int) { s.Request<resources_reset>(s.Who("container:0"), reset_resources{{"theirs"}}, IsOk); },
       false,
       false,
       false,
       {"container:0"}});
  return kinds;
}

BOOST_AUTO_TEST_CASE(a_death_at_any_edge_is_answered_and_the_next_call_works) {
  const std::vector<std::string> all = {"supervisor",  "session",     "worker",      "device:0", "device:1", "device:2",
                                        "container:0", "container:1", "container:2", "executor", "executor2"};
  int kills = 0;
  std::set<std::string> cost;  // who cost somebody something
  for (const Kind& kind : Kinds()) {
    for (const std::string& who : all) {
      for (int position = 0;; ++position) {
        BOOST_TEST_CONTEXT(kind.name << ", " << who << " killed after " << position << " messages") {
          Scene s(kind.options);
          kind.warm(s);
          kind.call(s, 0);
          std::string before;
          int delivered = 0;
          for (; delivered < position; ++delivered) {
            const std::string line = s.stage.Deliver();
            if (line.empty()) break;
            StrAppend(&before, line, "\n");
          }
          if (delivered < position) break;
          (void)s.stage.Queue();  // names who has not had a turn
          const caf::actor target = s.Who(who);
          if (!target) continue;  // an executor that nobody has made yet
          s.stage.Kill(target);
          ++kills;
          // How far the call has come when the actor dies, and who is concerned hears of it.
          bool begun = false, answered = false, heard = false;
          for (;;) {
            const bool has_begun = (before + s.stage.Queue()).find("run_step") != std::string::npos;
            const bool has_answer = !s.said.empty();
            const std::string line = s.stage.Deliver();
            if (line.empty()) break;
            StrAppend(&before, line, "\n");
            const bool news = line.find(who.rfind("executor", 0) == 0 || who == "session" || who == "supervisor"
                                            ? "<- exit"
                                            : "<- actor_failed") != std::string::npos;
            if (!news || std::exchange(heard, true)) continue;
            begun = has_begun;
            answered = has_answer;
          }
          BOOST_TEST(heard);
          for (int i = 0; i < 3; ++i) {
            s.stage.Advance(2ms);
            s.stage.Play();
          }
          BOOST_REQUIRE_MESSAGE(s.said.size() == 1u, "answers: " << s.said.size() << "\n" << before);
          const absl::Status first = s.said[0];
          if (!first.ok()) cost.insert(who.substr(0, who.find(':')));
          const std::string place = who.substr(who.find(':') + 1);
          const bool of_a_part = (place == "0" || place == "1") && who.find(':') != std::string::npos;
          if (kind.asks.contains(who) || (who == "session" && kind.uses_session && !begun)) {
            BOOST_TEST((first.ok() || absl::IsAborted(first)), first);
          } else if (who == "worker" && kind.uses_worker && !begun) {
            BOOST_TEST((first.ok() || absl::IsAborted(first) || absl::IsUnavailable(first)), first);
          } else if (answered) {
            TROUPE_REQUIRE_OK(first);
          } else if (kind.runs && begun && (of_a_part || who == "worker")) {
            // The answer of a step that the actor runs for another may be on its way.
            BOOST_TEST((absl::IsAborted(first) || (kind.by_request && first.ok())), first);
          } else if (kind.runs && begun && who.rfind("executor", 0) == 0) {
            BOOST_TEST((first.ok() || absl::IsAborted(first)), first);
          } else if (who == "session" && kind.uses_session) {
            // A step of RunAsync that has begun goes on; one that the actor runs for another ends.
            BOOST_TEST((first.ok() || (kind.by_request && absl::IsAborted(first))), first);
          } else {
            TROUPE_REQUIRE_OK(first);
          }
          kind.call(s, 1);
          s.stage.Play();
          BOOST_REQUIRE_MESSAGE(s.said.size() == 2u, "answers: " << s.said.size());
          TROUPE_REQUIRE_OK(s.said[1]);
          BOOST_TEST(s.session->RunningSteps().empty());
        }
      }
    }
  }
  BOOST_TEST(kills > 200);
  for (const char* who : {"session", "worker", "device", "container", "executor", "executor2"})
    BOOST_TEST(cost.contains(who), who);
}

// The end of a session, with a step under way.
BOOST_AUTO_TEST_CASE(a_session_is_closed_whoever_dies_meanwhile) {
  for (const std::string who : {"supervisor", "session", "worker", "device:0", "container:0", "executor"}) {
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT(who << " killed after " << position << " messages") {
        Scene s;
        s.Warm(s.feeds, {"never"});
        s.Start({"never"});
        s.stage.Play();
        TROUPE_REQUIRE_OK(s.session->Close());
        int delivered = 0;
        while (delivered < position && !s.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        const caf::actor target = s.Who(who);
        if (target) s.stage.Kill(target);
        s.stage.Play();
        for (int i = 0; i < 3; ++i) {
          s.stage.Advance(2ms);
          s.stage.Play();
        }
        BOOST_REQUIRE(s.answer.has_value());
        BOOST_TEST((absl::IsCancelled(*s.answer) || (who != "session" && absl::IsAborted(*s.answer))), *s.answer);
        s.Start({"twice"});
        s.stage.Play();
        BOOST_TEST(s.State() == "CANCELLED");
      }
    }
  }
}

}  // namespace kills_test
}  // namespace troupe
