// troupe cluster up: the processes of a local cluster, under a supervisor, until its programs end.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "tools/troupe/cluster_folder.h"
#include "tools/troupe/cluster_reports.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"
#include "tools/troupe/value_text.h"

namespace troupe::tool {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// What the supervisor's thread hears, for the main thread: lines that look like reports. Of more
// than the main thread can read the oldest are lost.
class Inbox {
 public:
  struct Line {
    std::string name;
    uint64_t incarnation = 0;
    std::string text;
  };
  ~Inbox() {
    if (wake_ >= 0) ::close(wake_);
  }
  void Add(const std::string& name, uint64_t incarnation, std::string_view line) {
    constexpr size_t kMost = 10000;
    if (!line.starts_with('{')) return;
    std::lock_guard<std::mutex> lock(mu_);
    if (lines_.size() >= kMost) lines_.pop_front();
    lines_.push_back({name, incarnation, std::string(line)});
    const uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof(one));
  }
  std::deque<Line> Take() {
    uint64_t count;
    (void)!::read(wake_, &count, sizeof(count));
    std::lock_guard<std::mutex> lock(mu_);
    return std::exchange(lines_, {});
  }
  int descriptor() const { return wake_; }

 private:
  const int wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::mutex mu_;
  std::deque<Line> lines_;
};

class ClusterRun {
 public:
  ClusterRun(const ClusterUpFlags& flags, ClusterPlan plan, std::unique_ptr<ClusterFolder> folder)
      : flags_(flags), plan_(std::move(plan)), folder_(std::move(folder)), display_(!flags.json && ::isatty(1) == 1) {}
  ~ClusterRun() {
    if (signals_ >= 0) ::close(signals_);
  }
  absl::Status Start();
  // Until all is over.
  absl::Status Go();

 private:
  void HearAll();
  void Strike(int64_t step);
  void EndUnjoined(const ProcessesStatus& status);
  void Thaw();
  void OnSignal();
  void Show(const ProcessesStatus& status);
  void SayChanges(const ProcessesStatus& status);
  void Say(const std::string& line);
  absl::Status Finish(const ProcessesStatus& status);

  const ClusterUpFlags& flags_;
  const ClusterPlan plan_;
  const std::unique_ptr<ClusterFolder> folder_;
  const bool display_;
  const Clock::time_point began_ = Clock::now();
  Inbox inbox_;
  ClusterReports reports_;
  int signals_ = -1, interrupts_ = 0;
  std::vector<bool> struck_;
  std::map<std::string, Clock::time_point> frozen_;  // until when
  // What was said last of each process, and when.
  std::map<std::string, std::pair<ProcessState, uint64_t>> said_;
  Clock::time_point reported_{}, shown_{};
  int lines_shown_ = 0;
  bool complained_ = false, unjoined_ = false;
  std::unique_ptr<ProcessSupervisor> supervisor_;  // last: its thread uses the inbox
};

absl::Status ClusterRun::Start() {
  struck_.resize(plan_.blows.size());
  // No thread takes them, and no process inherits that.
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, s);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  signals_ = ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0 || inbox_.descriptor() < 0) return ResourceExhausted("no descriptor: ", std::strerror(errno));
  TROUPE_RETURN_IF_ERROR(folder_->Write("cluster.pbtxt", plan_.cluster.ToText()));
  ProcessSupervisorOptions options;
  options.processes = plan_.processes;
  options.logs = folder_->logs();
  options.stop_within = milliseconds(flags_.stop_within_ms);
  options.on_line = [this](const std::string& name, uint64_t incarnation, std::string_view line) {
    inbox_.Add(name, incarnation, line);
  };
  TROUPE_ASSIGN_OR_RETURN(supervisor_, ProcessSupervisor::Start(options));
  return absl::OkStatus();
}

void ClusterRun::Say(const std::string& line) {
  if (!flags_.json) Print(line + "\n");
}

void ClusterRun::HearAll() {
  for (const Inbox::Line& line : inbox_.Take()) {
    const auto step = reports_.Hear(line.name, line.text, Clock::now());
    if (flags_.json) {
      Print(StrCat("{\"event\": \"report\", \"name\": ", JsonString(line.name), ", \"incarnation\": ", line.incarnation,
                   ", \"report\": ", line.text, "}\n"));
    }
    if (!step) continue;
    Strike(*step);
    if (line.name == plan_.chief && !display_ && Clock::now() - reported_ >= std::chrono::seconds(1)) {
      reported_ = Clock::now();
      Say(StrCat(line.name, ": ", reports_.Text(line.name, reported_)));
    }
  }
}

