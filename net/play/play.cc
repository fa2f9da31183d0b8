#include "troupe/play.h"

#include <pthread.h>

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

// A thread looks at the processes whenever one has said that it is ready, or the supervisor that it
// runs or has ended.
struct Play::Impl {
  explicit Impl(Plan made) : plan(std::move(made)), conductor(plan.processes) {}

  absl::Status Start(const PlayOptions& options);
  void Watch();
  // Without the lock.
  void Look();
  // How the processes are now, which the conductor knows then. `then` has the lock `mu`.
  template <class Then>
  absl::Status Ask(Then then);
  void OnLine(const std::string& name, uint64_t incarnation, std::string_view line);
  void LookAgain();

  const Plan plan;
  std::function<void(const std::string&, uint64_t, std::string_view)> on_line;
  std::mutex asking;  // taken before mu: the conductor hears no older news after newer ones
  std::mutex mu;      // guards:
  std::condition_variable changed;
  Conductor conductor;
  absl::Status hopeless;  // why all was stopped
  bool look = false, over = false, leave = false;
  std::thread watcher;
  std::unique_ptr<ProcessSupervisor> supervisor;  // its thread calls OnLine
};

void Play::Impl::OnLine(const std::string& name, uint64_t incarnation, std::string_view line) {
  bool ready = false;
  {
    std::lock_guard<std::mutex> lock(mu);
    ready = conductor.OnLine(name, incarnation, line);
  }
  if (ready) LookAgain();
  if (on_line != nullptr) on_line(name, incarnation, line);
}

void Play::Impl::LookAgain() {
  std::lock_guard<std::mutex> lock(mu);
  look = true;
  changed.notify_all();
}

template <class Then>
absl::Status Play::Impl::Ask(Then then) {
  std::lock_guard<std::mutex> one_after_the_other(asking);
  TROUPE_ASSIGN_OR_RETURN(ProcessesStatus status, supervisor->status());
  std::lock_guard<std::mutex> lock(mu);
  conductor.OnStatus(status.processes);
  then(status);
  return absl::OkStatus();
}

void Play::Impl::Look() {
  std::vector<std::string> released;
  bool stop = false;
  const absl::Status asked = Ask([&](const ProcessesStatus& status) {
    over = status.over;
    if (over) return;
    released = conductor.Release();
    // Those that are stopped with all others wait for nothing.
    if (status.stopping || conductor.hopeless().ok() || !hopeless.ok()) return;
    hopeless = conductor.hopeless();
    stop = true;
  });
  {
    std::lock_guard<std::mutex> lock(mu);
    over = over || !asked.ok();
    changed.notify_all();
  }
  if (stop) supervisor->BeginStop(plan.stop_within);
  for (const std::string& name : released) (void)supervisor->Release(name);
}

void Play::Impl::Watch() {
  pthread_setname_np(pthread_self(), "troupe.play");
  std::unique_lock<std::mutex> lock(mu);
  while (!leave && !over) {
    changed.wait(lock, [&] { return look || leave; });
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
  processes.on_change = [this] { LookAgain(); };
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
  PlayStatus status;
  TROUPE_RETURN_IF_ERROR(impl_->Ask([&](ProcessesStatus& processes) {
    status.stopping = processes.stopping;
    status.over = processes.over;
    status.result = status.over && !impl_->hopeless.ok() ? impl_->hopeless : processes.result;
    for (size_t i = 0; i < processes.processes.size(); ++i) {
      const PlannedProcess& planned = impl_->plan.processes[i];
      status.parts.push_back({std::move(processes.processes[i]), planned.kind, planned.address,
                              impl_->conductor.ready(i), impl_->conductor.was_ready(i)});
    }
  }));
  return status;
}

absl::Status Play::AwaitReady(milliseconds at_most) const {
  at_most = Bounded(at_most);
  const auto by = Clock::now() + at_most;
  // Also says that this must not block here.
  TROUPE_ASSIGN_OR_RETURN(PlayStatus now, status());
  std::vector<std::string> missing;
  {
    std::unique_lock<std::mutex> lock(impl_->mu);
    const bool in_time = impl_->changed.wait_until(lock, by, [&] {
      missing = impl_->conductor.NotReady();
      return now.over || impl_->over || (missing.empty() && !impl_->conductor.AnyHeld());
    });
    if (!in_time)
      return DeadlineExceeded("within ", at_most.count(), " ms these were not ready: ", StrJoin(missing, ", "));
    if (!now.over && !impl_->over) return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(now, status());
  if (!now.result.ok()) return now.result;
  return missing.empty() ? absl::OkStatus() : FailedPrecondition("all is over");
}

absl::StatusOr<bool> Play::Wait(milliseconds at_most) const { return impl_->supervisor->Wait(at_most); }
absl::Status Play::Stop(milliseconds at_most) { return impl_->supervisor->Stop(at_most); }
void Play::BeginStop(milliseconds at_most) { impl_->supervisor->BeginStop(at_most); }
void Play::BeginStop() { BeginStop(impl_->plan.stop_within); }
absl::Status Play::Signal(const std::string& name, int signal) { return impl_->supervisor->Signal(name, signal); }

}  // namespace troupe::play
