// troupe serve: one task of a cluster; troupe status: what a server sees of its cluster.
#include <csignal>
#include <filesystem>

#include <unistd.h>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "tools/troupe/commands.h"
#include "tools/troupe/metrics.h"
#include "tools/troupe/output.h"
#include "tools/troupe/value_text.h"
#include "troupe/server.h"

namespace troupe::tool {
namespace {

using std::chrono::milliseconds;

absl::StatusOr<ServerSpec> ReadSpec(const ServeFlags& flags) {
  if (flags.from == "tf_config") return ServerSpecFromTfConfig(ProcessVariables());
  if (flags.from == "slurm") return ServerSpecFromSlurm({{}, flags.slurm_port}, ProcessVariables());
  if (flags.cluster.empty() || flags.job.empty() || flags.task < 0)
    return InvalidArgument("name --cluster, --job and --task, or --from");
  ServerSpec spec;
  spec.task = {flags.job, flags.task};
  TROUPE_ASSIGN_OR_RETURN(spec.cluster, ClusterSpec::FromFlagsOrFile(flags.cluster));
  return spec;
}

std::string OthersAsJson(const ServerStatus& s) {
  std::string text;
  for (const TaskStatus& t : s.others) {
    StrAppend(&text, text.empty() ? "" : ",", "\n  {\"task\": ", JsonString(t.task.ToString()),
              ", \"address\": ", JsonString(t.address), ", \"health\": \"", ToString(t.health),
              "\", \"incarnation\": \"", t.incarnation, "\", \"since_ms\": ", t.since_ms,
              ", \"silent_ms\": ", t.silent_ms, ", \"why\": ", JsonString(t.why), "}");
  }
  return text;
}

std::string DevicesAsJson(const ServerStatus& s) {
  std::string text;
  for (const DeviceStatus& d : s.devices) {
    StrAppend(&text, text.empty() ? "" : ", ", "{\"name\": ", JsonString(d.name), ", \"type\": ", JsonString(d.type),
              ", \"incarnation\": \"", d.incarnation, "\", \"bytes_in_use\": ", d.memory.bytes_in_use,
              ", \"bytes_limit\": ", d.memory.bytes_limit, "}");
  }
  return text;
}
std::string SessionsAsJson(const ServerStatus& s) {
  std::string text;
  for (const SessionStatus& each : s.sessions) {
    StrAppend(&text, text.empty() ? "" : ", ", "{\"client\": ", JsonString(each.client), ", \"calls\": ", each.calls,
              ", \"since_ms\": ", each.since_ms, "}");
  }
  return text;
}
std::string DeviceNames(const ServerStatus& s) {
  std::vector<std::string> names;
  for (const DeviceStatus& d : s.devices) names.push_back(d.name);
  return StrJoin(names, ", ");
}

// A number that needs all 64 bits is a string in JSON, whose readers keep 53.
std::string HeadAsJson(const ServerStatus& s) {
  return StrCat("\"task\": ", JsonString(s.task.ToString()), ", \"address\": ", JsonString(s.address),
                ", \"incarnation\": \"", s.incarnation, "\", \"cluster\": \"", s.cluster, "\"");
}

}  // namespace

TlsOptions ToOptions(const TlsFlags& flags) {
  TlsOptions o;
  o.certificate = flags.certificate;
  o.key = flags.key;
  std::error_code error;
  (std::filesystem::is_directory(flags.ca, error) ? o.ca_folder : o.ca_file) = flags.ca;
  o.passphrase_file = flags.passphrase_file;
  o.peer_name = flags.peer_name;
  return o;
}

int ServeCommand(const ServeFlags& flags) {
  absl::StatusOr<ServerSpec> spec = ReadSpec(flags);
  if (!spec.ok()) return Complain(kUsage, spec.status());
  ServerOptions options;
  options.spec = *std::move(spec);
  options.tls = ToOptions(flags.tls);
  options.insecure = flags.insecure;
  options.share_memory = !flags.no_shared_memory;
  options.bind = flags.bind;
  options.runtime.threads = flags.threads;
  options.runtime.memory_limit = flags.memory_limit;
  options.clients.most_sessions = flags.most_sessions;
  options.clients.most_sessions_of_client = flags.most_sessions_of_client;
  if (flags.heartbeat_ms > 0) options.heartbeat = HeartbeatPolicy::Of(milliseconds(flags.heartbeat_ms));
  // Standard output has the one line.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("troupe"));
  // No thread of the server takes them: they wait for sigwait.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  auto server = Server::Start(options);
  if (!server.ok()) return Complain(kFailed, server.status());
  const absl::StatusOr<ServerStatus> status = (*server)->status();
  if (!status.ok()) return Complain(kFailed, status.status());
  if (flags.json) {
    Print(StrCat("{", HeadAsJson(*status), ", \"listens_at\": ", JsonString((*server)->listens_at()),
                 ", \"devices\": [", DevicesAsJson(*status), "], \"pid\": ", static_cast<int64_t>(::getpid()), "}\n"));
  } else {
    Print(StrCat(status->task.ToString(), " is ready at ", (*server)->listens_at(), ", incarnation ",
                 status->incarnation, ", devices ", DeviceNames(*status), "\n"));
  }
  if (const absl::Status printed = FinishPrinting(); !printed.ok()) return Complain(kFailed, printed);
  int signal = 0;
  sigwait(&ends, &signal);
  const absl::Status stopped = (*server)->Stop(milliseconds(flags.stop_within_ms));
  return stopped.ok() ? kOk : Complain(kFailed, stopped);
}

int StatusCommand(const StatusFlags& flags) {
  const absl::StatusOr<HostPort> address = HostPort::Parse(flags.address);
  if (!address.ok()) return Complain(kUsage, address.status());
  if (const absl::Status tls = UseTls(ToOptions(flags.tls)); !tls.ok()) return Complain(kFailed, tls);
  const absl::StatusOr<ServerStatus> status = AskServer(*address, milliseconds(flags.timeout_ms));
  if (!status.ok()) return Complain(kFailed, status.status());
  if (flags.metrics) {
    Print(MetricsText(*status));
    return kOk;
  }
  if (flags.json) {
    Print(StrCat("{\"task\": ", JsonString(status->task.ToString()), ", \"address\": ", JsonString(status->address),
                 ", \"incarnation\": \"", status->incarnation, "\", \"cluster\": \"", status->cluster,
                 "\", \"devices\": [", DevicesAsJson(*status), "], \"sessions\": [", SessionsAsJson(*status),
                 "], \"others\": [", OthersAsJson(*status), "]}\n"));
    return kOk;
  }
  Print(StrCat(status->task.ToString(), " at ", status->address, ", incarnation ", status->incarnation, ", sees\n"));
  for (const TaskStatus& t : status->others) {
    Print(StrCat("  ", t.task.ToString(), " at ", t.address, ": ", ToString(t.health), " for ", t.since_ms, " ms",
                 t.incarnation == 0 ? "" : StrCat(", incarnation ", t.incarnation), t.why.empty() ? "" : "; ", t.why,
                 "\n"));
  }
  for (const DeviceStatus& d : status->devices) {
    Print(StrCat("  device ", d.name, " (", d.type, "): ", d.memory.bytes_in_use, " bytes in use",
                 d.memory.bytes_limit > 0 ? StrCat(" of ", d.memory.bytes_limit) : "", "\n"));
  }
  for (const SessionStatus& each : status->sessions) {
    Print(StrCat("  session of ", each.client.empty() ? "a client without a name" : each.client, " for ", each.since_ms,
                 " ms, ", each.calls, each.calls == 1 ? " call" : " calls", " under way\n"));
  }
  return kOk;
}

}  // namespace troupe::tool
