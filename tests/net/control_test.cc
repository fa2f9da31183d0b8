// Control actors of a cluster in one actor system whose scheduler and clock are the test's: the
// transcript of greeting, beating, dying and leaving, message by message.
#include "net/control_actor.h"

#include <boost/test/unit_test.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <map>
#include <memory>
#include <set>

#include "actors/messages/reply.h"

namespace troupe {
namespace control_test {

using namespace std::chrono_literals;

struct Config : caf::actor_system_config {
  Config() { set("scheduler.policy", caf::atom("testing")); }
};

// The tasks "ps" and "worker", each with its control actor once it is started, and one listener
// named "ear", which writes down what it is told.
struct Cluster {
  Cluster() {
    spec = ClusterSpec::FromFlags("ps=ps:1;worker=worker:1").value();
    ear =
        Named("ear", system.spawn(
                         [this](caf::event_based_actor* self, int) -> caf::behavior {
                           self->set_default_handler(caf::drop);
                           return {
                               [this](const task_up& m) { StrAppend(&heard, m.task.job, " ", m.incarnation, " up; "); },
                               [this](const task_down& m) {
                                 StrAppend(&heard, m.task.job, " ", m.incarnation,
                                           " down: ", std::string(m.status.message()), "; ");
                               },
                               [this](const cluster_state& m) {
                                 for (const TaskStatus& t : m.value.others)
                                   StrAppend(&heard, t.task.job, " is ", ToString(t.health), "; ");
                               },
                           };
                         },
                         0));
    scheduler.run();
  }
  ~Cluster() {
    for (const auto& [job, actor] : controls) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(ear, caf::exit_reason::user_shutdown);
    scheduler.run();
  }
  caf::actor Named(const std::string& name, const caf::actor& actor) {
    names[actor.id()] = name;
    return actor;
  }
  void Start(const std::string& job, uint64_t incarnation) {
    ServerOptions o;
    o.spec = {spec, {job, 0}};
    o.connect.jitter = 0;
    const Dial dial = [this](const HostPort& address, std::function<void(absl::StatusOr<caf::actor>)> done) {
      const auto it = controls.find(address.host);
      if (it == controls.end()) return done(Unavailable("nobody is there"));
      done(it->second);
    };
    controls[job] = Named(job, SpawnControl(system, o, incarnation, 7, dial, links));
  }
  // The process is gone.
  void Kill(const std::string& job) {
    caf::anon_send_exit(controls.at(job), caf::exit_reason::kill);
    controls.erase(job);
  }
  template <class Message>
  void AsEar(const std::string& job, Message m) {
    caf::actor_cast<caf::abstract_actor*>(controls.at(job))
        ->enqueue(caf::make_mailbox_element(caf::actor_cast<caf::strong_actor_ptr>(ear), caf::make_message_id(), {},
                                            std::move(m)),
                  nullptr);
  }
  // Delivers what there is, one line a message; of an actor that is stopped, nothing.
  std::string Play() {
    std::string text;
    for (;;) {
      auto& jobs = scheduler.jobs;
      const auto next =
          std::find_if(jobs.begin(), jobs.end(), [&](caf::resumable* r) { return !stopped.contains(NameOf(r)); });
      if (next == jobs.end()) return text;
      caf::resumable* const job = *next;
      jobs.erase(next);
      jobs.push_front(job);
      auto* const actor = dynamic_cast<caf::scheduled_actor*>(job);
      if (actor != nullptr) {
        caf::mailbox_element* const e = actor->mailbox().peek();
        StrAppend(&text, "\n", NameOf(job), " <- ", e == nullptr ? "init" : What(*e));
      }
      scheduler.run_once();
    }
  }
  // Lets time pass in small steps, and returns what was heard meanwhile.
  std::string Pass(std::chrono::milliseconds time) {
    for (; time > 0ms; time -= 5ms) {
      scheduler.advance_time(5ms);
      Play();
    }
    return std::exchange(heard, "");
  }
  std::string NameOf(caf::resumable* job) {
    auto* const actor = dynamic_cast<caf::scheduled_actor*>(job);
    return actor == nullptr ? "" : names[actor->id()];
  }
  static std::string What(caf::mailbox_element& e) {
    const caf::type_erased_tuple& c = e.content();
    if (c.match_elements<hello>()) return "hello";
    if (c.match_elements<welcome>()) return c.get_as<welcome>(0).status.ok() ? "welcome" : "welcome (refused)";
    if (c.match_elements<dialled>()) return c.get_as<dialled>(0).status.ok() ? "dialled" : "dialled (error)";
    if (c.match_elements<beat>()) return "beat";
    if (c.match_elements<who_are_you>()) return "who_are_you";
    if (c.match_elements<goodbye>()) return "goodbye";
    if (c.match_elements<worker_here>()) return c.get_as<worker_here>(0).worker ? "worker_here" : "worker_here (none)";
    if (c.match_elements<own_worker>()) return "own_worker";
    if (c.match_elements<goodbye_noted>()) return "goodbye_noted";
    if (c.match_elements<look_around>()) return "look_around";
    if (c.match_elements<watch_tasks>()) return "watch_tasks";
    if (c.match_elements<task_up>()) return "task_up";
    if (c.match_elements<task_down>()) return "task_down";
    if (c.match_elements<get_cluster_state>()) return "get_cluster_state";
    if (c.match_elements<cluster_state>()) return "cluster_state";
    if (c.match_elements<stop_control>()) return "stop_control";
    if (c.match_elements<caf::down_msg>()) return "down";
    if (c.match_elements<caf::exit_msg>()) return "exit";
    return caf::to_string(c);
  }

