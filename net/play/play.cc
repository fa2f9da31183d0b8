#include "troupe/play.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "net/caller.h"
#include "net/play/conductor.h"
#include "net/play/plan.h"

namespace troupe::play {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A thread looks at the processes whenever one has said that it is ready, and every now and then,
// since nobody tells that a process runs or has ended.
struct Play::Impl {
  explicit Impl(Plan made) : plan(std::move(made)), conductor(plan.processes) {}

  absl::Status Start(const PlayOptions& options);
  void Watch();
  // Without the lock.
  void Look();
  void OnLine(const std::string& name, uint64_t incarnation, std::string_view line);

  const Plan plan;
  std::function<void(const std::string&, uint64_t, std::string_view)> on_line;
  mutable std::mutex mu;
  mutable std::condition_variable changed;
  Conductor conductor;
  absl::Status hopeless;  // why all was stopped
  bool look = false, over = false, leave = false;
  std::thread watcher;
  std::unique_ptr<ProcessSupervisor> supervisor;  // its thread calls OnLine
};

void Play::Impl::OnLine(const std::string& name, uint64_t incarnation, std::string_view line) {
  {
    std::lock_guard<std::mutex> lock(mu);
    if (conductor.OnLine(name, incarnation, line)) {
      look = true;
      changed.notify_all();
    }
  }
  if (on_line != nullptr) on_line(name, incarnation, line);
}

void Play::Impl::Look() {
  const auto status = supervisor->status();
  std::vector<std::string> released;
  bool stop = false;
  {
    std::lock_guard<std::mutex> lock(mu);
    if (!status.ok() || status->over) {
      over = true;
    } else {
      conductor.OnStatus(status->processes);
      released = conductor.Release();
      // Those that are stopped with all others wait for nothing.
      if (!status->stopping && !conductor.hopeless().ok() && hopeless.ok()) {
        hopeless = conductor.hopeless();
        stop = true;
      }
    }
    changed.notify_all();
  }
  if (stop) supervisor->BeginStop(plan.stop_within);
  for (const std::string& name : released) (void)supervisor->Release(name);
}

void Play::Impl::Watch() {
  constexpr milliseconds kNowAndThen{50};
  std::unique_lock<std::mutex> lock(mu);
  while (!leave && !over) {
    changed.wait_for(lock, kNowAndThen, [&] { return look || leave; });
    look = false;
    lock.unlock();
    Look();
    lock.lock();
  }
}

absl::Status Play::Impl::Start(const PlayOptions& options) {
  on_line = options.on_line;
  ProcessSupervisorOptions processes;
  for (const PlannedProcess& p : plan.processes) processes.processes.push_back(p.spec);
  processes.logs = options.logs;
  processes.stop_within = plan.stop_within;
  processes.on_line = [this](const std::string& name, uint64_t incarnation, std::string_view line) {
    OnLine(name, incarnation, line);
  };
  TROUPE_ASSIGN_OR_RETURN(supervisor, ProcessSupervisor::Start(processes));
  try {
    watcher = std::thread([this] { Watch(); });
  } catch (const std::system_error& e) {
    return ResourceExhausted("no thread for the topology: ", e.what());
  }
  return absl::OkStatus();
}

Play::Play(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Play::~Play() {
  if (impl_->watcher.joinable()) {
    {
      std::lock_guard<std::mutex> lock(impl_->mu);
      impl_->leave = true;
      impl_->changed.notify_all();
    }
    impl_->watcher.join();
  }
}

absl::StatusOr<std::unique_ptr<Play>> Play::Start(const Topology& topology, const PlayOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(Plan plan, MakePlan(topology, options));
  auto play = std::make_unique<Play>(std::make_unique<Impl>(std::move(plan)));
  TROUPE_RETURN_IF_ERROR(play->impl_->Start(options));
  return play;
}

const Topology& Play::topology() const { return impl_->plan.topology; }

absl::StatusOr<PlayStatus> Play::status() const {
  TROUPE_ASSIGN_OR_RETURN(ProcessesStatus processes, impl_->supervisor->status());
  PlayStatus status;
  status.stopping = processes.stopping;
  status.over = processes.over;
  status.result = processes.result;
  std::lock_guard<std::mutex> lock(impl_->mu);
  impl_->conductor.OnStatus(processes.processes);
  if (status.over && !impl_->hopeless.ok()) status.result = impl_->hopeless;
  for (size_t i = 0; i < processes.processes.size(); ++i) {
    const PlannedProcess& planned = impl_->plan.processes[i];
    status.parts.push_back(
        {std::move(processes.processes[i]), planned.kind, planned.address, impl_->conductor.ready(i)});
  }
  return status;
}

absl::Status Play::AwaitReady(milliseconds at_most) const {
  const auto by = Clock::now() + Bounded(at_most);
  for (;;) {
    // Also says that this must not block here.
    TROUPE_ASSIGN_OR_RETURN(const PlayStatus now, status());
    std::unique_lock<std::mutex> lock(impl_->mu);
    const std::vector<std::string> missing = impl_->conductor.NotReady();
    if (now.over) {
      if (!now.result.ok()) return now.result;
      return missing.empty() ? absl::OkStatus() : FailedPrecondition("all is over");
    }
    if (missing.empty() && !impl_->conductor.AnyHeld()) return absl::OkStatus();
    if (Clock::now() >= by)
      return DeadlineExceeded("within ", Bounded(at_most).count(),
                              " ms these were not ready: ", StrJoin(missing, ", "));
    impl_->changed.wait_until(lock, std::min(by, Clock::now() + milliseconds(50)));
  }
}

absl::StatusOr<bool> Play::Wait(milliseconds at_most) const { return impl_->supervisor->Wait(at_most); }
absl::Status Play::Stop(milliseconds at_most) { return impl_->supervisor->Stop(at_most); }
void Play::BeginStop(milliseconds at_most) { impl_->supervisor->BeginStop(at_most); }
void Play::BeginStop() { BeginStop(impl_->plan.stop_within); }
absl::Status Play::Signal(const std::string& name, int signal) { return impl_->supervisor->Signal(name, signal); }

}  // namespace troupe::play
