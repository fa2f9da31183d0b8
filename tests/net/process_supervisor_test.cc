// Real processes under their supervisor: what they inherit, how they end, and that nothing of them
// remains.
#include "troupe/process_supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "net/rotated_log.h"
#include "tests/net/processes.h"

namespace troupe {
namespace process_supervisor_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct Folder {
  Folder() : path((fs::temp_directory_path() / StrCat("troupe_ps_", ::getpid())).string()) { fs::remove_all(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(path + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  const std::string path;
};

ProcessSpec Shell(const std::string& name, const std::string& script, bool service = false) {
  ProcessSpec spec;
  spec.name = name;
  spec.command = {"sh", "-c", script};
  spec.service = service;
  spec.policy.min_delay = 1ms;
  return spec;
}

// The lines that processes have written, "a.1 hello; ".
struct Ear {
  std::function<void(const std::string&, uint64_t, std::string_view)> Listener() {
    return [this](const std::string& name, uint64_t incarnation, std::string_view line) {
      std::lock_guard<std::mutex> lock(mu);
      StrAppend(&text, name, ".", incarnation, " ", line, "; ");
    };
  }
  std::string heard() {
    std::lock_guard<std::mutex> lock(mu);
    return text;
  }
  bool Hears(const std::string& what) {
    return Await([&] { return heard().find(what) != std::string::npos; });
  }
  std::mutex mu;
  std::string text;
};

int64_t PidOf(const ProcessSupervisor& s, const std::string& name) {
  const auto status = s.status();
  BOOST_REQUIRE(status.ok());
  for (const ProcessStatus& p : status->processes) {
    if (p.name == name) return p.pid;
  }
  return -1;
}
bool IsGone(int64_t pid) {
  return Await([&] { return ::kill(static_cast<pid_t>(pid), 0) != 0; });
}

BOOST_AUTO_TEST_SUITE(process_supervisor)

BOOST_AUTO_TEST_CASE(programs_end_well_and_what_serves_them_is_stopped) {
  Folder folder;
  Ear ear;
  ProcessSupervisorOptions o;
  o.processes = {Shell("service", "trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done", true),
                 Shell("program", "echo hello; echo $WORD; pwd; echo oops >&2")};
  o.processes[1].environment = {{"WORD", "word"}};
  o.processes[1].folder = "/";
  o.logs = folder.path;
  o.on_line = ear.Listener();
  auto s = ProcessSupervisor::Start(o);
  BOOST_REQUIRE(s.ok());
  BOOST_TEST((*s)->Wait(60s).value());
  const auto status = (*s)->status();
  BOOST_REQUIRE(status.ok());
  BOOST_TEST(status->result.ok());
  BOOST_TEST(ToString(status->processes[0].state) == "stopped");
  BOOST_TEST(ToString(status->processes[1].state) == "ended");
  BOOST_TEST(ear.heard().find("program.1 hello; program.1 word; program.1 /; program.1 oops; ") != std::string::npos);
  const std::string log = folder.Read("program.log");
  BOOST_TEST(log.starts_with("troupe: program starts as process "));
  BOOST_TEST(log.find("hello\nword\n/\noops\ntroupe: program exited with status 0\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(who_is_killed_is_started_again) {
  Ear ear;
  ProcessSupervisorOptions o;
  o.processes = {Shell("a", "echo up; sleep 1000")};
  o.on_line = ear.Listener();
  auto s = ProcessSupervisor::Start(o);
  BOOST_REQUIRE(s.ok());
  BOOST_TEST(ear.Hears("a.1 up"));
  const int64_t first = PidOf(**s, "a");
  BOOST_TEST((*s)->Signal("a", SIGKILL).ok());
  BOOST_TEST(ear.Hears("a.2 up"));
  BOOST_TEST(IsGone(first));
  const auto status = (*s)->status();
  BOOST_TEST(status->processes[0].restarts == 1);
  BOOST_TEST(status->processes[0].last_end == "was ended by signal 9 (Killed)");
  BOOST_TEST(absl::IsNotFound((*s)->Signal("b", SIGKILL)));
  BOOST_TEST(absl::IsInvalidArgument((*s)->Signal("a", 0)));
  BOOST_TEST((*s)->Stop(60s).ok());
  BOOST_TEST(absl::IsCancelled((*s)->status()->result));
}

BOOST_AUTO_TEST_CASE(a_stop_names_who_had_to_be_killed) {
  Ear ear;
  ProcessSupervisorOptions o;
  o.processes = {Shell("good", "echo up; exec sleep 1000"),
                 Shell("deaf", "trap '' TERM; echo up; sleep 1000; sleep 1000")};
  o.on_line = ear.Listener();
  auto s = ProcessSupervisor::Start(o);
  BOOST_REQUIRE(s.ok());
  BOOST_TEST((ear.Hears("good.1 up") && ear.Hears("deaf.1 up")));
  const int64_t deaf = PidOf(**s, "deaf");
  BOOST_TEST((*s)->Stop(2s).message() == "within 2000 ms these did not end, and were killed: deaf");
  BOOST_TEST(IsGone(deaf));
}

// No descriptor beside the standard ones, no signal ignored or blocked, a group of its own, and
// with it those that it started.
BOOST_AUTO_TEST_CASE(a_process_inherits_nothing_and_leaves_nothing) {
  const int open = ::open("/dev/null", O_RDONLY);  // not closed by exec
  ::signal(SIGPIPE, SIG_IGN);
  Ear ear;
  ProcessSupervisorOptions o;
  o.processes = {Shell("fds",
                       "ls /proc/self/fd | tr '\\n' ' '; echo; grep -E '^Sig(Ign|Blk)' /proc/self/status; "
                       "sleep 1000 & echo child $! $$ ; wc -c")};
  o.on_line = ear.Listener();
  auto s = ProcessSupervisor::Start(o);
  BOOST_REQUIRE(s.ok());
  BOOST_TEST((*s)->Wait(60s).value());
  ::signal(SIGPIPE, SIG_DFL);
  ::close(open);
  const std::string heard = ear.heard();
  // The fourth is that of ls itself.
  BOOST_TEST(heard.find("fds.1 0 1 2 3 ; ") != std::string::npos);
  BOOST_TEST(heard.find("SigBlk:\t0000000000000000") != std::string::npos);
  // An sh without a terminal lets its background jobs ignore SIGINT and SIGQUIT, not others.
  BOOST_TEST(heard.find("SigIgn:\t0000000000000000") != std::string::npos);
  BOOST_TEST(heard.find("fds.1 0; ") != std::string::npos);  // nothing comes in
  const size_t at = heard.find("child ");
  BOOST_REQUIRE(at != std::string::npos);
  BOOST_TEST(IsGone(std::stoll(heard.substr(at + 6))));
}

BOOST_AUTO_TEST_CASE(who_is_given_up_ends_the_others_and_is_told_with_its_last_line) {
  ProcessSupervisorOptions o;
  o.processes = {Shell("bad", "echo no such file; exit 4"), Shell("good", "sleep 1000")};
  o.processes[0].policy.most_restarts = 2;
  auto s = ProcessSupervisor::Start(o);
  BOOST_REQUIRE(s.ok());
  BOOST_TEST((*s)->Wait(60s).value());
  const auto status = (*s)->status();
  BOOST_TEST(status->result.message() ==
             "bad exited with status 4, after 2 restarts, and is given up; its last line: no such file");
  BOOST_TEST(ToString(status->processes[1].state) == "stopped");
}

BOOST_AUTO_TEST_CASE(processes_die_with_their_supervisor) {
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t supervisor = ::fork();
  BOOST_REQUIRE(supervisor >= 0);
  if (supervisor == 0) {
    Ear ear;
    ProcessSupervisorOptions o;
    o.processes = {Shell("a", "echo up; exec sleep 1000")};
    o.on_line = ear.Listener();
    auto s = ProcessSupervisor::Start(o);
    int64_t pid = -1;
    if (s.ok() && ear.Hears("a.1 up")) pid = PidOf(**s, "a");
    (void)!::write(ends[1], &pid, sizeof(pid));
    for (;;) ::pause();
  }
  ::close(ends[1]);
  int64_t pid = -1;
  BOOST_TEST(::read(ends[0], &pid, sizeof(pid)) == static_cast<ssize_t>(sizeof(pid)));
  ::close(ends[0]);
  BOOST_TEST(pid > 0);
  ::kill(supervisor, SIGKILL);
  ::waitpid(supervisor, nullptr, 0);
  // Nobody may be there to wait for the orphan: it may stay as a zombie, which does nothing.
  BOOST_TEST(Await([&] {
    std::ifstream stat(StrCat("/proc/", pid, "/stat"));
    std::string number, name, state;
    return !(stat >> number >> name >> state) || state == "Z";
  }));
}

BOOST_AUTO_TEST_CASE(a_hundred_starts_and_stops_leave_nothing) {
  const auto descriptors = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); };
  const auto threads = [] { return std::distance(fs::directory_iterator("/proc/self/task"), {}); };
  ProcessSupervisorOptions o;
  for (int i = 0; i < 3; ++i) o.processes.push_back(Shell(StrCat("p", i), i == 0 ? "exit 0" : "sleep 1000", i == 2));
  int64_t before = 0, threads_before = 0;
  for (int i = 0; i < 100; ++i) {
    {
      auto s = ProcessSupervisor::Start(o);
      BOOST_REQUIRE(s.ok());
      if (i % 3 == 0) BOOST_TEST((*s)->Stop(60s).ok());
    }
    if (i == 9) before = descriptors(), threads_before = threads();
  }
  BOOST_TEST(Await([&] { return threads() <= threads_before; }));
  BOOST_TEST(descriptors() <= before);
  BOOST_TEST(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left, not even a zombie
}

BOOST_AUTO_TEST_CASE(impossible_options_are_told) {
  const auto told = [](const ProcessSupervisorOptions& o) { return ProcessSupervisor::Start(o).status(); };
  ProcessSupervisorOptions o;
  BOOST_TEST(told(o).message() == "there is no process to supervise");
  o.processes = {Shell("a/b", "true")};
  BOOST_TEST(told(o).message() == "the name of a process is of letters, digits and ._:-, not 'a/b'");
  o.processes = {Shell("a", "true"), Shell("a", "true")};
  BOOST_TEST(told(o).message() == "two processes have the name a");
  o.processes.pop_back();
  o.processes[0].command = {"no_such_program_of_troupe"};
  BOOST_TEST(absl::IsNotFound(told(o)));
  BOOST_TEST(told(o).message().find("there is no program no_such_program_of_troupe in PATH") != std::string::npos);
  o.processes[0].command = {};
  BOOST_TEST(told(o).message() == "a has no command");
  o.processes[0].command = {"true"};
  o.processes[0].policy.jitter = 2;
  BOOST_TEST(absl::IsInvalidArgument(told(o)));
}

BOOST_AUTO_TEST_CASE(a_log_is_rotated_and_bounded) {
  Folder folder;
  fs::create_directories(folder.path);
  {
    RotatedLog log(folder.path + "/a.log", 10, 3);
    for (const char* text : {"12345\n", "6789\n", "abcdefghijklmnopqrstuvwxyz\n", "end\n"}) log.Append(text);
  }
  BOOST_TEST(folder.Read("a.log") == "end\n");
  BOOST_TEST(folder.Read("a.log.1") == "uvwxyz\n");
  BOOST_TEST(folder.Read("a.log.2") == "klmnopqrst");
  BOOST_TEST(!fs::exists(folder.path + "/a.log.3"));
  {
    // One that is there is continued.
    RotatedLog log(folder.path + "/a.log", 10, 3);
    log.Append("more\n");
  }
  BOOST_TEST(folder.Read("a.log") == "end\nmore\n");
  {
    RotatedLog log(folder.path + "/b.log", 10, 1);
    for (int i = 0; i < 5; ++i) log.Append("123456\n");
  }
  BOOST_TEST(folder.Read("b.log") == "123456\n");
  BOOST_TEST(!fs::exists(folder.path + "/b.log.1"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace process_supervisor_test
}  // namespace troupe
