// One task of a cluster, as a node of the network: it greets the servers of all other tasks, and
// knows which of them are alive. It has a runtime with the task's devices, and holds sessions for
// clients in other processes, which name it as SessionOptions.target.
//
// A server listens at its task's address. Each pair of servers has one connection, which the later
// of the two in the cluster's order makes, and makes again whenever it breaks. Both sides check
// protocol, cluster and task of the other; a process has a random incarnation, by which the others
// tell it from the one before. Who claims a task whose server is alive is refused.
//
// With certificates (ServerOptions.tls, troupe/tls.h) connections are encrypted, and both sides of
// each have proved that a CA of the cluster knows them: nobody else comes as far as a message.
// Without, the port is open to everybody who can reach it. So a server without TLS starts only
// where all addresses of the cluster are of the machine itself ("localhost", 127.0.0.0/8, "::1"),
// and the one that it listens at, too, unless ServerOptions.insecure says that the network is
// trusted.
//
// Thread rule: all methods are thread safe. Start, status, AwaitTasks, Stop, AskServer and the
// destructor block: not in an actor's handler (FAILED_PRECONDITION).
#ifndef TROUPE_SERVER_H_
#define TROUPE_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/cluster.h"
#include "troupe/export.h"
#include "troupe/runtime.h"
#include "troupe/status.h"
#include "troupe/tls.h"

namespace caf {
class actor_system;
class actor_system_config;
}  // namespace caf

namespace TROUPE_EXPORT troupe {

// Each server tells the others at each `interval` that it is alive. One that was silent for longer
// is suspected, then dead after `dead_after`. All times are longer for many tasks of one host (2000
// heartbeats a second), and the last one where silences turned out to be none. 10 ms up to a day.
struct HeartbeatPolicy {
  std::chrono::milliseconds interval{200};
  std::chrono::milliseconds suspect_after{300};
  std::chrono::milliseconds dead_after{390};
  // The others in the proportion of those above: who is silent is found within two intervals.
  static constexpr HeartbeatPolicy Of(std::chrono::milliseconds interval) {
    return {interval, interval * 3 / 2, interval * 39 / 20};
  }
};

// How a server calls another one. Times are at most a day.
struct ConnectPolicy {
  // Until the other side has accepted a connection and spoken, and until it has answered after.
  std::chrono::milliseconds timeout{1000};
  // The delay from one call to the next doubles from `min_delay` up to `max_delay`.
  std::chrono::milliseconds min_delay{20};
  std::chrono::milliseconds max_delay{500};
  double jitter = 0.2;  // the delay is off by at most this fraction
  int most_calls = 16;  // at the same time
};

// What a server gives to clients: sessions, at most so many.
struct ClientPolicy {
  int most_sessions = 1000;
  int most_sessions_of_client = 100;  // of one process
  int most_calls = 1000;              // of one session at the same time
  // A client that has been silent for so long, or a server, is taken for gone: the session ends.
  // A connection that the system closes is told at once. From 100 ms up to a day.
  std::chrono::milliseconds lease{20000};
};

struct ServerOptions {
  ServerSpec spec;
  // Devices and threads of the task. `tasks` is the server's own matter.
  RuntimeOptions runtime;
  ClientPolicy clients;
  // Whose certificates this server shows and accepts. Its clients, and all servers of the cluster,
  // use TLS then, too. By default what the environment says (TROUPE_TLS_*).
  TlsOptions tls;
  bool insecure = false;  // without TLS, also at addresses of other machines
  // The address of an interface to listen at; "": for a task of this machine that of its host, else
  // all interfaces. The port is that of the task's address in the cluster, where the others call.
  std::string bind;
  HeartbeatPolicy heartbeat;
  ConnectPolicy connect;
  // Big tensors pass between this server and others of its host, if these run as the same user, by
  // way of memory that both can read: 8 MiB for each server that it sends such tensors to, 32 at
  // most. Without it, and to other hosts, all goes through the connection.
  bool share_memory = true;
};

enum class TaskHealth : uint8_t {
  kAbsent,  // not seen so far
  kAlive,
  kSuspected,  // silent for too long, but not yet taken for dead
  kDead,
  kStopped,  // it said goodbye
};
std::string_view ToString(TaskHealth health);  // "alive"

struct TaskStatus {
  ClusterTask task;
  std::string address;
  TaskHealth health = TaskHealth::kAbsent;
  uint64_t incarnation = 0;  // the last one that was seen; 0: none
  int64_t since_ms = 0;      // how long it has been in this state
  int64_t silent_ms = 0;     // since it was heard last; of tasks that are up
  std::string why;           // of tasks that are not up: what happened last
};

// A session that a server holds for a client.
struct SessionStatus {
  std::string client;    // SessionOptions.client_name
  int64_t calls = 0;     // under way
  int64_t since_ms = 0;  // since it was opened
};

// How a server sees the cluster, and what it holds.
struct ServerStatus {
  ClusterTask task;  // its own
  std::string address;
  uint64_t incarnation = 0, cluster = 0;
  std::vector<TaskStatus> others;       // in the order of the cluster
  std::vector<DeviceStatus> devices;    // of the task
  std::vector<SessionStatus> sessions;  // of clients, the oldest first
  // Bytes of big tensors that this incarnation has sent to other servers, by the way they took.
  uint64_t tensor_bytes_in_messages = 0, tensor_bytes_in_shared_memory = 0;
};

class Server {
 public:
  // In an actor system of its own. INVALID_ARGUMENT for impossible options; FAILED_PRECONDITION for
  // addresses of other machines with neither TLS nor `insecure`; UNAVAILABLE when its port cannot
  // be opened; errors of certificates as of UseTls.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  // In the caller's, which must outlive it, and which ConfigureServer has prepared.
  static absl::StatusOr<std::unique_ptr<Server>> StartIn(caf::actor_system& system, const ServerOptions& options);
  // Stops as Stop does within a second, unless it has; that is over within two. What then still
  // goes on ends in the background, and an actor system of its own with it.
  ~Server();

