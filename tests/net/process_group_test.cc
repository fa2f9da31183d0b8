// The supervision of processes without processes and with a clock of the test's: what is launched,
// signalled and given up, edge by edge.
#include "net/process_group.h"

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

namespace troupe {
namespace process_group_test {

using namespace std::chrono_literals;
using Restart = ProcessPolicy::Restart;

ProcessEnd Exit(int status, const std::string& line = "") { return {W_EXITCODE(status, 0), line}; }
ProcessEnd Killed(int signal) { return {W_EXITCODE(0, signal), ""}; }

ProcessSpec Spec(const std::string& name, bool service = false, ProcessPolicy policy = {}) {
  ProcessSpec spec;
  spec.name = name;
  spec.command = {name};
  spec.service = service;
  policy.jitter = 0;
  spec.policy = policy;
  return spec;
}

// A group with its clock, and what it has asked for.
struct Group {
  explicit Group(std::vector<ProcessSpec> specs, std::chrono::milliseconds stop_within = 10s) {
    ProcessSupervisorOptions o;
    o.processes = std::move(specs);
    o.stop_within = stop_within;
    group.emplace(o);
  }
  std::string Said(const ProcessGroup::Actions& actions) {
    std::string text;
    for (const auto& a : actions) {
      StrAppend(&text, text.empty() ? "" : "; ",
                a.signal == 0         ? "launch "
                : a.signal == SIGTERM ? "ask "
                                      : "kill ",
                a.process, ".", a.incarnation);
    }
    return text;
  }
  std::string Begin() { return Said(group->Begin(now)); }
  std::string Launched(int i, uint64_t incarnation, int64_t pid = 100) {
    return Said(group->Launched(i, incarnation, pid, now));
  }
  std::string Ended(int i, uint64_t incarnation, const ProcessEnd& end) {
    return Said(group->Ended(i, incarnation, end, now));
  }
  std::string Stop(std::chrono::milliseconds at_most) { return Said(group->Stop(at_most, now)); }
  // The clock goes on to when the timer is due: "100: launch 0.2".
  std::string Tick() {
    const auto due = group->NextLook();
    if (!due) return "never";
    const auto after = std::chrono::duration_cast<std::chrono::milliseconds>(*due - now).count();
    now = *due;
    return StrCat(after, ": ", Said(group->Look(now)));
  }
  std::string States() {
    std::string text;
    for (const ProcessStatus& p : group->Status(now).processes)
      StrAppend(&text, text.empty() ? "" : ", ", ToString(p.state));
    return text;
  }
  absl::Status Result() { return group->Status(now).result; }

  ProcessGroup::Time now{};
  std::optional<ProcessGroup> group;
};

BOOST_AUTO_TEST_SUITE(process_group)

BOOST_AUTO_TEST_CASE(edges_1_and_2_and_4_a_process_runs_and_ends_well) {
  Group g({Spec("a"), Spec("b")});
  BOOST_TEST(g.Begin() == "launch 0.1; launch 1.1");
  BOOST_TEST(g.States() == "starting, starting");
  BOOST_TEST(g.Launched(0, 1, 7) == "");
  BOOST_TEST(g.Launched(1, 1, 8) == "");
  BOOST_TEST(g.States() == "running, running");
  BOOST_TEST(g.group->Status(g.now).processes[1].pid == 8);
  BOOST_TEST(g.Ended(1, 1, Exit(0)) == "");
  BOOST_TEST(!g.group->over());
  BOOST_TEST(g.Ended(0, 1, Exit(0)) == "");
  BOOST_TEST(g.States() == "ended, ended");
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.Result().ok());
  BOOST_TEST(g.Tick() == "never");
}

BOOST_AUTO_TEST_CASE(edge_3_what_cannot_be_started_has_failed) {
  ProcessPolicy policy;
  policy.most_restarts = 1;
  Group g({Spec("a", false, policy)});
  g.Begin();
  BOOST_TEST(g.Said(g.group->Launched(0, 1, NotFound("there is no a"), g.now)) == "");
  BOOST_TEST(g.States() == "waiting");
  BOOST_TEST(g.Tick() == "100: launch 0.2");
  BOOST_TEST(g.Said(g.group->Launched(0, 2, NotFound("there is no a"), g.now)) == "");
  BOOST_TEST(g.States() == "given up");
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.Result().message() == "a could not be started: there is no a, after 1 restarts, and is given up");
}