  Config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  ClusterSpec spec;
  std::map<caf::actor_id, std::string> names;
  std::map<std::string, caf::actor> controls;
  std::set<std::string> stopped;
  ControlLinks links;  // of those that are started next
  std::string heard;
  caf::actor ear;
};

BOOST_AUTO_TEST_SUITE(control)

BOOST_FIXTURE_TEST_CASE(edge_1_listeners_are_told_who_comes_and_goes, Cluster) {
  Start("ps", 1);
  Start("worker", 2);
  AsEar("ps", watch_tasks{});
  // The worker is the later one: it calls.
  BOOST_TEST(Play() == R"(
ps <- watch_tasks
worker <- init
ps <- hello
worker <- welcome
ear <- task_up)");
  BOOST_TEST(std::exchange(heard, "") == "worker 2 up; ");
  BOOST_TEST(Pass(2000ms) == "");  // beats keep both alive
  AsEar("worker", watch_tasks{});
  BOOST_TEST(Play() == R"(
worker <- watch_tasks
ear <- task_up)");
  BOOST_TEST(std::exchange(heard, "") == "ps 1 up; ");
  Kill("ps");
  BOOST_TEST(Play() == R"(
ps <- exit
worker <- down
ear <- task_down)");
  BOOST_TEST(std::exchange(heard, "").starts_with("ps 1 down: task /job:ps/replica:0/task:0 is gone: "));
  // The next incarnation is found by the worker's next call.
  BOOST_TEST(Pass(1000ms) == "");
  Start("ps", 3);
  BOOST_TEST(Pass(500ms) == "ps 3 up; ");
}

BOOST_FIXTURE_TEST_CASE(who_does_not_listen_any_more_makes_room_for_others, Cluster) {
  Start("ps", 1);
  const auto watch = [&](const caf::actor& who) {
    caf::actor_cast<caf::abstract_actor*>(controls.at("ps"))
        ->enqueue(caf::make_mailbox_element(caf::actor_cast<caf::strong_actor_ptr>(who), caf::make_message_id(), {},
                                            watch_tasks{}),
                  nullptr);
    Play();
  };
  std::vector<caf::actor> others;
  const auto listeners = [&](int count) {
    for (int i = 0; i < count; ++i) {
      others.push_back(system.spawn(
          [this](caf::event_based_actor* self, int) -> caf::behavior {
            self->set_default_handler(caf::drop);
            self->set_error_handler([this](caf::error& e) { StrAppend(&heard, system.render(e), "; "); });
            return {[](int) {}};
          },
          0));
      watch(others.back());
    }
  };
  const auto end = [&] {
    for (const caf::actor& a : others) caf::anon_send_exit(a, caf::exit_reason::kill);
    others.clear();
    Play();
  };
  // More than there may be at a time, one after the other.
  listeners(1000);
  end();
  listeners(1024);
  BOOST_TEST(heard == "");
  listeners(1);
  BOOST_TEST(std::exchange(heard, "").find("a server has at most 1024 listeners") != std::string::npos);
  end();
  AsEar("ps", watch_tasks{});
  Start("worker", 2);
  Play();
  BOOST_TEST(heard == "worker 2 up; ");
}

BOOST_FIXTURE_TEST_CASE(who_comes_and_goes_often_leaves_no_timers, Cluster) {
  Start("worker", 2);
  for (uint64_t round = 1; round <= 20; ++round) {
    Start("ps", round + 2);
    Pass(1000ms);
    Kill("ps");
    Pass(20ms);
  }
  Start("ps", 100);
  Pass(2000ms);
  int looks = 0;
  const std::string look = "worker <- look_around";
  for (int ms = 0; ms < 1000; ms += 5) {
    scheduler.advance_time(5ms);
    const std::string text = Play();
    for (size_t at = text.find(look); at != std::string::npos; at = text.find(look, at + 1)) ++looks;
  }
  BOOST_TEST(looks >= 5);
  BOOST_TEST(looks <= 10);
}

BOOST_FIXTURE_TEST_CASE(a_hello_that_nobody_sent_is_dropped, Cluster) {
  Start("ps", 1);
  AsEar("ps", watch_tasks{});
  hello h;
  h.cluster = spec.Id();
  h.from = {"worker", 0};
  h.to = {"ps", 0};
  h.incarnation = 2;
  caf::anon_send(controls.at("ps"), h);
  BOOST_TEST(Pass(1000ms) == "");
}

BOOST_FIXTURE_TEST_CASE(edge_3_whoever_asks_is_told_how_the_cluster_looks, Cluster) {
  Start("worker", 2);
  Play();
  AsEar("worker", get_cluster_state{});
  BOOST_TEST(Play() == R"(
worker <- get_cluster_state
ear <- cluster_state)");
  BOOST_TEST(std::exchange(heard, "") == "ps is absent; ");
  Start("ps", 1);
  Pass(500ms);
  AsEar("worker", get_cluster_state{});
  Play();
  BOOST_TEST(std::exchange(heard, "") == "ps is alive; ");
}

BOOST_FIXTURE_TEST_CASE(who_is_stopped_is_dead_within_two_beats_and_greets_again, Cluster) {
  Start("ps", 1);
  Start("worker", 2);
  AsEar("ps", watch_tasks{});
  Play();
  heard.clear();
  stopped.insert("worker");
  std::string when;
  int64_t ms = 0;
  for (; ms < 1000 && when.empty(); ms += 5) when = Pass(5ms);
  BOOST_TEST(ms <= 400);
  BOOST_TEST(
      when.starts_with("worker 2 down: task /job:worker/replica:0/task:0 is taken for dead: it was silent for "));
  BOOST_TEST(Pass(10000ms) == "");
  // It goes on, in the same incarnation: its beats are not known any more, so it greets.
  stopped.clear();
  BOOST_TEST(Pass(500ms) == "worker 2 up; ");
  BOOST_TEST(Pass(2000ms) == "");
}

BOOST_FIXTURE_TEST_CASE(who_claims_a_live_task_is_refused, Cluster) {
  Start("ps", 1);
  Start("worker", 2);
  AsEar("ps", watch_tasks{});
  Play();
  heard.clear();
  const caf::actor first = controls.at("worker");
  Start("worker", 3);  // a second process, which says that it is the same task
  BOOST_TEST(Play() == R"(
worker <- init
ps <- hello
worker <- welcome (refused))");
  BOOST_TEST(Pass(2000ms) == "");
  caf::anon_send_exit(first, caf::exit_reason::kill);
  BOOST_TEST(Pass(600ms).find("worker 3 up; ") != std::string::npos);
}

// Tells the worker to stop; which tasks have not answered is written there.
std::shared_ptr<std::string> Stop(Cluster* c, int64_t at_most_ms) {
  auto missing = std::make_shared<std::string>("no answer yet");
  AskThen<farewells_noted>(c->system, c->controls.at("worker"), stop_control{at_most_ms},
                           Reply<farewells_noted>([missing](farewells_noted f) {
                             *missing = f.status.ok() ? StrJoin(f.missing, ", ") : std::string(f.status.message());
                           }));
  return missing;
}

BOOST_FIXTURE_TEST_CASE(edges_4_and_5_who_stops_says_goodbye, Cluster) {
  Start("ps", 1);
  Start("worker", 2);
  AsEar("ps", watch_tasks{});
  Play();
  heard.clear();
  const auto missing = Stop(this, 1000);
  BOOST_TEST(Play() == R"(
worker <- stop_control
ps <- goodbye
ear <- task_down
worker <- goodbye_noted)");
  BOOST_TEST(*missing == "");
  BOOST_TEST(heard == "worker 2 down: task /job:worker/replica:0/task:0 has stopped; ");
}

BOOST_FIXTURE_TEST_CASE(who_stops_while_it_greets_says_goodbye_too, Cluster) {
  Start("ps", 1);
  AsEar("ps", watch_tasks{});
  Play();
  stopped.insert("ps");
  Start("worker", 2);
  Play();
  const auto missing = Stop(this, 1000);
  Play();
  BOOST_TEST(*missing == "no answer yet");
  stopped.clear();
  Play();
  BOOST_TEST(heard == "worker 2 up; worker 2 down: task /job:worker/replica:0/task:0 has stopped; ");
  BOOST_TEST(*missing == "");
}

BOOST_FIXTURE_TEST_CASE(edge_6_who_does_not_answer_a_goodbye_is_named, Cluster) {
  Start("ps", 1);
  Start("worker", 2);
  Play();
  stopped.insert("ps");
  const auto missing = Stop(this, 200);
  Pass(195ms);
  BOOST_TEST(*missing == "no answer yet");
  Pass(10ms);
  BOOST_TEST(*missing == "/job:ps/replica:0/task:0");
  // Nobody waits for the dead: this one has been silent for long enough before the time is over.
  const auto again = Stop(this, 5000);
  Pass(400ms);
  BOOST_TEST(*again == "");
  stopped.clear();
}

BOOST_FIXTURE_TEST_CASE(edge_8_a_worker_that_is_restarted_during_a_greeting_is_told_of, Cluster) {
  Start("ps", 1);
  Play();
  Start("worker", 2);
  stopped = {"ps"};
  Play();
  caf::anon_send(controls.at("worker"), own_worker{ear});
  Play();
  stopped.clear();
  // The hello had no worker.
  BOOST_TEST(Play() == R"(
ps <- hello
ps <- worker_here
worker <- welcome)");
}

BOOST_FIXTURE_TEST_CASE(edge_7_without_a_host_nobody_opens_a_session, Cluster) {
  Start("ps", 1);
  Play();
  std::string said;
  const auto open = [&] {
    open_session m;
    m.client = ear;
    AskThen<session_opened>(
        system, controls.at("ps"), std::move(m),
        Reply<session_opened>([&](const session_opened& o) { said = std::string(o.status.message()); }));
    Play();
  };
  open();
  BOOST_TEST(said == "/job:ps/replica:0/task:0 opens no sessions");
  // With one, the question is its own to answer.
  Kill("ps");
  Play();
  const caf::actor host = system.spawn(
      [](caf::event_based_actor*, int) -> caf::behavior {
        return {[](const open_session& m) {
          session_opened answer;
          answer.status = NotFound(m.client ? "asked by somebody" : "asked by nobody");
          return answer;
        }};
      },
      0);
  links.host = [host] { return host; };
  Start("ps", 2);
  Play();
  open();
  BOOST_TEST(said == "asked by somebody");
  caf::anon_send_exit(host, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace control_test
}  // namespace troupe
