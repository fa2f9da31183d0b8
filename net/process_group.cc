#include "net/process_group.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace troupe {
namespace {

using std::chrono::milliseconds;

RestartPolicy PolicyOf(const ProcessPolicy& p, uint64_t seed) {
  RestartPolicy policy;
  policy.min_delay = p.min_delay;
  policy.max_delay = p.max_delay;
  policy.jitter = p.jitter;
  policy.max_failures = p.most_restarts;
  policy.window = p.window;
  policy.seed = seed;
  return policy;
}

bool EndedWell(const ProcessEnd& end) { return WIFEXITED(end.wait_status) && WEXITSTATUS(end.wait_status) == 0; }

std::string HowItEnded(const ProcessEnd& end) {
  if (WIFEXITED(end.wait_status)) return StrCat("exited with status ", WEXITSTATUS(end.wait_status));
  const int signal = WTERMSIG(end.wait_status);
  return StrCat("was ended by signal ", signal, " (", ::strsignal(signal), ")");
}

}  // namespace

std::string_view ToString(ProcessState state) {
  constexpr std::string_view kNames[] = {"held",     "starting", "running", "waiting",
                                         "stopping", "ended",    "stopped", "given up"};
  return kNames[static_cast<size_t>(state)];
}

ProcessGroup::ProcessGroup(const ProcessSupervisorOptions& options) : stop_within_(options.stop_within) {
  uint64_t seed = options.seed;
  for (const ProcessSpec& spec : options.processes) {
    const uint64_t own = options.seed == 0 ? 0 : ++seed;
    processes_.push_back(
        {spec.name, spec.service, spec.held, spec.policy, RestartDecision(PolicyOf(spec.policy, own))});
  }
}

void ProcessGroup::Enter(Process* p, ProcessState state, Time now) {
  p->state = state;
  p->since = now;
}

void ProcessGroup::Launch(int process, Time now, Actions* actions) {
  Process& p = at(process);
  ++p.incarnation;
  Enter(&p, ProcessState::kStarting, now);
  actions->push_back({process, p.incarnation, 0});
}

ProcessGroup::Actions ProcessGroup::Begin(Time now) {
  Actions actions;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].held) {
      Enter(&processes_[i], ProcessState::kHeld, now);
    } else {
      Launch(static_cast<int>(i), now, &actions);
    }
  }
  GoOn(now, &actions);
  return actions;
}

ProcessGroup::Actions ProcessGroup::Release(int process, Time now) {
  Actions actions;
  if (at(process).state == ProcessState::kHeld) Launch(process, now, &actions);
  return actions;
}

ProcessGroup::Actions ProcessGroup::Launched(int process, uint64_t incarnation, const absl::StatusOr<int64_t>& pid,
                                             Time now) {
  Actions actions;
  Process& p = at(process);
  if (p.incarnation != incarnation) return actions;
  if (p.state != ProcessState::kStarting && p.state != ProcessState::kStopping) return actions;
  if (pid.ok()) {
    p.pid = *pid;
    if (p.state == ProcessState::kStarting) Enter(&p, ProcessState::kRunning, now);
    return actions;
  }
  p.how = StrCat("could not be started: ", pid.status().message());
  p.end = {};
  if (p.state == ProcessState::kStopping) {
    Enter(&p, ProcessState::kStopped, now);
  } else {
    Failed(process, now, &actions);
  }
  GoOn(now, &actions);
  return actions;
}

// Edges 3 and 5 to 8.
void ProcessGroup::Failed(int process, Time now, Actions* actions) {
  Process& p = at(process);
  const bool may = p.policy.restart != ProcessPolicy::Restart::kNever;
  const milliseconds delay = may ? p.decision.OnFailure(now) : milliseconds(-1);
  if (delay.count() >= 0) {
    Enter(&p, ProcessState::kWaiting, now);
    p.due = now + delay;
    return;
  }
  Enter(&p, ProcessState::kGivenUp, now);
  if (!p.policy.escalate) return;
  if (failure_.ok()) {
    failure_ = Aborted(p.name, " ", p.how,
                       may ? StrCat(", after ", p.incarnation - 1, " restarts, and is given up") : std::string(),
                       p.end.last_line.empty() ? "" : "; its last line: ", p.end.last_line);
  }
  BeginStop(stop_within_, now, actions);
}

ProcessGroup::Actions ProcessGroup::Ended(int process, uint64_t incarnation, const ProcessEnd& end, Time now) {
  Actions actions;
  Process& p = at(process);
  if (p.incarnation != incarnation) return actions;
  if (p.state != ProcessState::kRunning && p.state != ProcessState::kStopping) return actions;
  p.pid = 0;
  p.end = end;
  p.how = HowItEnded(end);
  if (p.state == ProcessState::kStopping) {
    // It may have been about to end when it was asked to.
    Enter(&p, EndedWell(end) && !p.service ? ProcessState::kEnded : ProcessState::kStopped, now);
  } else if (EndedWell(end) && p.policy.restart != ProcessPolicy::Restart::kAlways) {
    Enter(&p, ProcessState::kEnded, now);
  } else {
    Failed(process, now, &actions);
  }
  GoOn(now, &actions);
  return actions;
}

