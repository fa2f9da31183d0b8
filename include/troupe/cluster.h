// Which tasks a cluster has, and at which address each of them listens.
//
// A cluster has jobs ("ps", "worker"), a job has tasks, and a task is one process. Tasks have
// numbers, which may have gaps: a cluster can be told of task 3 alone. Specifications come from
// - text: a ClusterDef or ServerDef, as TensorFlow writes them,
// - flags: "ps=host:port,host:port;worker=host:port",
// - TF_CONFIG: JSON, with the task that this process is,
// - the variables of a Slurm step.
// What is wrong is an INVALID_ARGUMENT that names the place: line and column, or the variable.
//
// Source of the semantics: tf.train.ClusterSpec and TensorFlow's cluster resolvers.
// Thread rule: pure functions and plain values; FromFlagsOrFile reads a file.
#ifndef TROUPE_CLUSTER_H_
#define TROUPE_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

// One task of a job.
struct ClusterTask {
  std::string job;
  int index = 0;
  // "/job:worker/replica:0/task:1", as devices and runtimes name it.
  std::string ToString() const;
  friend bool operator==(const ClusterTask& a, const ClusterTask& b) = default;
  friend auto operator<=>(const ClusterTask& a, const ClusterTask& b) = default;
};

// "host:port" or "[::1]:port" in its parts.
struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string ToString() const;
  // The machine itself, and nobody else: "localhost", 127.0.0.0/8, "::1". Looks up no names.
  bool IsLoopback() const;
  // INVALID_ARGUMENT says what is wrong. Port 0 is none.
  static absl::StatusOr<HostPort> Parse(std::string_view text);
};

class ClusterSpec {
 public:
  // A ClusterDef as text. The error names line and column.
  static absl::StatusOr<ClusterSpec> FromText(std::string_view text);
  // "ps=host:port,host:port;worker=host:port". Tasks are numbered from 0; after "3@host:port" from
  // there. The error names the column.
  static absl::StatusOr<ClusterSpec> FromFlags(std::string_view text);
  // What a user names: flags, which have a '='; else the path of a file (64 MiB at most) with a
  // ClusterDef as text, which has a brace, or with such flags. An error in a file names its path;
  // NOT_FOUND when it cannot be opened. Blocks while it reads.
  static absl::StatusOr<ClusterSpec> FromFlagsOrFile(const std::string& text);

  // INVALID_ARGUMENT when the job is no name ([A-Za-z][A-Za-z0-9_]*), the index not in 0 to
  // kMostIndex, or the address none; ALREADY_EXISTS when the task or the address is there.
  absl::Status Add(const ClusterTask& task, std::string_view address);

  bool empty() const { return tasks_.empty(); }
  // In order: by job, then by number. So each process has the same order.
  const std::map<ClusterTask, HostPort>& tasks() const { return tasks_; }
  // NOT_FOUND lists the tasks of the job, or the jobs.
  absl::StatusOr<HostPort> AddressOf(const ClusterTask& task) const;
  // The same for equal specifications, in whatever form they came, and hardly for others. No
  // secret: anybody can compute it.
  uint64_t Id() const;
  // As FromFlags reads it.
  std::string ToFlags() const;
  // As FromText reads it.
  std::string ToText() const;

  static constexpr int kMostIndex = 1 << 20;
  static constexpr size_t kMostTasks = 1 << 16;

 private:
  std::map<ClusterTask, HostPort> tasks_;
  std::map<std::string, ClusterTask> by_address_;
};

// What one process is told: the cluster, and which task of it the process is.
struct ServerSpec {
  ClusterSpec cluster;
  ClusterTask task;
};

// The value of an environment variable; nullopt when it is not set.
using ReadVariable = std::function<std::optional<std::string>(const char* name)>;
// The environment of this process.
ReadVariable ProcessVariables();

// A ServerDef as text; its task is one of its cluster. `protocol`, `port`, the session's
// configuration and device filters are read over.
absl::StatusOr<ServerSpec> ServerSpecFromText(std::string_view text);
// TF_CONFIG: {"cluster": {"ps": ["host:port"], "worker": {"3": "host:port"}},
//             "task": {"type": "worker", "index": 3}}.
// NOT_FOUND when the variable is not set.
absl::StatusOr<ServerSpec> ServerSpecFromTfConfig(const ReadVariable& read);

struct SlurmOptions {
  // The jobs in the order of Slurm's ranks, with the number of tasks of each. None: one job
  // "worker" of all tasks.
  std::vector<std::pair<std::string, int>> jobs;
  // The tasks of a node listen at this port and the next ones.
  int first_port = 8888;
};
// SLURM_JOB_NODELIST ("node[01-04,7],gpu[1-2]n[1-3]"), SLURM_NTASKS, SLURM_PROCID, and
// SLURM_TASKS_PER_NODE ("2(x3),1") where it is set; else the tasks are spread evenly, the first
// nodes having one more. NOT_FOUND when a variable is not set.
absl::StatusOr<ServerSpec> ServerSpecFromSlurm(const SlurmOptions& options, const ReadVariable& read);
// The hosts of such a list, in its order; the error names the column.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(std::string_view list);

}  // namespace troupe

#endif  // TROUPE_CLUSTER_H_
