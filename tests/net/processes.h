// Ports and processes for tests of servers.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_NET_PROCESSES_H_
#define TROUPE_TESTS_NET_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "troupe/server.h"

namespace troupe {

// Ports of the loopback interface that nobody has now.
std::vector<int> FreePorts(int count);
// "ps=127.0.0.1:1;worker=127.0.0.1:2,127.0.0.1:3" with one ps and free ports.
std::string LocalCluster(int workers);
HostPort AddressIn(const std::string& cluster, const std::string& job, int task);

// Whether it became true within the time.
bool Await(const std::function<bool()>& what, std::chrono::milliseconds at_most = std::chrono::seconds(60));
// How the server at this address sees a task: "alive", or why nothing is known.
std::string HealthAt(const HostPort& server, const ClusterTask& task, uint64_t* incarnation = nullptr,
                     std::string* why = nullptr);

// A process of a program, `troupe` if none is named, which is killed with this object.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const std::string& program = "");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  // The next line of its output; "" when there is none within a minute.
  std::string Line();
  // After SIGSTOP, when all its threads stand still: on a busy machine they run on for a while.
  void Signal(int signal);
  // Its exit status, or minus the signal that ended it; -1000 when it goes on for a minute.
  int Wait();
  std::string errors() const;  // what it wrote to stderr so far
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string read_, errors_;  // `errors_`: the path of a file
};

}  // namespace troupe

#endif  // TROUPE_TESTS_NET_PROCESSES_H_
