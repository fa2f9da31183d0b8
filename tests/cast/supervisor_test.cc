// The supervisor: every numbered edge of supervisor.h on the stage's clock, and what the runtime's
// own children mean to steps.
#include "actors/supervision/supervisor.h"

#include <future>
#include <thread>

#include "tests/cast/play.h"

namespace troupe {
namespace supervisor_test {

using namespace std::chrono_literals;

struct ChildState {
  const char* name = "child";
};
// With an argument: CAF 0.17 binds a reference to those that are not there, which UBSan minds.
caf::behavior ChildBehavior(caf::stateful_actor<ChildState>*, uint64_t) {
  return {[](int) {}};
}

// A supervisor of children "a", "b", ... that does no work; what it tells is written to `log`.
struct Family {
  explicit Family(RestartPolicy policy, int children = 1) {
    policy.seed = 7;
    stage.Inline([&] {
      const auto list = std::make_shared<Children>(directory);
      for (int i = 0; i < children; ++i) {
        ChildSpec c;
        c.name = std::string(1, static_cast<char>('a' + i));
        c.policy = policy;
        c.spawn = [this, name = c.name](caf::actor_system& s, uint64_t incarnation) {
          StrAppend(&log, "spawn ", name, incarnation, "; ");
          return s.spawn(ChildBehavior, incarnation);
        };
        c.failed = [this, name = c.name](const std::string&) { StrAppend(&log, "failed ", name, "; "); };
        c.gave_up = [this, name = c.name](const std::string&) { StrAppend(&log, "gave up ", name, "; "); };
        c.restarted = [this, name = c.name](uint64_t incarnation) {
          StrAppend(&log, "restarted ", name, incarnation, "; ");
        };
        list->Spawn(stage.system(), std::move(c));
      }
      supervisor = SpawnSupervisor(stage.system(), list);
      this->list = list;
    });
  }
  ~Family() {
    stage.Inline([&] { caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown); });
  }
  std::string Go() {
    return stage.Play([this] { return std::exchange(log, ""); });
  }
  // Kills the child, and lets the supervisor hear of it. What it told.
  std::string Fail(const std::string& name) {
    stage.Kill(directory->Find(name));
    stage.Play();
    return std::exchange(log, "");
  }
  Stage stage;
  std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  std::shared_ptr<Children> list;
  std::string log;
  caf::actor supervisor;
};

RestartPolicy Policy() {
  RestartPolicy p;
  p.min_delay = 10ms;
  p.max_delay = 50ms;
  p.jitter = 0;
  p.max_failures = 4;
  p.window = 1000ms;
  return p;
}

BOOST_AUTO_TEST_CASE(edges_1_and_3_and_4_a_child_that_fails_is_spawned_again_after_its_delay) {
  Family f(Policy());
  BOOST_TEST(std::exchange(f.log, "") == "spawn a1; ");
  const caf::actor first = f.directory->Find("a");
  f.stage.Kill(first);
  BOOST_TEST(f.Go() == R"(
child <- exit | 
supervisor <- down | failed a; )");
  BOOST_TEST(!f.directory->Find("a"));
  BOOST_TEST(f.directory->WhyDown("a").code() == absl::StatusCode::kUnavailable);
  f.stage.Advance(9ms);
  BOOST_TEST(f.Go() == "");
  f.stage.Advance(1ms);
  BOOST_TEST(f.Go() == R"(
supervisor <- restart_child | spawn a2; restarted a2; 
child2 <- init | )");
  BOOST_TEST(f.directory->Incarnation("a") == 2u);
  BOOST_TEST((f.directory->Find("a") && f.directory->Find("a") != first));
}

BOOST_AUTO_TEST_CASE(a_thread_hears_that_an_actor_has_come_in_the_place_of_a_dead_one) {
  Family f(Policy());
  const Directory& directory = *f.directory;
  const uint64_t seen = directory.arrivals();
  const auto soon = [] { return std::chrono::steady_clock::now() + 1ms; };
  BOOST_TEST(seen > 0);
  BOOST_TEST(directory.WaitForArrival(seen - 1, soon()));
  f.stage.Kill(directory.Find("a"));
  f.stage.Play();
  BOOST_TEST(!directory.Find("a"));
  BOOST_TEST(!directory.WaitForArrival(seen, soon()));  // a death is none
  std::promise<bool> heard;
  std::thread waits([&] { heard.set_value(directory.WaitForArrival(seen, std::chrono::steady_clock::now() + 60s)); });
  f.stage.Advance(10ms);
  f.stage.Play();
  BOOST_TEST(!!directory.Find("a"));
  BOOST_TEST(heard.get_future().get());
  waits.join();
}

BOOST_AUTO_TEST_CASE(edge_2_a_child_that_stops_by_itself_is_forgotten) {
  RestartPolicy policy = Policy();
  policy.restart = Restart::kAfterFailure;
  Family f(policy);
  f.log.clear();
  caf::anon_send_exit(f.directory->Find("a"), caf::exit_reason::user_shutdown);
  BOOST_TEST(f.Go() == R"(
child <- exit | 
supervisor <- down | )");
  f.stage.Advance(10s);
  BOOST_TEST(f.Go() == "");
  BOOST_TEST(!f.directory->Find("a"));
}

BOOST_AUTO_TEST_CASE(edge_2_a_child_that_is_restarted_always_comes_back) {
  Family f(Policy());
  f.log.clear();
  caf::anon_send_exit(f.directory->Find("a"), caf::exit_reason::user_shutdown);
  f.stage.Play();
  BOOST_TEST(std::exchange(f.log, "") == "failed a; ");
  f.stage.Advance(10ms);
  f.stage.Play();
  BOOST_TEST(f.log == "spawn a2; restarted a2; ");
  // And one that is never restarted does not, whatever it died of.
  RestartPolicy policy = Policy();
  policy.restart = Restart::kNever;
  Family never(policy);
  never.log.clear();
  BOOST_TEST(never.Fail("a") == "failed a; gave up a; ");
  never.stage.Advance(1h);
  BOOST_TEST(never.Go() == "");
}

BOOST_AUTO_TEST_CASE(edges_3_and_5_the_delay_grows_to_its_limit_and_too_many_failures_end_it) {
  Family f(Policy());
  f.log.clear();
  int incarnation = 1;
  for (const auto delay : {10ms, 20ms, 40ms, 50ms}) {
    BOOST_TEST(f.Fail("a") == "failed a; ");
    f.stage.Advance(delay - 1ms);
    BOOST_TEST(f.Go() == "");
    f.stage.Advance(1ms);
    f.stage.Play();
    ++incarnation;
    BOOST_TEST(std::exchange(f.log, "") == StrCat("spawn a", incarnation, "; restarted a", incarnation, "; "));
  }
  BOOST_TEST(f.Fail("a") == "failed a; gave up a; ");
  f.stage.Advance(1h);
  BOOST_TEST(f.Go() == "");
  BOOST_TEST(f.directory->WhyDown("a").code() == absl::StatusCode::kFailedPrecondition, f.directory->WhyDown("a"));
}

BOOST_AUTO_TEST_CASE(edge_3_a_quiet_window_forgets_failures) {
  Family f(Policy());
  f.log.clear();
  for (int i = 0; i < 12; ++i) {
    BOOST_TEST(f.Fail("a") == "failed a; ");
    f.stage.Advance(10ms);  // always the first delay
    f.stage.Play();
    BOOST_TEST(std::exchange(f.log, "") == StrCat("spawn a", i + 2, "; restarted a", i + 2, "; "));
    f.stage.Advance(1001ms);
  }
}

BOOST_AUTO_TEST_CASE(edge_3_jitter_moves_the_delay_by_its_fraction_at_most) {
  RestartPolicy policy = Policy();
  policy.min_delay = policy.max_delay = 1000ms;
  policy.window = 1ms;
  policy.jitter = 0.25;
  policy.seed = 3;
  RestartDecision d(policy), same(policy);
  bool below = false, above = false;
  auto now = RestartDecision::Time{} + 1h;
  for (int i = 0; i < 100; ++i, now += 1s) {
    const auto delay = d.OnFailure(now);
    BOOST_TEST((delay >= 750ms && delay <= 1250ms));
    BOOST_TEST((delay == same.OnFailure(now)));
    below |= delay < 900ms;
    above |= delay > 1100ms;
  }
  BOOST_TEST((below && above));
}

BOOST_AUTO_TEST_CASE(edge_6_an_escalating_policy_ends_the_whole_family_with_a_failure) {
  RestartPolicy policy = Policy();
  policy.max_failures = 0;
  policy.escalate = true;
  Family f(policy, 3);
  f.log.clear();
  bool failed = false;
  caf::scoped_actor above(f.stage.system());
  above->monitor(f.supervisor);
  f.stage.Kill(f.directory->Find("b"));
  BOOST_TEST(f.Go() == R"(
child <- exit | 
supervisor <- down | failed b; gave up b; 
child2 <- exit | 
child3 <- exit | )");
  above->receive([&](const caf::down_msg& d) { failed = d.reason == caf::exit_reason::kill; }, caf::after(0s) >> [] {});
  BOOST_TEST(failed);
  for (const char* name : {"a", "b", "c"}) BOOST_TEST(!f.directory->Find(name));
}

BOOST_AUTO_TEST_CASE(edge_7_the_end_stops_children_and_drops_a_restart_that_is_due) {
  Family f(Policy(), 2);
  f.log.clear();
  BOOST_TEST(f.Fail("b") == "failed b; ");
  caf::anon_send_exit(f.supervisor, caf::exit_reason::user_shutdown);
  BOOST_TEST(f.Go() == R"(
supervisor <- exit | 
child2 <- exit | )");
  f.stage.Advance(1s);
  f.stage.Play();
  BOOST_TEST(f.log == "");
  BOOST_TEST(!f.directory->Find("a"));
}

BOOST_AUTO_TEST_CASE(edge_8_news_of_a_stranger_is_ignored) {
  Family f(Policy());
  f.log.clear();
  const caf::actor old = f.directory->Find("a");
  f.Fail("a");
  f.stage.Advance(10ms);
  f.stage.Play();
  f.log.clear();
  caf::anon_send(f.supervisor, caf::down_msg{old.address(), caf::exit_reason::kill});  // the first incarnation's, late
  f.stage.Play();
  BOOST_TEST(f.log == "");
  BOOST_TEST(!!f.directory->Find("a"));
}

// What a child is added as.
std::shared_ptr<ChildSpec> SpecOfB(Family& f) {
  auto spec = std::make_shared<ChildSpec>();
  spec->name = "b";
  spec->policy = Policy();
  spec->spawn = [&f](caf::actor_system& s, uint64_t incarnation) {
    StrAppend(&f.log, "spawn b", incarnation, "; ");
    return incarnation == 4 ? caf::actor() : s.spawn(ChildBehavior, incarnation);
  };
  return spec;
}

BOOST_AUTO_TEST_CASE(edges_9_and_10_a_child_is_added_and_removed) {
  Family f(Policy());
  const auto spec = SpecOfB(f);
  const caf::actor first = spec->spawn(f.stage.system(), 1);
  f.list->Adopt(*spec, first);
  caf::anon_send(f.supervisor, add_child{"b"});
  f.stage.Play();
  BOOST_TEST((f.directory->Find("b") == first));
  f.log.clear();
  f.Fail("b");
  f.stage.Advance(10ms);
  f.stage.Play();
  BOOST_TEST(std::exchange(f.log, "") == "spawn b2; ");
  // One that removes it hears when it is gone.
  caf::scoped_actor owner(f.stage.system());
  owner->send(f.supervisor, remove_child{"b"});
  BOOST_TEST(f.Go() == R"(
supervisor <- remove_child | 
child2 <- exit | 
supervisor <- down | )");
  int gone = 0;
  owner->receive([&](child_removed) { ++gone; }, caf::after(0s) >> [] {});
  BOOST_TEST(gone == 1);
  BOOST_TEST(!f.directory->Find("b"));
  BOOST_TEST(f.directory->size() == 1u);
  f.stage.Advance(1h);
  BOOST_TEST(f.Go() == "");
  owner->send(f.supervisor, remove_child{"b"});  // and when there is none
  f.stage.Play();
  owner->receive([&](child_removed) { ++gone; }, caf::after(0s) >> [] {});
  BOOST_TEST(gone == 2);
}

BOOST_AUTO_TEST_CASE(edge_11_a_child_is_removed_while_it_is_down) {
  Family f(Policy());
  const auto spec = SpecOfB(f);
  f.list->Adopt(*spec, spec->spawn(f.stage.system(), 1));
  caf::anon_send(f.supervisor, add_child{"b"});
  f.stage.Play();
  f.Fail("b");
  f.log.clear();
  caf::scoped_actor owner(f.stage.system());
  owner->send(f.supervisor, remove_child{"b"});
  f.stage.Play();
  bool gone = false;
  owner->receive([&](child_removed) { gone = true; }, caf::after(0s) >> [] {});
  BOOST_TEST(gone);
  f.stage.Advance(1h);
  f.stage.Play();
  BOOST_TEST(f.log == "");  // the timer found nobody
  BOOST_TEST(f.directory->size() == 1u);
  // One whose factory has nothing to spawn it for is forgotten, too.
  const auto again = SpecOfB(f);
  f.list->Adopt(*again, again->spawn(f.stage.system(), 1));
  caf::anon_send(f.supervisor, add_child{"b"});
  f.stage.Play();
  for (int i = 0; i < 3; ++i) {
    f.Fail("b");
    f.stage.Advance(50ms);
    f.stage.Play();
  }
  BOOST_TEST(f.directory->size() == 1u);
}

// The worker is the one that is itself restarted.
BOOST_AUTO_TEST_CASE(edges_12_and_13_children_outlive_their_supervisor) {
  CastPolicies policies;
  for (RestartPolicy* p : {&policies.worker, &policies.device, &policies.container, &policies.session}) {
    p->jitter = 0;
    p->min_delay = 10ms;
  }
  Play p({}, 2, 1, policies);
  const std::string device = "device:" + p.runtime->devices()[0].name,
                    container = "container:" + p.runtime->devices()[1].name;
  const caf::actor lives = p.Find(device);
  // One is down when the worker dies, and one dies while there is no worker.
  p.stage.Kill(p.Find("container:" + p.runtime->devices()[0].name));
  p.stage.Play();
  p.stage.Advance(5ms);
  p.stage.Kill(p.Find("worker"));
  p.stage.Kill(p.Find(container));
  BOOST_TEST(p.stage.Play() == R"(
worker <- exit
container2 <- exit
supervisor <- down
session <- actor_failed)");
  BOOST_TEST(!p.Find("worker"));
  BOOST_TEST((p.Find(device) == lives));
  p.stage.Advance(10ms);
  BOOST_TEST(p.stage.Play() == R"(
supervisor <- restart_child
worker2 <- init
container3 <- states_came
session <- actor_failed)");  // it hears of the death in its first turn
  BOOST_TEST((p.Find("worker") && !p.Find(container)));
  p.stage.Advance(10ms);
  BOOST_TEST(p.stage.Play() == R"(
worker2 <- restart_child
container4 <- states_came)");
  BOOST_TEST((p.Find(device) == lives));
  // It is watched as before.
  p.stage.Kill(lives);
  p.stage.Play();
  p.stage.Advance(10ms);
  p.stage.Play();
  BOOST_TEST((p.Find(device) && p.Find(device) != lives));
}

BOOST_AUTO_TEST_CASE(edges_9_and_12_and_14_what_a_dead_supervisor_was_told_is_not_lost) {
  Family f(Policy());
  f.stage.Kill(f.supervisor);
  // Behind the exit in its mailbox.
  const auto spec = SpecOfB(f);
  f.list->Adopt(*spec, spec->spawn(f.stage.system(), 1));
  caf::anon_send(f.supervisor, add_child{"b"});
  f.list->Doom("a");
  caf::anon_send(f.supervisor, remove_child{"a"});
  BOOST_TEST(f.stage.Play() == R"(
supervisor <- exit
child <- init)");
  BOOST_TEST((f.directory->Find("a") && f.directory->Find("b")));
  f.supervisor = SpawnSupervisor(f.stage.system(), f.list);
  f.log.clear();
  BOOST_TEST(f.Go() == R"(
supervisor2 <- init | 
child2 <- exit | 
supervisor2 <- down | )");
  BOOST_TEST(!f.directory->Find("a"));
  BOOST_TEST(f.list->size() == 1u);
  // It is watched, and comes back.
  (void)f.Fail("b");
  f.stage.Advance(10ms);
  f.stage.Play();
  BOOST_TEST(f.log == "spawn b2; ");
}

BOOST_AUTO_TEST_CASE(the_runtime_restarts_its_supervisor) {
  CastPolicies policies;
  policies.supervisor.max_failures = 3;
  Play p({}, 1, 1, policies);
  p.Extend();
  for (int deaths = 1; deaths <= 3; ++deaths) {
    const caf::actor before = p.Find("supervisor");
    p.stage.Kill(before);
    p.stage.Play();
    const caf::actor now = p.Find("supervisor");
    BOOST_TEST((now && now != before));
    // It watches those whom the one before watched.
    const caf::actor worker = p.Find("worker"), session = ActorOf(*p.session);
    p.stage.Kill(worker);
    p.stage.Kill(session);
    p.stage.Play();
    p.stage.Advance(20s);
    p.stage.Play();
    // The session's actor is there first, since it has to hear of the worker's death.
    BOOST_TEST((ActorOf(*p.session) && ActorOf(*p.session) != session));
    p.stage.Advance(2ms);
    p.stage.Play();
    BOOST_TEST((p.Find("worker") && p.Find("worker") != worker));
    p.Start({"twice"});
    p.stage.Play();
    BOOST_TEST(p.State() == "OK");
  }
  // Too often: sessions come and go nevertheless.
  p.stage.Kill(p.Find("supervisor"));
  p.stage.Play();
  BOOST_TEST(!p.Find("supervisor"));
  p.stage.Inline([&] {
    SessionOptions options;
    options.runtime = p.runtime;
    auto another = Session::Create(options).value();
    TROUPE_REQUIRE_OK(another->Extend(*p.root.graph()));
    TROUPE_REQUIRE_OK(another->Run(p.feeds, {"twice"}, {}, nullptr));
  });
  p.Start({"twice"});
  p.stage.Play();
  BOOST_TEST(p.State() == "OK");
}

// What the failure of a child means to the steps that run.
BOOST_AUTO_TEST_CASE(a_killed_device_container_or_worker_ends_its_steps_and_comes_back) {
  for (const std::string who : {"device", "container", "worker"}) {
    Play p;
    Variable v(p.root.WithOpName("v"), 5.0f);
    const Output read = v.Read(p.root.WithOpName("read"));
    const Operation init = GlobalVariablesInitializer(p.root);
    p.Extend();
    p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Run({}, {}, {init.name()}, nullptr)); });
    p.Warm(p.feeds, {"never"});
    p.Warm(p.feeds, {"read"});
    p.Start({"never"});
    p.stage.Play();
    const std::string name = who == "worker" ? p.NameOf(who) : StrCat(who, ":", p.runtime->devices()[0].name);
    const caf::actor before = p.Find(name);
    p.stage.Kill(before);
    BOOST_TEST(p.Go() ==
               StrCat("\n", who, " <- exit | running\n", who == "worker" ? "supervisor" : "worker",
                      " <- down | running\nsession <- actor_failed | running\nexecutor <- doorbell | ABORTED"));
    BOOST_TEST(p.Message().find(StrCat("actor '", name, "' died while the step ran")) == 0u, p.Message());
    BOOST_TEST(!p.Find(name));
    p.stage.Advance(2ms);
    p.stage.Play();
    BOOST_TEST(p.runtime->impl()->directory->Incarnation(name) == 2u);
    BOOST_TEST((p.Find(name) && p.Find(name) != before));
    // The session and its variables are as they were, for new steps and for new signatures.
    p.Start({"read"});
    p.stage.Play();
    BOOST_TEST(p.State() == "OK");
    BOOST_TEST(p.outputs.at(0).scalar<float>() == 5.0f);
    p.Start({"twice"});
    p.stage.Play();
    BOOST_TEST(p.State() == "OK");
  }
}

}  // namespace supervisor_test
}  // namespace troupe