BOOST_AUTO_TEST_CASE(edges_5_and_6_and_9_the_delay_of_a_restart_grows_to_its_limit) {
  ProcessPolicy policy;
  policy.restart = Restart::kAlways;
  policy.max_delay = 500ms;
  Group g({Spec("a", false, policy)});
  g.Begin();
  const char* const expected[] = {"100: launch 0.2", "200: launch 0.3", "400: launch 0.4", "500: launch 0.5"};
  for (uint64_t i = 1; i <= 4; ++i) {
    g.Launched(0, i);
    // One that is restarted always is so, too, when it ended well.
    BOOST_TEST(g.Ended(0, i, i % 2 == 0 ? Exit(0) : Killed(SIGKILL)) == "");
    BOOST_TEST(g.States() == "waiting");
    BOOST_TEST(g.Tick() == expected[i - 1]);
  }
  BOOST_TEST(g.group->Status(g.now).processes[0].restarts == 4);
  // What is long ago does not count.
  g.Launched(0, 5);
  g.now += 2min;
  g.Ended(0, 5, Exit(3));
  BOOST_TEST(g.group->Status(g.now).processes[0].last_end == "exited with status 3");
  BOOST_TEST(g.Tick() == "100: launch 0.6");
}

BOOST_AUTO_TEST_CASE(edge_7_who_fails_too_often_is_given_up_and_the_others_go_on) {
  ProcessPolicy never;
  never.restart = Restart::kNever;
  never.escalate = false;
  Group g({Spec("a", false, never), Spec("b"), Spec("ps", true)});
  g.Begin();
  for (int i = 0; i < 3; ++i) g.Launched(i, 1);
  BOOST_TEST(g.Ended(0, 1, Exit(1)) == "");
  BOOST_TEST(g.States() == "given up, running, running");
  // It is over for the programs when the last one has ended; what serves them goes, too.
  BOOST_TEST(g.Ended(1, 1, Exit(0)) == "ask 2.1");
  BOOST_TEST(g.Ended(2, 1, Exit(0)) == "");
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.Result().message() == "given up: a, which exited with status 1");
}

BOOST_AUTO_TEST_CASE(edge_8_who_is_given_up_ends_the_others_when_the_policy_escalates) {
  ProcessPolicy policy;
  policy.most_restarts = 0;
  Group g({Spec("a", false, policy), Spec("b"), Spec("ps", true)});
  g.Begin();
  for (int i = 0; i < 3; ++i) g.Launched(i, 1);
  BOOST_TEST(g.Ended(0, 1, {W_EXITCODE(0, SIGSEGV), "it was bad"}) == "ask 1.1");
  BOOST_TEST(g.Ended(1, 1, Killed(SIGTERM)) == "ask 2.1");
  BOOST_TEST(g.Ended(2, 1, Exit(0)) == "");
  BOOST_TEST(g.States() == "given up, stopped, stopped");
  BOOST_TEST(absl::IsAborted(g.Result()));
  BOOST_TEST(
      g.Result().message() ==
      "a was ended by signal 11 (Segmentation fault), after 0 restarts, and is given up; its last line: it was bad");
}

BOOST_AUTO_TEST_CASE(edges_10_and_12_services_are_stopped_when_the_others_have_ended) {
  Group g({Spec("ps", true), Spec("a"), Spec("b")});
  g.Begin();
  for (int i = 0; i < 3; ++i) g.Launched(i, 1);
  BOOST_TEST(g.Stop(5s) == "ask 1.1; ask 2.1");
  BOOST_TEST(g.States() == "running, stopping, stopping");
  BOOST_TEST(g.Ended(1, 1, Killed(SIGTERM)) == "");
  // Who was about to end has ended.
  BOOST_TEST(g.Ended(2, 1, Exit(0)) == "ask 0.1");
  BOOST_TEST(g.Ended(0, 1, Exit(0)) == "");
  BOOST_TEST(g.States() == "stopped, stopped, ended");
  BOOST_TEST(absl::IsCancelled(g.Result()));
  BOOST_TEST(g.Result().message() == "stopped before these had ended: a");
  BOOST_TEST(g.group->Stopped().ok());
  // Services alone are a group, too: they run until they are stopped.
  Group s({Spec("ps", true)});
  BOOST_TEST(s.Begin() == "launch 0.1");
  s.Launched(0, 1);
  BOOST_TEST(s.Stop(5s) == "ask 0.1");
  s.Ended(0, 1, Exit(0));
  BOOST_TEST(s.Result().ok());
}

