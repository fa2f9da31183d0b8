// troupe play: the parts of a topology, as processes, until its programs have ended.
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "tools/troupe/cluster_folder.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"
#include "tools/troupe/value_text.h"
#include "troupe/play.h"

namespace troupe::tool {
namespace {

using play::PartStatus;
using play::PlayStatus;
using std::chrono::milliseconds;

constexpr milliseconds kStopWithin{10000};

// The form that `troupe cluster status` reads.
std::string StateJson(const PlayStatus& status) {
  std::string parts;
  for (const PartStatus& p : status.parts) {
    const ProcessStatus& process = p.process;
    StrAppend(&parts, parts.empty() ? "" : ", ", "{\"name\": ", JsonString(process.name), ", \"kind\": \"",
              play::ToString(p.kind), "\", \"address\": ", JsonString(p.address), ", \"state\": \"",
              ToString(process.state), "\", \"ready\": ", p.ready, ", \"pid\": ", process.pid,
              ", \"incarnation\": ", process.incarnation, ", \"restarts\": ", process.restarts,
              ", \"last_end\": ", JsonString(process.last_end), "}");
  }
  return StrCat("{\"pid\": ", static_cast<int64_t>(::getpid()), ", \"state\": \"",
                status.over       ? "over"
                : status.stopping ? "stopping"
                                  : "running",
                "\", \"result\": \"", absl::StatusCodeToString(status.result.code()),
                "\", \"why\": ", JsonString(std::string(status.result.message())), ", \"processes\": [", parts, "]}");
}

class PlayRun {
 public:
  PlayRun(const PlayFlags& flags, std::unique_ptr<ClusterFolder> folder) : flags_(flags), folder_(std::move(folder)) {}
  ~PlayRun() {
    if (signals_ >= 0) ::close(signals_);
  }
  absl::Status Start(const play::Topology& topology, const play::PlayOptions& options) {
    // No thread takes them, and no process inherits that.
    sigset_t ends;
    ::sigemptyset(&ends);
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, s);
    ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    signals_ = ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) return ResourceExhausted("no descriptor: ", std::strerror(errno));
    TROUPE_ASSIGN_OR_RETURN(play_, play::Play::Start(topology, options));
    return folder_->Write("topology.play", play_->topology().ToText());
  }
  absl::Status Go() {
    for (;;) {
      pollfd polled = {signals_, POLLIN, 0};
      ::poll(&polled, 1, 50);
      OnSignal();
      TROUPE_ASSIGN_OR_RETURN(const PlayStatus status, play_->status());
      TROUPE_RETURN_IF_ERROR(Show(status));
      if (status.over) return Finish(status);
      if (std::fflush(stdout) == 0 && PrintWorks()) continue;
      // Nobody reads any more what becomes of it.
      (void)play_->Stop(kStopWithin);
      return FinishPrinting();
    }
  }

