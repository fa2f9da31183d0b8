// troupe cluster status, logs and down: what runs in a folder, by what stands there.
#include <poll.h>
#include <unistd.h>

// The header of glibc 2.36 is one for C.
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include "net/json.h"
#include "tools/troupe/cluster_folder.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"
#include "tools/troupe/value_text.h"

namespace troupe::tool {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string TextOf(const JsonValue& object, const char* key) {
  const JsonValue* const v = object.Find(key);
  return v == nullptr ? "" : v->text;
}

// As it was when its process wrote it last.
void PrintState(const ClusterSeen& seen, const JsonValue& state, const std::string& dir) {
  const std::string how = TextOf(state, "state");
  if (seen.pid != 0) {
    Print(StrCat("process ", seen.pid, " runs a cluster in ", dir, "; it is ", how, "\n"));
  } else if (how == "over") {
    const std::string why = TextOf(state, "why");
    Print(StrCat("the cluster in ", dir, " is over: ", TextOf(state, "result"), why.empty() ? "" : ": ", why, "\n"));
  } else {
    Print(StrCat("process ", TextOf(state, "pid"), ", which ran the cluster in ", dir,
                 ", is gone, and its processes with it; it was ", how, "\n"));
  }
  const JsonValue* const processes = state.Find("processes");
  if (processes == nullptr) return;
  for (const JsonValue& p : processes->items) {
    const std::string last_end = TextOf(p, "last_end");
    std::string report;
    if (const JsonValue* const r = p.Find("report"); r != nullptr) {
      for (const auto& [key, value] : r->members) StrAppend(&report, ", ", key, " ", value.text);
    }
    Print(StrCat("  ", TextOf(p, "name"), " at ", TextOf(p, "address"), ": ", TextOf(p, "state"), ", process ",
                 TextOf(p, "pid"), ", incarnation ", TextOf(p, "incarnation"), ", ", TextOf(p, "restarts"), " restarts",
                 report, last_end.empty() ? "" : "; the last one ", last_end, "\n"));
  }
}

// The last lines of a file.
absl::Status PrintTail(const std::string& path, int most, const std::string& before) {
  std::ifstream file(path);
  if (!file) return NotFound("there is no log ", path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::move(line));
    if (lines.size() > static_cast<size_t>(most)) lines.pop_front();
  }
  for (const std::string& line : lines) Print(StrCat(before, line, "\n"));
  return absl::OkStatus();
}

}  // namespace

int ClusterStatusCommand(const ClusterAskFlags& flags) {
  const auto seen = LookAtCluster(flags.dir);
  if (!seen.ok()) return Complain(kFailed, seen.status());
  if (seen->state.empty()) return Complain(kFailed, StrCat("process ", seen->pid, " has not yet begun; ask again"));
  const auto state = ParseJson(seen->state);
  if (!state.ok()) return Complain(kFailed, Annotate(state.status(), flags.dir + "/state.json"));
  if (flags.json) {
    Print(StrCat("{\"alive\": ", seen->pid != 0 ? "true" : "false", ", \"cluster\": ", seen->state, "}\n"));
  } else {
    PrintState(*seen, *state, flags.dir);
  }
  return seen->pid != 0 || TextOf(*state, "state") == "over" ? kOk : kFailed;
}

int ClusterLogsCommand(const ClusterAskFlags& flags) {
  const auto seen = LookAtCluster(flags.dir);
  if (!seen.ok()) return Complain(kFailed, seen.status());
  const std::string folder = flags.dir + "/logs";
  if (!flags.task.empty()) {
    if (flags.task.find('/') != std::string::npos) return Complain(kUsage, StrCat("'", flags.task, "' is no task"));
    const absl::Status printed = PrintTail(StrCat(folder, "/", flags.task, ".log"), flags.lines, "");
    return printed.ok() ? kOk : Complain(kFailed, printed);
  }
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".log") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const absl::Status printed = PrintTail(StrCat(folder, "/", name, ".log"), flags.lines, StrCat(name, "  "));
    if (!printed.ok()) return Complain(kFailed, printed);
  }
  return kOk;
}

int ClusterDownCommand(const ClusterAskFlags& flags) {
  const auto seen = LookAtCluster(flags.dir);
  if (!seen.ok()) return Complain(kFailed, seen.status());
  if (seen->pid == 0) return Complain(kFailed, NotFound("no cluster runs in ", flags.dir));
  // Whoever has that number when the lock is still held afterwards, is who holds it.
  const int process = ::pidfd_open(static_cast<pid_t>(seen->pid), 0);
  const auto again = LookAtCluster(flags.dir);
  if (process < 0 || !again.ok() || again->pid != seen->pid) {
    if (process >= 0) ::close(process);
    return Complain(kFailed, NotFound("the cluster in ", flags.dir, " has just ended"));
  }
  const bool sent = ::pidfd_send_signal(process, SIGTERM, nullptr, 0) == 0;
  const int error = errno;
  ::close(process);
  if (!sent)
    return Complain(kFailed,
                    FailedPrecondition("process ", seen->pid, " cannot be told to end: ", std::strerror(error)));
  for (const auto end = Clock::now() + milliseconds(flags.timeout_ms); Clock::now() < end;) {
    const auto now = LookAtCluster(flags.dir);
    if (!now.ok() || now->pid != seen->pid) {
      Print(StrCat("the cluster in ", flags.dir, " has ended\n"));
      return kOk;
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  return Complain(kFailed, DeadlineExceeded("process ", seen->pid, " has not ended within ", flags.timeout_ms, " ms"));
}

int ClusterCertificateCommand(const ClusterAskFlags& flags) {
  const absl::Status made = MakeClusterCertificate(flags.certificate);
  if (!made.ok()) return Complain(kFailed, made);
  Print(StrCat("made ca.crt, node.crt and node.key in ", flags.certificate, "\n"));
  return kOk;
}

}  // namespace troupe::tool