  // FAILED_PRECONDITION once it has stopped; UNAVAILABLE when it stops meanwhile.
  absl::StatusOr<ServerStatus> status() const;
  // Waits until these tasks, all others if none is named, are there, so that steps can use them:
  // one that goes again meanwhile is not. DEADLINE_EXCEEDED names those that are missing; NOT_FOUND
  // for a task that the cluster does not have; UNAVAILABLE when the server stops.
  absl::Status AwaitTasks(const std::vector<ClusterTask>& tasks, std::chrono::milliseconds at_most) const;
  // Where its port is open: "127.0.0.1:2222"; "*:2222" for all interfaces.
  std::string listens_at() const;
  // For clients, as SessionOptions.target: "troupe://127.0.0.1:2222".
  std::string target() const;
  // That of the task. Its sessions (SessionOptions.runtime) are in this process, and outlive Stop.
  // The server's threads end with the last share of the runtime: those that compute
  // (RuntimeOptions.threads), two of CAF's scheduler for all who are in control, and one each for
  // the network, CAF's clock and printer, deadlines, and for compiling while that goes on; until
  // Stop one more for the port.
  std::shared_ptr<Runtime> runtime() const;
  // Ends the clients' sessions, says goodbye to the others, waits until they know, and closes the
  // port. DEADLINE_EXCEEDED names
  // the tasks that did not answer, of those that are up or were being greeted, and what of the
  // server itself has not ended, which then ends in the background. It may take half a second and a
  // little longer than `at_most`, of which more than a day is a day. The next calls return what the
  // first did.
  absl::Status Stop(std::chrono::milliseconds at_most);

  struct TROUPE_HIDDEN Impl;
  Impl* impl() const { return impl_.get(); }
  explicit Server(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

// For Server::StartIn: lets the messages of servers pass between nodes, and loads and sets up CAF's
// middleman. To be called before the actor system is made.
void ConfigureServer(caf::actor_system_config* config);

// What the server at this address says, by way of TLS if this process uses it (UseTls).
// DEADLINE_EXCEEDED, or UNAVAILABLE with the reason, when none answers in `at_most` (and a day);
// the look-up of a name may take longer, and each of the parts has 100 ms.
absl::StatusOr<ServerStatus> AskServer(const HostPort& address, std::chrono::milliseconds at_most);

}  // namespace troupe

#endif  // TROUPE_SERVER_H_