 private:
  void OnSignal() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      ++interrupts_;
      Say(interrupts_ == 1 ? "stopping; once more ends all at once" : "ending all at once");
      interrupts_ == 1 ? play_->BeginStop() : play_->BeginStop(milliseconds(0));
    }
  }
  void Say(const std::string& line) {
    if (!flags_.json) Print(line + "\n");
  }
  absl::Status Show(const PlayStatus& status) {
    bool changed = false;
    for (const PartStatus& p : status.parts) changed = ShowPart(p) || changed;
    return changed || status.over ? folder_->Write("state.json", StateJson(status)) : absl::OkStatus();
  }
  // False: nothing is new.
  bool ShowPart(const PartStatus& p) {
    const ProcessStatus& process = p.process;
    const std::tuple now{process.state, process.incarnation, p.ready};
    const auto [it, first] = said_.try_emplace(process.name);
    if (!first && it->second == now) return false;
    it->second = now;
    if (flags_.json) {
      Print(StrCat("{\"event\": \"part\", \"name\": ", JsonString(process.name), ", \"state\": \"",
                   ToString(process.state), "\", \"ready\": ", p.ready, ", \"pid\": ", process.pid,
                   ", \"incarnation\": ", process.incarnation, ", \"last_end\": ", JsonString(process.last_end),
                   "}\n"));
      return true;
    }
    switch (process.state) {
      case ProcessState::kHeld:
        Say(process.name + " waits for those that it comes after");
        break;
      case ProcessState::kStarting:
        break;
      case ProcessState::kRunning:
        if (p.ready) SayReady(p);
        break;
      case ProcessState::kWaiting:
        Say(StrCat(process.name, " ", process.last_end,
                   process.last_line.empty() ? "" : "; its last line: ", process.last_line));
        break;
      case ProcessState::kStopping:
        break;
      default:
        // One that was ready between two looks.
        if (p.was_ready) SayReady(p);
        Say(StrCat(process.name, " ",
                   process.state == ProcessState::kGivenUp
                       ? "is given up: it " + process.last_end
                       : std::string(process.state == ProcessState::kEnded ? "has ended well" : "is stopped")));
    }
    return true;
  }
  // Once an incarnation.
  void SayReady(const PartStatus& p) {
    const ProcessStatus& process = p.process;
    if (!ready_.emplace(process.name, process.incarnation).second) return;
    Say(StrCat(process.name, " is ready", p.address.empty() ? "" : " at " + p.address,
               process.pid > 0 ? StrCat(", process ", process.pid) : "",
               process.restarts > 0 ? StrCat(", after ", process.restarts, " restarts; the last one ", process.last_end)
                                    : std::string()));
  }
  absl::Status Finish(const PlayStatus& status) {
    std::vector<std::string> killed;
    for (const PartStatus& p : status.parts) {
      if (p.process.killed) killed.push_back(p.process.name);
    }
    absl::Status result = status.result;
    if (result.ok() && !killed.empty())
      result = DeadlineExceeded("these did not end in time, and were killed: ", StrJoin(killed, ", "));
    if (flags_.json) Print(StrCat("{\"event\": \"end\", \"ok\": ", result.ok(), "}\n"));
    Say(result.ok() ? "all ended well" : "it has not ended well");
    return result;
  }

  const PlayFlags& flags_;
  const std::unique_ptr<ClusterFolder> folder_;
  int signals_ = -1, interrupts_ = 0;
  std::map<std::string, std::tuple<ProcessState, uint64_t, bool>> said_;
  std::set<std::pair<std::string, uint64_t>> ready_;  // of which that was said
  std::unique_ptr<play::Play> play_;
};

absl::StatusOr<std::vector<std::string>> CommandOfParts(const PlayFlags& flags) {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return NotFound("the program troupe itself: ", error.message());
  std::vector<std::string> command = {self, "play", "--troupe_part={part}"};
  for (const std::string& library : flags.libraries) {
    // A part may have another folder.
    const std::string path = library.find('/') == std::string::npos
                                 ? library
                                 : std::filesystem::absolute(library, error).lexically_normal().string();
    command.insert(command.end(), {"--load", path});
  }
  return command;
}

}  // namespace

int PlayCommand(const PlayFlags& flags) {
  if (!flags.part.empty()) return play::RunPart(flags.part);
  if (flags.file.empty()) return Complain(kUsage, "name the file of a topology (troupe play --help says more)");
  // Where it is ignored, as a parent may have left it, nobody hears how a process ended.
  ::signal(SIGCHLD, SIG_DFL);
  const auto topology = play::Topology::Read(flags.file);
  if (!topology.ok()) return Complain(kFailed, topology.status());
  play::PlayOptions options;
  std::error_code error;
  options.dir = std::filesystem::absolute(flags.dir, error).lexically_normal().string();
  const auto command = CommandOfParts(flags);
  if (!command.ok()) return Complain(kFailed, command.status());
  options.command = *command;
  if (flags.check) {
    const auto described = play::Describe(*topology, options);
    if (!described.ok()) return Complain(kFailed, described.status());
    Print(*described);
    return kOk;
  }
  auto folder = ClusterFolder::Take(options.dir);
  if (!folder.ok()) return Complain(kFailed, folder.status());
  options.logs = (*folder)->logs();
  PlayRun run(flags, *std::move(folder));
  absl::Status status = run.Start(*topology, options);
  if (status.ok()) status = run.Go();
  return status.ok() ? kOk : Complain(kFailed, status);
}

}  // namespace troupe::tool
