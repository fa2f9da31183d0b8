// The actor that keeps the actors of a process, edge by edge, in an actor system whose scheduler
// and clock are the test's.
#include "net/play/keeper.h"

#include <boost/test/unit_test.hpp>
#include <caf/scheduler/test_coordinator.hpp>

namespace troupe::play {
namespace keeper_test {

using namespace std::chrono_literals;

struct Config : caf::actor_system_config {
  Config() { set("scheduler.policy", caf::atom("testing")); }
};

// An actor that writes down what it is told, and ends when it gets a text.
caf::behavior Player(caf::event_based_actor* self, std::string* heard, const std::string& name) {
  self->attach_functor([heard, name] { StrAppend(heard, name, " ends; "); });
  return {
      [=](const part_up& m) { StrAppend(heard, name, " hears of ", m.name, m.actor ? "" : " nothing", "; "); },
      [=](const part_down& m) { StrAppend(heard, name, " loses ", m.name, "; "); },
      [=](const std::string& how) {
        self->quit(how == "well" ? caf::exit_reason::user_shutdown : caf::exit_reason::unhandled_exception);
      },
  };
}

struct Stage {
  Stage() {
    options.dial = [this](const HostPort& address, std::function<void(absl::StatusOr<caf::actor>)> done) {
      StrAppend(&heard, "call ", address.ToString(), "; ");
      calls.push_back(std::move(done));
    };
    options.over = [this](const absl::Status& why) { StrAppend(&heard, "over: ", why.message(), "; "); };
  }
  ~Stage() {
    caf::anon_send_exit(keeper, caf::exit_reason::user_shutdown);
    for (const caf::actor& each : {last, other}) {
      if (each) caf::anon_send_exit(each, caf::exit_reason::kill);
    }
    scheduler.run();
  }
  KeptActor* Add(const std::string& name, Restart restart = Restart::kAlways) {
    KeptActor kept;
    kept.name = name;
    kept.policy.restart = restart;
    kept.policy.jitter = 0;
    kept.policy.min_delay = 10ms;
    kept.policy.max_failures = 2;
    kept.policy.escalate = true;
    kept.make = [this, name](uint64_t incarnation) -> absl::StatusOr<caf::actor> {
      if (!refuse.empty()) return absl::InternalError(refuse);
      last = system.spawn(Player, &heard, StrCat(name, ".", incarnation));
      return last;
    };
    options.actors.push_back(kept);
    return &options.actors.back();
  }
  std::string Heard() {
    scheduler.run();
    return std::exchange(heard, "");
  }
  std::string Begin() {
    keeper = SpawnKeeper(system, options);
    caf::anon_send(keeper, begin_keeping{});
    return Heard();
  }
  std::string Tell(const std::string& how) {
    caf::anon_send(last, how);
    return Heard();
  }
  std::string Pass(std::chrono::milliseconds time) {
    scheduler.advance_time(time);
    return Heard();
  }
  std::string Answer(size_t call, absl::StatusOr<caf::actor> found) {
    calls.at(call)(std::move(found));
    return Heard();
  }