// At the step that was named, or the first one after, whichever program reports it: where each
// worker updates by itself, the chief may be the one that is down.
void ClusterRun::Strike(int64_t step) {
  for (size_t i = 0; i < plan_.blows.size(); ++i) {
    const Blow& b = plan_.blows[i];
    if (struck_[i] || step < b.step) continue;
    const int signal = b.kind == Blow::kFreeze ? SIGSTOP : b.kind == Blow::kLeave ? SIGTERM : SIGKILL;
    const absl::Status done =
        b.kind == Blow::kJoin ? supervisor_->Release(b.name) : supervisor_->Signal(b.name, signal);
    // There may be no process of it just now: it gets the next report.
    if (!done.ok()) continue;
    struck_[i] = true;
    if (b.kind == Blow::kFreeze) frozen_[b.name] = Clock::now() + milliseconds(b.freeze_ms);
    constexpr const char* kEvents[] = {"killed", "frozen", "joins", "leaves"};
    const std::string what[] = {" is killed", StrCat(" is stopped for ", b.freeze_ms, " ms"), " joins", " is to leave"};
    Say(StrCat(b.name, what[b.kind], " at step ", step));
    if (flags_.json) {
      Print(
          StrCat("{\"event\": \"", kEvents[b.kind], "\", \"name\": ", JsonString(b.name), ", \"step\": ", step, "}\n"));
    }
  }
}

// Who was to join, and did not before the others ended, is not waited for.
void ClusterRun::EndUnjoined(const ProcessesStatus& status) {
  if (unjoined_ || status.stopping) return;
  bool held = false;
  for (size_t i = 0; i < status.processes.size(); ++i) {
    const ProcessState state = status.processes[i].state;
    if (plan_.processes[i].service || state > ProcessState::kStopping) continue;
    if (state != ProcessState::kHeld) return;
    held = true;
  }
  if (!held) return;
  unjoined_ = true;
  supervisor_->BeginStop(milliseconds(flags_.stop_within_ms));
}

void ClusterRun::Thaw() {
  for (auto it = frozen_.begin(); it != frozen_.end();) {
    if (Clock::now() < it->second) {
      ++it;
      continue;
    }
    // It may have been killed meanwhile.
    (void)supervisor_->Signal(it->first, SIGCONT);
    it = frozen_.erase(it);
  }
}

// The first one ends all in order, the next one at once.
void ClusterRun::OnSignal() {
  signalfd_siginfo info;
  while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    ++interrupts_;
    Say(interrupts_ == 1 ? "stopping; once more ends all at once" : "ending all at once");
    for (const auto& [name, until] : frozen_) (void)supervisor_->Signal(name, SIGCONT);
    supervisor_->BeginStop(milliseconds(interrupts_ == 1 ? flags_.stop_within_ms : 0));
  }
}

void ClusterRun::SayChanges(const ProcessesStatus& status) {
  for (const ProcessStatus& p : status.processes) {
    const std::pair<ProcessState, uint64_t> now{p.state, p.incarnation};
    auto& before = said_.try_emplace(p.name, ProcessState::kStarting, 0).first->second;
    if (before == now) continue;
    const bool again = p.incarnation > 1 && p.incarnation != before.second;
    before = now;
    if (flags_.json) {
      Print(StrCat("{\"event\": \"process\", \"name\": ", JsonString(p.name), ", \"state\": \"", ToString(p.state),
                   "\", \"pid\": ", p.pid, ", \"incarnation\": ", p.incarnation,
                   ", \"last_end\": ", JsonString(p.last_end), "}\n"));
      continue;
    }
    if (display_ || p.state == ProcessState::kStarting) continue;
    if (p.state == ProcessState::kRunning) {
      Say(StrCat(p.name, " runs as process ", p.pid,
                 again ? StrCat(", incarnation ", p.incarnation, "; the one before ", p.last_end) : std::string()));
    } else if (p.state == ProcessState::kWaiting) {
      Say(StrCat(p.name, " ", p.last_end, p.last_line.empty() ? "" : "; its last line: ", p.last_line));
    } else {
      Say(StrCat(p.name, " is ", ToString(p.state),
                 p.state == ProcessState::kGivenUp ? StrCat(": it ", p.last_end) : ""));
    }
  }
}

