// The subcommands of the program `troupe`. main.cc reads the command line into these structs; each
// command has a file of its own.
#ifndef TROUPE_TOOLS_TROUPE_COMMANDS_H_
#define TROUPE_TOOLS_TROUPE_COMMANDS_H_

#include <string>
#include <vector>

#include "troupe/status.h"
#include "troupe/tls.h"

namespace troupe::tool {

// How the program ends.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;      // the reason stands on stderr
inline constexpr int kUsage = 2;       // the command line makes no sense
inline constexpr int kUnknownOps = 3;  // what is to be run needs ops that do not exist here; all are listed

// Files for encrypted connections; none: what the environment says.
struct TlsFlags {
  std::string certificate, key;
  std::string ca;  // a file or a folder
  std::string passphrase_file, peer_name;
};
TlsOptions ToOptions(const TlsFlags& flags);

struct RunFlags {
  std::string graph;                 // a GraphDef, or the folder of a SavedModel
  std::string signature;             // of a SavedModel; "": see LoadSavedModel
  std::vector<std::string> tags;     // of a SavedModel; empty: "serve"
  std::vector<std::string> feeds;    // NAME=VALUE or NAME=@FILE.npy
  std::vector<std::string> fetches;  // NAME[:PORT]
  std::vector<std::string> targets;
  std::vector<std::string> inits;  // each a target of a step of its own, before all others
  std::string out;                 // folder for .npy files
  std::string trace;               // file
  std::string server;              // as SessionOptions::target; "": in this process
  TlsFlags tls;                    // of the connection there
  int repeat = 0;
  int threads = 0;
  int64_t timeout_ms = 0;    // of each step; 0 = none
  int64_t memory_limit = 0;  // bytes of tensors; 0 = none
  bool memory = false;       // tell the peak, predicted and measured
  bool check_numerics = false;
  std::string numerics_folder;
  bool json = false;
  bool full = false;  // print every element
};
int RunCommand(const RunFlags& flags);

struct TuneFlags {
  RunFlags run;                     // graph, signature, tags, feeds, fetches, targets, inits, threads
  std::vector<std::string> shapes;  // NAME=SIZE,SIZE,...: fed with numbers of our own
  std::string cache;                // a file of choices; "": none
  bool same_bits = false;           // among the ways that have the bits of the fixed choice
  int most_runs = 1000;
  bool json = false;
};
// Runs a graph until it is known which way each of its products and convolutions takes, and prints
// that.
int TuneCommand(const TuneFlags& flags);

struct OpsFlags {
  std::vector<std::string> names;  // empty: all
  bool names_only = false;
};
int OpsCommand(const OpsFlags& flags);

struct GraphFlags {
  std::string graph;
  std::vector<std::string> passes;  // in order
  std::vector<std::string> feeds, fetches, targets;
  bool dot = false;
};
int GraphCommand(const GraphFlags& flags);

struct CheckpointFlags {
  std::string checkpoint;            // prefix, or a folder
  std::vector<std::string> names;    // whose values are printed
  std::string against;               // another checkpoint, to compare with
  std::vector<std::string> renames;  // OLD=NEW
  std::string out;                   // prefix of a copy
  bool full = false;                 // print every element
};
// Ends with kFailed, too, when two that are compared differ.
int CheckpointCommand(const CheckpointFlags& flags);

struct ServeFlags {
  std::string cluster;  // as ClusterSpec::FromFlagsOrFile reads it
  std::string job;
  int task = -1;
  std::string from;       // "tf_config", "slurm", or "": the three above
  int slurm_port = 8888;  // of the first task of each node
  std::string bind;       // address of an interface; "": see ServerOptions
  TlsFlags tls;
  bool insecure = false;
  bool no_shared_memory = false;
  int threads = 0;           // 0: one for each hardware thread
  int64_t memory_limit = 0;  // 0: none
  int most_sessions = 1000;  // of clients
  int most_sessions_of_client = 100;
  int64_t heartbeat_ms = 0;  // 0: as HeartbeatPolicy has it
  int64_t stop_within_ms = 2000;
  bool json = false;
};
// Until SIGINT or SIGTERM.
int ServeCommand(const ServeFlags& flags);

struct StatusFlags {
  std::string address;  // host:port
  TlsFlags tls;
  int64_t timeout_ms = 5000;
  bool json = false;
  bool metrics = false;  // in the text form of Prometheus
};
int StatusCommand(const StatusFlags& flags);

struct ClusterUpFlags {
  std::string cluster;                // a file, "ps=HOST:PORT;...", or numbers of tasks, "ps=1;worker=2"
  std::vector<std::string> programs;  // JOB=COMMAND; other jobs are served
  std::vector<std::string> restarts;  // JOB=always, on-failure or never
  std::string dir = "troupe_cluster";
  bool tls = false;        // with a certificate that is made for this cluster
  int most_restarts = 10;  // of a process within a minute
  int64_t stop_within_ms = 10000;
  int threads = 0;                   // of each server
  int64_t heartbeat_ms = 0;          // of each server; 0: as it has it
  std::vector<std::string> kills;    // ROLE[:TASK]@STEP
  std::vector<std::string> freezes;  // ROLE[:TASK]@STEP[:MS]
  std::vector<std::string> joins;    // ROLE[:TASK]@STEP
  std::vector<std::string> leaves;   // ROLE[:TASK]@STEP
  bool json = false;
};
// Until the programs have ended, or SIGINT, SIGTERM or SIGHUP.
int ClusterUpCommand(const ClusterUpFlags& flags);

struct PlayFlags {
  std::string file;  // a topology
  std::string dir = "troupe_play";
  std::string part;                    // this process is this part of a topology that another one plays
  std::vector<std::string> libraries;  // as --load, for the processes of parts
  bool check = false;                  // print what would be started
  bool json = false;
};
// Until the programs of the topology have ended, or SIGINT, SIGTERM or SIGHUP.
int PlayCommand(const PlayFlags& flags);

struct ClusterAskFlags {
  std::string dir = "troupe_cluster";
  std::string task;  // of logs: "worker:0"; "": all
  int lines = 20;
  int64_t timeout_ms = 60000;  // of down
  std::string certificate;     // the folder to make one in
  bool json = false;
};
int ClusterStatusCommand(const ClusterAskFlags& flags);
int ClusterLogsCommand(const ClusterAskFlags& flags);
int ClusterDownCommand(const ClusterAskFlags& flags);
int ClusterCertificateCommand(const ClusterAskFlags& flags);

struct TraceFlags {
  std::vector<std::string> files;
  std::string out;   // a file for all of them together; "": none
  int64_t step = 0;  // of this one alone; 0: of all
  bool json = false;
};
int TraceCommand(const TraceFlags& flags);

// Opens shared libraries, whose ops and kernels register themselves. The status names the first
// that could not be opened, and why.
absl::Status LoadLibraries(const std::vector<std::string>& paths);

// Prints "troupe: <message>" to standard error and returns `code`.
int Complain(int code, const std::string& message);
// With kUnknownOps when the status is of that kind.
int Complain(int code, const absl::Status& status);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_COMMANDS_H_