BOOST_AUTO_TEST_CASE(edge_11_a_stop_forgets_a_restart_that_is_due) {
  Group g({Spec("a")});
  g.Begin();
  g.Launched(0, 1);
  g.Ended(0, 1, Exit(1));
  BOOST_TEST(g.Stop(5s) == "");
  BOOST_TEST(g.States() == "stopped");
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.Tick() == "never");
}

BOOST_AUTO_TEST_CASE(edge_13_who_does_not_end_in_time_is_killed_and_named) {
  Group g({Spec("ps", true), Spec("a"), Spec("b")});
  g.Begin();
  for (int i = 0; i < 3; ++i) g.Launched(i, 1);
  g.Stop(5s);
  g.Ended(1, 1, Killed(SIGTERM));
  BOOST_TEST(g.Tick() == "5000: kill 2.1");
  BOOST_TEST(g.Tick() == "never");
  // The services have as much time, of their own.
  g.now += 100ms;
  BOOST_TEST(g.Ended(2, 1, Killed(SIGKILL)) == "ask 0.1");
  BOOST_TEST(g.Tick() == "5000: kill 0.1");
  g.Ended(0, 1, Killed(SIGKILL));
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.group->Stopped().message() == "within 5000 ms these did not end, and were killed: ps, b");
}

BOOST_AUTO_TEST_CASE(edge_14_a_stop_can_be_hurried) {
  Group g({Spec("ps", true), Spec("a")});
  g.Begin();
  // Who is only starting is asked, too: the launcher does one thing after the other.
  BOOST_TEST(g.Stop(1min) == "ask 1.1");
  g.Launched(0, 1);
  g.Launched(1, 1);
  BOOST_TEST(g.States() == "running, stopping");
  BOOST_TEST(g.Stop(1s) == "");
  BOOST_TEST(g.Stop(1min) == "");
  BOOST_TEST(g.Tick() == "1000: kill 1.1");
  BOOST_TEST(g.Ended(1, 1, Killed(SIGKILL)) == "ask 0.1");
  BOOST_TEST(g.Tick() == "1000: kill 0.1");
}

BOOST_AUTO_TEST_CASE(edge_15_news_of_another_incarnation_is_ignored) {
  Group g({Spec("a")});
  g.Begin();
  g.Launched(0, 1, 7);
  g.Ended(0, 1, Exit(1));
  g.Tick();
  BOOST_TEST(g.Ended(0, 1, Exit(0)) == "");
  BOOST_TEST(g.Launched(0, 1, 7) == "");
  BOOST_TEST(g.States() == "starting");
  g.Launched(0, 2, 9);
  BOOST_TEST(g.group->Status(g.now).processes[0].pid == 9);
  BOOST_TEST(g.group->Incarnation(0) == 2);
}

ProcessSpec Held(const std::string& name, bool service = false) {
  ProcessSpec spec = Spec(name, service);
  spec.held = true;
  return spec;
}

BOOST_AUTO_TEST_CASE(edges_16_17_and_19_who_is_held_starts_when_released) {
  Group g({Spec("a"), Held("b")});
  BOOST_TEST(g.Begin() == "launch 0.1");
  BOOST_TEST(g.States() == "starting, held");
  g.Launched(0, 1);
  g.Ended(0, 1, Exit(0));
  BOOST_TEST(!g.group->over());
  BOOST_TEST(g.Said(g.group->Release(1, g.now)) == "launch 1.1");
  BOOST_TEST(g.Said(g.group->Release(1, g.now)) == "");
  BOOST_TEST(g.Said(g.group->Release(0, g.now)) == "");
  g.Launched(1, 1);
  BOOST_TEST(g.States() == "ended, running");
  g.Ended(1, 1, Exit(0));
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.Result().ok());
}

BOOST_AUTO_TEST_CASE(edge_18_who_is_held_is_stopped_unstarted) {
  Group g({Held("ps", true), Held("a"), Spec("b")});
  g.Begin();
  g.Launched(2, 1);
  BOOST_TEST(g.Stop(5s) == "ask 2.1");
  BOOST_TEST(g.States() == "held, stopped, stopping");
  BOOST_TEST(g.Ended(2, 1, Killed(SIGTERM)) == "");
  BOOST_TEST(g.States() == "stopped, stopped, stopped");
  BOOST_TEST(g.group->over());
  BOOST_TEST(g.Said(g.group->Release(1, g.now)) == "");
  BOOST_TEST(absl::IsCancelled(g.Result()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace process_group_test
}  // namespace troupe