void ClusterRun::Show(const ProcessesStatus& status) {
  SayChanges(status);
  const auto now = Clock::now();
  if (!status.over && now - shown_ < milliseconds(500)) return;
  shown_ = now;
  // A full disk ends nobody's training.
  const absl::Status written = folder_->Write("state.json", ClusterJson(plan_, status, reports_, now));
  if (!written.ok() && !std::exchange(complained_, true)) Complain(kFailed, written);
  if (!display_) return;
  // In place of what was shown before, as much as the screen has room for.
  winsize screen{};
  const int rows = ::ioctl(1, TIOCGWINSZ, &screen) == 0 && screen.ws_row > 4 ? screen.ws_row : 24;
  const int columns = screen.ws_col > 20 ? screen.ws_col : 200;
  std::string table = ClusterTable(plan_, status, reports_, now), shown;
  int lines = 0;
  for (size_t at = 0; at < table.size() && lines < rows - 2; ++lines) {
    const size_t end = table.find('\n', at);
    shown += table.substr(at, std::min<size_t>(end - at, static_cast<size_t>(columns - 1))) + "\n";
    at = end + 1;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - began_).count();
  Print(StrCat(lines_shown_ > 0 ? StrCat("\033[", lines_shown_, "A") : std::string(), "\033[J", shown, "for ", seconds,
               " s; logs in ", folder_->logs(), "\n"));
  lines_shown_ = lines + 1;
}

absl::Status ClusterRun::Go() {
  for (;;) {
    pollfd polled[] = {{signals_, POLLIN, 0}, {inbox_.descriptor(), POLLIN, 0}};
    ::poll(polled, 2, 50);
    OnSignal();
    Thaw();
    // First the end, then what was said before it.
    TROUPE_ASSIGN_OR_RETURN(const bool over, supervisor_->Wait(milliseconds(0)));
    HearAll();
    TROUPE_ASSIGN_OR_RETURN(const ProcessesStatus status, supervisor_->status());
    Show(status);
    EndUnjoined(status);
    if (over) return Finish(status);
    if (std::fflush(stdout) == 0 && PrintWorks()) continue;
    // Nobody reads any more what becomes of it.
    (void)supervisor_->Stop(milliseconds(flags_.stop_within_ms));
    return FinishPrinting();
  }
}

absl::Status ClusterRun::Finish(const ProcessesStatus& status) {
  const auto now = Clock::now();
  std::vector<std::string> missed, killed;
  for (size_t i = 0; i < plan_.blows.size(); ++i) {
    if (!struck_[i]) missed.push_back(plan_.blows[i].text);
  }
  for (const ProcessStatus& p : status.processes) {
    if (p.killed) killed.push_back(p.name);
  }
  absl::Status result = status.result;
  if (result.ok() && !killed.empty())
    result = DeadlineExceeded("these did not end in time, and were killed: ", StrJoin(killed, ", "));
  if ((result.ok() || (unjoined_ && absl::IsCancelled(result))) && !missed.empty())
    result = FailedPrecondition("all ended before these steps were reported: ", StrJoin(missed, ", "));
  int restarts = 0;
  for (const ProcessStatus& p : status.processes) restarts += p.restarts;
  if (flags_.json) {
    std::string state = ClusterJson(plan_, status, reports_, now);
    std::replace(state.begin(), state.end(), '\n', ' ');
    Print(StrCat("{\"event\": \"end\", \"ok\": ", result.ok() ? "true" : "false", ", \"restarts\": ", restarts,
                 ", \"cluster\": ", state, "}\n"));
    return result;
  }
  for (const ProcessStatus& p : status.processes) {
    const std::string report = reports_.Text(p.name, now);
    Print(StrCat(p.name, ": ", ToString(p.state), ", ", p.restarts, p.restarts == 1 ? " restart" : " restarts",
                 report.empty() ? "" : ", ", report, "\n"));
  }
  const std::string report = plan_.chief.empty() ? "" : reports_.Text(plan_.chief, now);
  Print(StrCat(result.ok() ? "all ended well: " : "it has not ended well: ", report, report.empty() ? "" : ", ",
               restarts, restarts == 1 ? " restart" : " restarts", "\n"));
  return result;
}

}  // namespace

int ClusterUpCommand(const ClusterUpFlags& given) {
  ClusterUpFlags flags = given;
  // Where it is ignored, as a parent may have left it, nobody hears how a process ended.
  ::signal(SIGCHLD, SIG_DFL);
  std::error_code error;
  flags.dir = std::filesystem::absolute(flags.dir, error).lexically_normal().string();
  auto plan = PlanCluster(flags);
  if (!plan.ok()) return Complain(absl::IsInvalidArgument(plan.status()) ? kUsage : kFailed, plan.status());
  auto folder = ClusterFolder::Take(flags.dir);
  if (!folder.ok()) return Complain(kFailed, folder.status());
  if (flags.tls) {
    if (const absl::Status made = (*folder)->MakeCertificate(); !made.ok()) return Complain(kFailed, made);
  }
  ClusterRun run(flags, *std::move(plan), *std::move(folder));
  absl::Status status = run.Start();
  if (status.ok()) status = run.Go();
  return status.ok() ? kOk : Complain(kFailed, status);
}

}  // namespace troupe::tool
