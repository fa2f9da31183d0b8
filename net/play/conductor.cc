#include "net/play/conductor.h"

#include <algorithm>

namespace troupe::play {

Conductor::Conductor(const std::vector<PlannedProcess>& processes) {
  for (const PlannedProcess& p : processes) {
    processes_.push_back({p.spec.name, p.part, p.ready_line, p.after, p.kind == Kind::kProgram, p.spec.service,
                          p.anywhere_in_line, p.spec.held});
  }
}

bool Conductor::OnLine(std::string_view process, uint64_t incarnation, std::string_view line) {
  for (Process& p : processes_) {
    if (p.name != process || p.ready_line.empty()) continue;
    const size_t at = line.find(p.ready_line);
    if (at == std::string_view::npos || (!p.anywhere && at != 0)) return false;
    p.ready_incarnation = incarnation;
    return true;
  }
  return false;
}

void Conductor::Note(Process* p, const ProcessStatus& status) {
  const bool up = status.state == ProcessState::kRunning || status.state == ProcessState::kStopping;
  const bool ended = status.state == ProcessState::kEnded;
  p->over = ended || status.state == ProcessState::kGivenUp || status.state == ProcessState::kStopped;
  p->was_ready = p->ready_incarnation != 0 && p->ready_incarnation == status.incarnation;
  if (!p->ready_line.empty()) {
    p->ready = p->was_ready && (up || (p->program && ended));
  } else {
    p->ready = ended || (p->service && up);
  }
}

void Conductor::OnStatus(const std::vector<ProcessStatus>& status) {
  for (size_t i = 0; i < processes_.size() && i < status.size(); ++i) Note(&processes_[i], status[i]);
}

std::vector<std::string> Conductor::Release() {
  std::vector<std::string> released;
  for (Process& p : processes_) {
    if (!p.held) continue;
    bool all = true;
    for (const Process& other : processes_) {
      if (std::find(p.after.begin(), p.after.end(), other.part) == p.after.end() || other.ready) continue;
      all = false;
      if (other.over && hopeless_.ok())
        hopeless_ = Aborted(p.name, " cannot start: it comes after ", other.name, ", which is over and was not ready");
    }
    if (!all) continue;
    p.held = false;
    released.push_back(p.name);
  }
  return released;
}

bool Conductor::AnyHeld() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.held; });
}

std::vector<std::string> Conductor::NotReady() const {
  std::vector<std::string> names;
  for (const Process& p : processes_) {
    if (!p.ready && (!p.program || p.service)) names.push_back(p.name);
  }
  return names;
}

}  // namespace troupe::play
