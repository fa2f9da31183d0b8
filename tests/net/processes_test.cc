// Servers as processes on the loopback interface: they find each other, are killed, stopped,
// started again and asked by the program `troupe`. And what the helpers of these tests do.
#include "tests/net/processes.h"

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

namespace troupe {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Not of those that the system gives to outgoing connections, which might take them meanwhile. Each
// is asked for once; test processes beside this one begin elsewhere.
std::vector<int> FreePorts(int count) {
  constexpr int kFirst = 10000, kPorts = 22000;
  static int next = static_cast<int>(::getpid() * int64_t{7919} % kPorts);
  std::vector<int> ports, sockets;
  for (int tries = 0; static_cast<int>(ports.size()) < count; ++tries) {
    BOOST_REQUIRE(tries < kPorts);
    const int port = kFirst + std::exchange(next, (next + 1) % kPorts);
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(static_cast<uint16_t>(port));
    sockets.push_back(s);
    if (::bind(s, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0) ports.push_back(port);
  }
  for (const int s : sockets) ::close(s);
  return ports;
}

std::string LocalCluster(int workers) {
  const std::vector<int> ports = FreePorts(1 + workers);
  std::string text = StrCat("ps=127.0.0.1:", ports[0]);
  for (int i = 1; i <= workers; ++i)
    StrAppend(&text, i == 1 ? ";worker=" : ",", "127.0.0.1:", ports[static_cast<size_t>(i)]);
  return text;
}

HostPort AddressIn(const std::string& cluster, const std::string& job, int task) {
  return ClusterSpec::FromFlags(cluster)->AddressOf({job, task}).value();
}

bool Await(const std::function<bool()>& what, std::chrono::milliseconds at_most) {
  for (const auto end = Clock::now() + at_most; Clock::now() < end; std::this_thread::sleep_for(10ms)) {
    if (what()) return true;
  }
  return what();
}

std::string HealthAt(const HostPort& server, const ClusterTask& task, uint64_t* incarnation, std::string* why) {
  const auto status = AskServer(server, 10s);
  if (!status.ok()) return std::string(status.status().message());
  for (const TaskStatus& t : status->others) {
    if (t.task != task) continue;
    if (incarnation != nullptr) *incarnation = t.incarnation;
    if (why != nullptr) *why = t.why;
    return std::string(ToString(t.health));
  }
  return "no such task";
}

Process::Process(const std::vector<std::string>& arguments, const std::string& program) {
  static int number = 0;
  errors_ = (std::filesystem::temp_directory_path() / StrCat("troupe_net_", ::getpid(), "_", ++number)).string();
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  std::vector<std::string> words{program.empty() ? TROUPE_PROGRAM : program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  BOOST_REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    const int file = ::open(errors_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  out_ = ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
  std::error_code ignored;
  std::filesystem::remove(errors_, ignored);
}

std::string Process::Line() {
  const auto end = Clock::now() + 60s;
  for (;;) {
    if (const size_t feed = read_.find('\n'); feed != std::string::npos) {
      const std::string line = read_.substr(0, feed);
      read_.erase(0, feed + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd p{out_, POLLIN, 0};
    char bytes[4096];
    if (left <= 0 || ::poll(&p, 1, static_cast<int>(left)) <= 0) return "";
    const ssize_t n = ::read(out_, bytes, sizeof(bytes));
    if (n <= 0) return "";
    read_.append(bytes, static_cast<size_t>(n));
  }
}

namespace {

bool StandsStill(pid_t process) {
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(StrCat("/proc/", process, "/task"), gone)) {
    std::ifstream file(thread.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    // The state is behind the name, which may have any characters.
    const size_t end = stat.rfind(") ");
    if (end != std::string::npos && stat[end + 2] != 'T') return false;
  }
  return true;
}

}  // namespace

void Process::Signal(int signal) {
  BOOST_REQUIRE(pid_ > 0);
  ::kill(pid_, signal);
  if (signal == SIGSTOP) BOOST_TEST(Await([this] { return StandsStill(pid_); }));
}

int Process::Wait() {
  int status = 0;
  if (pid_ <= 0 || !Await([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return -1000;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string Process::errors() const {
  std::ifstream file(errors_);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

namespace {

// Sparse enough that a busy machine takes nobody for dead.
constexpr int kBeatMs = 1000;

std::unique_ptr<Process> Serve(const std::string& cluster, const std::string& job, int task,
                               const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"serve",  "--cluster",  cluster,       "--job",        job,
                                     "--task", StrCat(task), "--heartbeat", StrCat(kBeatMs)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Process>(arguments);
}
bool Sees(const HostPort& server, const ClusterTask& task, const std::string& health) {
  return Await([&] { return HealthAt(server, task) == health; });
}

BOOST_AUTO_TEST_SUITE(processes)

BOOST_AUTO_TEST_CASE(a_killed_process_is_noticed_at_once_and_its_next_incarnation_is_found) {
  const std::string cluster = LocalCluster(2);
  const HostPort ps = AddressIn(cluster, "ps", 0), last = AddressIn(cluster, "worker", 1);
  const auto server = Serve(cluster, "ps", 0), other = Serve(cluster, "worker", 1);
  auto worker = Serve(cluster, "worker", 0);
  BOOST_TEST(
      server->Line().starts_with(StrCat("/job:ps/replica:0/task:0 is ready at ", ps.ToString(), ", incarnation ")));
  BOOST_TEST(worker->Line() != "");
  const ClusterTask task{"worker", 0};
  for (const HostPort& at : {ps, last}) BOOST_TEST(Sees(at, task, "alive"));
  uint64_t first = 0, second = 0;
  HealthAt(ps, task, &first);
  worker->Signal(SIGKILL);
  for (const HostPort& at : {ps, last}) BOOST_TEST(Sees(at, task, "dead"));
  // A closed connection is told by the system: no heartbeat has to be missed.
  std::string why;
  HealthAt(ps, task, nullptr, &why);
  BOOST_TEST(why.starts_with("task /job:worker/replica:0/task:0 is gone: "));
  BOOST_TEST(worker->Wait() == -SIGKILL);
  worker = Serve(cluster, "worker", 0);
  for (const HostPort& at : {ps, last}) BOOST_TEST(Sees(at, task, "alive"));
  HealthAt(last, task, &second);
  BOOST_TEST(first != second);
  BOOST_TEST(Sees(ps, {"worker", 1}, "alive"));
}

BOOST_AUTO_TEST_CASE(a_stopped_process_is_taken_for_dead_and_goes_on_later) {
  const std::string cluster = LocalCluster(1);
  const HostPort ps = AddressIn(cluster, "ps", 0);
  const auto server = Serve(cluster, "ps", 0), worker = Serve(cluster, "worker", 0);
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  uint64_t first = 0, second = 0;
  HealthAt(ps, {"worker", 0}, &first);
  worker->Signal(SIGSTOP);
  BOOST_TEST(Sees(ps, {"worker", 0}, "dead"));
  // How soon is the subject of tests whose clock is their own.
  std::string why;
  HealthAt(ps, {"worker", 0}, nullptr, &why);
  BOOST_TEST(why.starts_with("task /job:worker/replica:0/task:0 is taken for dead: it was silent for "));
  worker->Signal(SIGCONT);
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  HealthAt(ps, {"worker", 0}, &second);
  BOOST_TEST(first == second);
}

BOOST_AUTO_TEST_CASE(who_is_told_to_end_says_goodbye) {
  const std::string cluster = LocalCluster(1);
  const HostPort ps = AddressIn(cluster, "ps", 0);
  const auto server = Serve(cluster, "ps", 0, {"--stop_within", "60000"});
  const auto worker = Serve(cluster, "worker", 0, {"--json", "--stop_within", "60000"});
  const std::string line = worker->Line();
  BOOST_TEST(line.starts_with("{\"task\": \"/job:worker/replica:0/task:0\", \"address\": \"127.0.0.1:"));
  BOOST_TEST(line.ends_with(StrCat("\"pid\": ", static_cast<int64_t>(worker->pid()), "}")));
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  worker->Signal(SIGTERM);
  BOOST_TEST(worker->Wait() == 0);
  BOOST_TEST(HealthAt(ps, {"worker", 0}) == "stopped");
  server->Signal(SIGINT);
  BOOST_TEST(server->Wait() == 0);
}

BOOST_AUTO_TEST_CASE(a_goodbye_that_nobody_answers_names_who_did_not) {
  const std::string cluster = LocalCluster(1);
  const auto server = Serve(cluster, "ps", 0), worker = Serve(cluster, "worker", 0, {"--stop_within", "100"});
  BOOST_TEST(Sees(AddressIn(cluster, "worker", 0), {"ps", 0}, "alive"));
  server->Signal(SIGSTOP);
  worker->Signal(SIGTERM);
  BOOST_TEST(worker->Wait() == 1, worker->errors());
  BOOST_TEST(worker->errors().find("DEADLINE_EXCEEDED: after 100 ms these are still alive: /job:ps/replica:0/task:0") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_second_process_for_a_live_task_is_refused) {
  const std::string cluster = LocalCluster(1);
  const HostPort ps = AddressIn(cluster, "ps", 0), worker = AddressIn(cluster, "worker", 0);
  const auto server = Serve(cluster, "ps", 0), first = Serve(cluster, "worker", 0);
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  uint64_t before = 0, after = 0;
  HealthAt(ps, {"worker", 0}, &before);
  // At the same address it finds the port taken.
  const auto second = Serve(cluster, "worker", 0);
  BOOST_TEST(second->Wait() == 1);
  BOOST_TEST(second->errors().find("/job:worker/replica:0/task:0 cannot listen at 127.0.0.1:") != std::string::npos);
  // At another one, the other tasks refuse it.
  const HostPort elsewhere{"127.0.0.2", worker.port};
  const auto third = Serve(cluster, "worker", 0, {"--bind", "127.0.0.2"});
  BOOST_TEST(third->Line().starts_with(
      StrCat("/job:worker/replica:0/task:0 is ready at ", elsewhere.ToString(), ", incarnation ")));
  std::string why;
  BOOST_TEST(Await([&] {
    const auto status = AskServer(elsewhere, 10s);
    if (status.ok()) why = status->others.at(0).why;
    return why.find("is alive already") != std::string::npos;
  }));
  BOOST_TEST(why.starts_with(StrCat("task /job:worker/replica:0/task:0 is alive already, as incarnation ", before)));
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  (void)HealthAt(ps, {"worker", 0}, &after);
  BOOST_TEST(before == after);
}

BOOST_AUTO_TEST_CASE(troupe_status_prints_what_a_server_sees) {
  const std::string cluster = LocalCluster(2);
  const HostPort ps = AddressIn(cluster, "ps", 0);
  const auto server = Serve(cluster, "ps", 0), worker = Serve(cluster, "worker", 0);
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  Process status({"status", ps.ToString()});
  BOOST_TEST(status.Line().starts_with(StrCat("/job:ps/replica:0/task:0 at ", ps.ToString(), ", incarnation ")));
  BOOST_TEST(status.Line().starts_with(
      StrCat("  /job:worker/replica:0/task:0 at ", AddressIn(cluster, "worker", 0).ToString(), ": alive for ")));
  BOOST_TEST(status.Line().starts_with(
      StrCat("  /job:worker/replica:0/task:1 at ", AddressIn(cluster, "worker", 1).ToString(), ": absent for ")));
  BOOST_TEST(status.Wait() == 0);
  Process json({"status", "--json", ps.ToString()});
  BOOST_TEST(json.Line().starts_with("{\"task\": \"/job:ps/replica:0/task:0\", "));
  BOOST_TEST(json.Wait() == 0);
  Process metrics({"status", "--metrics", ps.ToString()});
  std::string page;
  for (std::string line = metrics.Line(); !line.empty(); line = metrics.Line()) page += line + "\n";
  BOOST_TEST(metrics.Wait() == 0);
  const std::string task = "{task=\"/job:ps/replica:0/task:0\"";
  for (const std::string& line :
       {StrCat("# TYPE troupe_peer_up gauge\ntroupe_peer_up", task,
               ",peer=\"/job:worker/replica:0/task:0\"} 1\ntroupe_peer_up", task,
               ",peer=\"/job:worker/replica:0/task:1\"} 0\n"),
        StrCat("troupe_device_memory_bytes", task, ",device=\"/job:ps/replica:0/task:0/device:CPU:0\",type=\"CPU\"} "),
        StrCat("troupe_sessions", task, "} 0\n"),
        StrCat("# TYPE troupe_tensor_sent_bytes_total counter\ntroupe_tensor_sent_bytes_total", task,
               ",way=\"messages\"} 0\ntroupe_tensor_sent_bytes_total", task, ",way=\"shared_memory\"} 0\n")}) {
    BOOST_TEST_INFO(page);
    BOOST_TEST(page.find(line) != std::string::npos);
  }
  Process nobody({"status", AddressIn(cluster, "worker", 1).ToString()});
  BOOST_TEST(nobody.Wait() == 1);
  BOOST_TEST(nobody.errors().find("UNAVAILABLE: ") != std::string::npos);
}

// A connection to the port; -1 when there is none.
int Connect(const HostPort& address) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(address.port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  BOOST_REQUIRE(::connect(s, reinterpret_cast<sockaddr*>(&where), sizeof(where)) == 0);
  return s;
}

BOOST_AUTO_TEST_CASE(garbage_and_silence_at_the_port_hurt_nobody) {
  const std::string cluster = LocalCluster(1);
  const HostPort ps = AddressIn(cluster, "ps", 0);
  const auto server = Serve(cluster, "ps", 0), worker = Serve(cluster, "worker", 0);
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  uint64_t before = 0;
  (void)HealthAt(ps, {"worker", 0}, &before);
  std::vector<int> open;
  for (int i = 0; i < 20; ++i) {
    open.push_back(Connect(ps));
    if (i % 2 == 0) continue;  // says nothing at all
    const std::string garbage(static_cast<size_t>(i) * 7, static_cast<char>('a' + i));
    (void)!::send(open.back(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  // The same as before: a beat may be late on a busy machine, but nobody was taken for dead.
  uint64_t after = 0;
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  for (const int s : open) ::close(s);
  BOOST_TEST(Sees(ps, {"worker", 0}, "alive"));
  (void)HealthAt(ps, {"worker", 0}, &after);
  BOOST_TEST(after != 0u);
  BOOST_TEST(after == before);
}

BOOST_AUTO_TEST_CASE(wrong_command_lines_are_told) {
  const auto told = [](const std::vector<std::string>& arguments, int status) {
    Process p(arguments);
    BOOST_TEST(p.Wait() == status);
    return p.errors();
  };
  BOOST_TEST(told({"serve"}, 2) == "troupe: INVALID_ARGUMENT: name --cluster, --job and --task, or --from\n");
  BOOST_TEST(told({"serve", "--cluster", "ps=a", "--job", "ps", "--task", "0"}, 2) ==
             "troupe: INVALID_ARGUMENT: cluster, column 4: the address 'a' is not host:port: there is no port\n");
  BOOST_TEST(told({"serve", "--cluster", "ps=a:1", "--job", "ps", "--task", "1"}, 1) ==
             "troupe: NOT_FOUND: job 'ps' has no task 1; it has: 0\n");
  BOOST_TEST(told({"serve", "--cluster", "ps=a:1", "--job", "ps", "--task", "0"}, 1)
                 .starts_with("troupe: FAILED_PRECONDITION: the address a:1 of /job:ps/replica:0/task:0 is not of this "
                              "machine alone, and "));
  BOOST_TEST(told({"serve", "--cluster", "ps=localhost:1", "--job", "ps", "--task", "0", "--bind", "0.0.0.0"}, 1)
                 .starts_with("troupe: FAILED_PRECONDITION: the address 0.0.0.0 to listen at (--bind) is not of this "
                              "machine alone, and "));
  BOOST_TEST(told({"status", "a"}, 2) ==
             "troupe: INVALID_ARGUMENT: the address 'a' is not host:port: there is no port\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