bool ProcessGroup::AnyLeft(bool services) const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [&](const Process& p) { return p.service == services && p.state <= ProcessState::kStopping; });
}

void ProcessGroup::GoOn(Time now, Actions* actions) {
  const bool programs = AnyLeft(false), services = AnyLeft(true);
  const bool had_programs =
      std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return !p.service; });
  if (!stopping_ && had_programs && !programs && services) BeginStop(stop_within_, now, actions);
  if (stopping_ && !services_too_ && !AnyLeft(false)) {
    services_too_ = true;
    stop_by_ = now + at_most_;
    StopThose(true, now, actions);
  }
  over_ = !AnyLeft(false) && !AnyLeft(true);
}

void ProcessGroup::StopThose(bool services, Time now, Actions* actions) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& p = processes_[i];
    if (p.service != services) continue;
    if (p.state == ProcessState::kWaiting || p.state == ProcessState::kHeld) Enter(&p, ProcessState::kStopped, now);
    if (p.state != ProcessState::kStarting && p.state != ProcessState::kRunning) continue;
    Enter(&p, ProcessState::kStopping, now);
    actions->push_back({static_cast<int>(i), p.incarnation, SIGTERM});
  }
}

void ProcessGroup::BeginStop(milliseconds at_most, Time now, Actions* actions) {
  if (stopping_) {
    at_most_ = std::min(at_most_, at_most);
    stop_by_ = std::min(stop_by_, now + at_most);
    return;
  }
  stopping_ = true;
  at_most_ = at_most;
  stop_by_ = now + at_most;
  StopThose(false, now, actions);
}

ProcessGroup::Actions ProcessGroup::Stop(milliseconds at_most, Time now) {
  Actions actions;
  if (over_) return actions;
  on_request_ = true;
  BeginStop(at_most, now, &actions);
  GoOn(now, &actions);
  return actions;
}

ProcessGroup::Actions ProcessGroup::Look(Time now) {
  Actions actions;
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& p = processes_[i];
    if (p.state == ProcessState::kWaiting && now >= p.due) Launch(static_cast<int>(i), now, &actions);
    if (p.state == ProcessState::kStopping && now >= stop_by_ && !p.killed) {
      p.killed = true;
      actions.push_back({static_cast<int>(i), p.incarnation, SIGKILL});
    }
  }
  return actions;
}

std::optional<ProcessGroup::Time> ProcessGroup::NextLook() const {
  std::optional<Time> next;
  const auto at_latest = [&](Time t) { next = next ? std::min(*next, t) : t; };
  for (const Process& p : processes_) {
    if (p.state == ProcessState::kWaiting) at_latest(p.due);
    if (p.state == ProcessState::kStopping && !p.killed) at_latest(stop_by_);
  }
  return next;
}

int ProcessGroup::Find(const std::string& name) const {
  const auto it = std::find_if(processes_.begin(), processes_.end(), [&](const Process& p) { return p.name == name; });
  return it == processes_.end() ? -1 : static_cast<int>(it - processes_.begin());
}

uint64_t ProcessGroup::Incarnation(int process) const {
  const Process& p = processes_[static_cast<size_t>(process)];
  return p.pid == 0 ? 0 : p.incarnation;
}

absl::Status ProcessGroup::Stopped() const {
  std::vector<std::string> killed;
  for (const Process& p : processes_) {
    if (p.killed) killed.push_back(p.name);
  }
  if (killed.empty()) return absl::OkStatus();
  return DeadlineExceeded("within ", at_most_.count(),
                          " ms these did not end, and were killed: ", StrJoin(killed, ", "));
}

ProcessesStatus ProcessGroup::Status(Time now) const {
  ProcessesStatus status;
  status.stopping = stopping_;
  status.over = over_;
  std::vector<std::string> given_up, not_ended;
  for (const Process& p : processes_) {
    const auto since = std::chrono::duration_cast<milliseconds>(now - p.since).count();
    status.processes.push_back({p.name, p.state, p.pid, p.incarnation,
                                static_cast<int>(std::max<uint64_t>(1, p.incarnation) - 1), since, p.how,
                                p.end.last_line, p.killed});
    if (p.state == ProcessState::kGivenUp) given_up.push_back(StrCat(p.name, ", which ", p.how));
    if (!p.service && p.state != ProcessState::kEnded) not_ended.push_back(p.name);
  }
  if (!over_) return status;
  if (!failure_.ok()) {
    status.result = failure_;
  } else if (!given_up.empty()) {
    status.result = Aborted("given up: ", StrJoin(given_up, "; "));
  } else if (!not_ended.empty()) {
    status.result = Cancelled("stopped before these had ended: ", StrJoin(not_ended, ", "));
  }
  return status;
}

}  // namespace troupe
