// The supervisor's actor in an actor system whose scheduler and clock are the test's, with a
// launcher that writes down what it is asked for.
#include "net/process_actor.h"

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <csignal>

namespace troupe {
namespace process_actor_test {

using namespace std::chrono_literals;

struct Config : caf::actor_system_config {
  Config() { set("scheduler.policy", caf::atom("testing")); }
};

struct Recorder : ProcessLauncher {
  void Launch(int process, uint64_t incarnation) override {
    StrAppend(&asked, "launch ", process, ".", incarnation, "; ");
  }
  void Signal(int process, uint64_t incarnation, int signal) override {
    StrAppend(&asked, "signal ", signal, " to ", process, ".", incarnation, "; ");
  }
  void Close() override {}
  std::string asked;
};

struct Stage {
  explicit Stage(const ProcessPolicy& policy = {}, bool held = false) {
    ProcessSupervisorOptions o;
    for (const char* name : {"ps", "worker"}) {
      ProcessSpec spec;
      spec.name = name;
      spec.command = {name};
      spec.service = spec.name == "ps";
      spec.held = held && !spec.service;
      spec.policy = policy;
      spec.policy.jitter = 0;
      o.processes.push_back(spec);
    }
    actor = SpawnProcesses(system, o, launcher, [this](const ProcessesStatus& status, const absl::Status& stopped) {
      StrAppend(&over, "over: ", absl::StatusCodeToString(status.result.code()), ", ",
                absl::StatusCodeToString(stopped.code()), "; ");
    });
  }
  ~Stage() {
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    scheduler.run();
  }
  template <class Message>
  std::string Tell(Message m) {
    caf::anon_send(actor, std::move(m));
    scheduler.run();
    return std::exchange(launcher->asked, "");
  }
  std::string Begin() {
    std::string asked = Tell(begin_processes{});
    for (int i : {0, 1}) asked += Tell(process_launched{i, 1, int64_t{100 + i}});
    return asked;
  }
  std::string Pass(std::chrono::milliseconds time) {
    scheduler.advance_time(time);
    scheduler.run();
    return std::exchange(launcher->asked, "");
  }
  template <class Answer, class Question>
  Answer Ask(Question q) {
    Answer answer;
    auto asker = system.spawn(
        [&](caf::event_based_actor* self, int) {
          self->request(actor, caf::infinite, std::move(q)).then([&](Answer& a) { answer = std::move(a); });
        },
        0);
    scheduler.run();
    return answer;
  }

  Config config;
  caf::actor_system system{config};
  caf::scheduler::test_coordinator& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  std::shared_ptr<Recorder> launcher = std::make_shared<Recorder>();
  caf::actor actor;
  std::string over;
};

BOOST_AUTO_TEST_SUITE(process_actor)

BOOST_AUTO_TEST_CASE(edges_1_to_3_and_8_processes_are_launched_and_end) {
  Stage s;
  BOOST_TEST(s.Begin() == "launch 0.1; launch 1.1; ");
  BOOST_TEST(s.Tell(process_ended{1, 1, {W_EXITCODE(0, 0), ""}}) == "signal 15 to 0.1; ");
  BOOST_TEST(s.over == "");
  BOOST_TEST(s.Tell(process_ended{0, 1, {W_EXITCODE(0, 0), ""}}) == "");
  BOOST_TEST(s.over == "over: OK, OK; ");
  s.Tell(stop_processes{10});
  BOOST_TEST(s.over == "over: OK, OK; ");
}

BOOST_AUTO_TEST_CASE(edge_4_the_timer_starts_again_what_failed) {
  Stage s;
  s.Begin();
  BOOST_TEST(s.Tell(process_ended{1, 1, {W_EXITCODE(0, SIGKILL), ""}}) == "");
  BOOST_TEST(s.Pass(99ms) == "");
  BOOST_TEST(s.Pass(1ms) == "launch 1.2; ");
  s.Tell(process_launched{1, 2, int64_t{107}});
  // The service fails later and is due sooner than the worker, which has failed twice.
  s.Tell(process_ended{1, 2, {W_EXITCODE(1, 0), ""}});
  s.Pass(50ms);
  s.Tell(process_ended{0, 1, {W_EXITCODE(1, 0), ""}});
  BOOST_TEST(s.Pass(100ms) == "launch 0.2; ");
  BOOST_TEST(s.Pass(50ms) == "launch 1.3; ");
}

BOOST_AUTO_TEST_CASE(edge_5_a_stop_ends_who_does_not_end_in_time) {
  Stage s;
  s.Begin();
  BOOST_TEST(s.Tell(stop_processes{1000}) == "signal 15 to 1.1; ");
  BOOST_TEST(s.Pass(999ms) == "");
  BOOST_TEST(s.Pass(1ms) == "signal 9 to 1.1; ");
  BOOST_TEST(s.Tell(process_ended{1, 1, {W_EXITCODE(0, SIGKILL), ""}}) == "signal 15 to 0.1; ");
  s.Tell(process_ended{0, 1, {W_EXITCODE(0, 0), ""}});
  BOOST_TEST(s.over == "over: CANCELLED, DEADLINE_EXCEEDED; ");
}

BOOST_AUTO_TEST_CASE(edges_6_and_7_signals_are_handed_on_and_the_state_is_told) {
  Stage s;
  s.Begin();
  BOOST_TEST(s.Ask<process_signalled>(signal_process{"worker", SIGSTOP}).status.ok());
  BOOST_TEST(std::exchange(s.launcher->asked, "") == "signal 19 to 1.1; ");
  BOOST_TEST(absl::IsNotFound(s.Ask<process_signalled>(signal_process{"chief", SIGSTOP}).status));
  s.Tell(process_ended{1, 1, {W_EXITCODE(1, 0), "why"}});
  BOOST_TEST(absl::IsNotFound(s.Ask<process_signalled>(signal_process{"worker", SIGSTOP}).status));
  const ProcessesStatus status = s.Ask<processes_state>(get_processes{}).value;
  BOOST_TEST(status.processes.at(1).last_line == "why");
  BOOST_TEST((status.processes.at(1).state == ProcessState::kWaiting));
  BOOST_TEST(status.processes.at(0).pid == 100);
}

BOOST_AUTO_TEST_CASE(edge_9_a_held_process_is_launched_when_it_is_released) {
  Stage s({}, true);
  BOOST_TEST(s.Tell(begin_processes{}) == "launch 0.1; ");
  BOOST_TEST(absl::IsNotFound(s.Ask<process_signalled>(release_process{"chief"}).status));
  BOOST_TEST(s.Ask<process_signalled>(release_process{"worker"}).status.ok());
  BOOST_TEST(std::exchange(s.launcher->asked, "") == "launch 1.1; ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace process_actor_test
}  // namespace troupe
