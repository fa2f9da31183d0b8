#include "tests/stress/watchdog.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <future>

#include "tests/stress/faults.h"

namespace troupe::stress {

using namespace std::chrono_literals;

Watchdog::Watchdog() : thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  stop_ = true;
  thread_.join();
}

void Watchdog::Watch(std::shared_ptr<Scenario> scenario) {
  std::lock_guard<std::mutex> lock(mu_);
  watched_.insert(std::move(scenario));
}

void Watchdog::Unwatch(const std::shared_ptr<Scenario>& scenario) {
  std::lock_guard<std::mutex> lock(mu_);
  watched_.erase(scenario);
}

void Watchdog::Run() {
  while (!stop_) {
    std::this_thread::sleep_for(50ms);
    std::set<std::shared_ptr<Scenario>> now;
    {
      std::lock_guard<std::mutex> lock(mu_);
      now = watched_;
    }
    for (const auto& s : now) {
      const TimePoint until = s->GiveUpAt();
      if (until != kNever && Clock::now() > until && MillisSince(until) > Load::Get().Margin(until - 20s)) Hangs(s);
    }
  }
}

void Watchdog::Hangs(const std::shared_ptr<Scenario>& scenario) {
  Fault(scenario->number(), "a hang", "");
  Tell(scenario->Outstanding());
  // Those who are asked may hang as well.
  auto asked = std::make_shared<std::promise<std::vector<std::string>>>();
  std::thread([asked, scenario] { asked->set_value(scenario->AskSessions()); }).detach();
  auto answer = asked->get_future();
  if (answer.wait_for(3s) == std::future_status::ready) {
    for (const std::string& line : answer.get()) std::printf("  %s\n", line.c_str());
  } else {
    std::printf("  Session::RunningSteps does not return\n");
  }
  std::printf("what was seen:\n%s", FaultSummary().c_str());
  std::fflush(stdout);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const std::string pid = std::to_string(getpid());
  if (const pid_t child = fork(); child == 0) {
    alarm(60);
    execlp("gdb", "gdb", "-p", pid.c_str(), "-batch", "-nx", "-ex", "set pagination off", "-ex",
           "thread apply all bt 16", nullptr);
    _exit(127);
  } else if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) std::printf("(no gdb: no stacks)\n");
  }
  std::fflush(stdout);
  _exit(3);
}

}  // namespace troupe::stress