  Config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler{dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())};
  std::string heard, refuse, ignored;
  std::vector<std::function<void(absl::StatusOr<caf::actor>)>> calls;
  KeeperOptions options;
  caf::actor keeper, last, other;
};

BOOST_AUTO_TEST_SUITE(keeper)

BOOST_AUTO_TEST_CASE(edges_1_and_4_an_actor_is_made_named_and_made_again) {
  Stage s;
  s.Add("a")->named = [&](const caf::actor& actor) {
    StrAppend(&s.heard, actor == s.last ? "named; " : "wrong; ");
    return absl::OkStatus();
  };
  BOOST_TEST(s.Begin() == "named; ");
  BOOST_TEST(s.Tell("badly") == "a.1 ends; ");
  BOOST_TEST(s.Pass(9ms) == "");
  BOOST_TEST(s.Pass(1ms) == "named; ");
  BOOST_TEST(s.Tell("well") == "a.2 ends; ");
  BOOST_TEST(s.Pass(20ms) == "named; ");
}

BOOST_AUTO_TEST_CASE(edges_2_and_3_an_actor_that_fails_too_often_is_given_up) {
  Stage s;
  s.Add("a", Restart::kAfterFailure);
  s.Begin();
  s.Tell("badly");
  s.Pass(10ms);
  s.Tell("badly");
  s.Pass(20ms);
  const std::string heard = s.Tell("badly");
  BOOST_TEST(heard.starts_with("a.3 ends; over: the actor 'a' is given up; it ended: "), heard);
  BOOST_TEST(s.Pass(1h) == "");
}

BOOST_AUTO_TEST_CASE(who_ends_well_is_forgotten_or_was_all_of_the_process) {
  Stage s;
  s.Add("a", Restart::kAfterFailure);
  s.Begin();
  BOOST_TEST(s.Tell("well") == "a.1 ends; ");
  BOOST_TEST(s.Pass(1h) == "");
  Stage whole;
  whole.Add("a", Restart::kNever)->whole = true;
  whole.Begin();
  BOOST_TEST(whole.Tell("well") == "a.1 ends; over: ; ");
}

BOOST_AUTO_TEST_CASE(edge_5_an_actor_that_cannot_be_made_has_failed) {
  Stage s;
  s.Add("a");
  s.refuse = "no room";
  BOOST_TEST(s.Begin() == "");
  BOOST_TEST(s.Pass(10ms) == "");
  BOOST_TEST(s.Pass(20ms) == "over: the actor 'a' is given up; no room; ");
  // A name that is refused ends the actor; a factory may throw.
  Stage named;
  named.Add("a", Restart::kNever)->named = [](const caf::actor&) { return absl::InternalError("no name"); };
  BOOST_TEST(named.Begin() == "over: the actor 'a' is given up; no name; a.1 ends; ");
  Stage thrown;
  thrown.Add("a", Restart::kNever)->make = [](uint64_t) -> absl::StatusOr<caf::actor> {
    throw std::runtime_error("x");
  };
  BOOST_TEST(thrown.Begin() == "over: the actor 'a' is given up; its factory threw x; ");
}

BOOST_AUTO_TEST_CASE(edges_6_7_and_9_those_who_use_a_peer_are_told_of_it) {
  Stage s;
  s.Add("a")->uses = {"peer"};
  s.options.peers.push_back({"peer", {"127.0.0.1", 1}, [&](const caf::actor&) {
                               s.heard += "peer is named; ";
                               return absl::OkStatus();
                             }});
  BOOST_TEST(s.Begin() == "call 127.0.0.1:1; ");
  s.other = s.system.spawn(Player, &s.ignored, "peer");
  BOOST_TEST(s.Answer(0, s.other) == "peer is named; a.1 hears of peer; ");
  // The next incarnation is told at once.
  BOOST_TEST(s.Tell("badly") == "a.1 ends; ");
  BOOST_TEST(s.Pass(10ms) == "a.2 hears of peer; ");
  caf::anon_send_exit(s.other, caf::exit_reason::kill);
  BOOST_TEST(s.Heard() == "a.2 loses peer; ");
  BOOST_TEST(s.Pass(100ms) == "call 127.0.0.1:1; ");
}

BOOST_AUTO_TEST_CASE(edge_8_a_peer_is_called_until_it_is_there) {
  Stage s;
  bool refuse = true;
  s.options.peers.push_back({"peer", {"127.0.0.1", 1}, [&](const caf::actor&) {
                               return refuse ? absl::InternalError("no") : absl::OkStatus();
                             }});
  s.Begin();
  BOOST_TEST(s.Answer(0, absl::UnavailableError("nobody")) == "");
  BOOST_TEST(s.Pass(99ms) == "");
  BOOST_TEST(s.Pass(1ms) == "call 127.0.0.1:1; ");
  s.other = s.system.spawn(Player, &s.ignored, "peer");
  BOOST_TEST(s.Answer(1, s.other) == "");
  refuse = false;
  BOOST_TEST(s.Pass(100ms) == "call 127.0.0.1:1; ");
  BOOST_TEST(s.Answer(2, s.other) == "");
  BOOST_TEST(s.Pass(1h) == "");
}

BOOST_AUTO_TEST_CASE(edge_10_the_end_stops_the_actors) {
  Stage s;
  s.Add("a");
  s.Add("b");
  s.Begin();
  caf::anon_send_exit(s.keeper, caf::exit_reason::user_shutdown);
  BOOST_TEST(s.Heard() == "a.1 ends; b.1 ends; ");
  BOOST_TEST(s.Pass(1h) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace keeper_test
}  // namespace troupe::play
