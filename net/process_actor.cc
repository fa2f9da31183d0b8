#include "net/process_actor.h"

#include <algorithm>
#include <utility>

#include "actors/threads/aside.h"

namespace troupe {
namespace {

using GroupTime = ProcessGroup::Time;

class Watcher {
 public:
  Watcher(caf::event_based_actor* self, const ProcessSupervisorOptions& options,
          std::shared_ptr<ProcessLauncher> launcher, ProcessesOver over)
      : self_(self),
        group_(options),
        launcher_(std::move(launcher)),
        over_(std::move(over)),
        changed_(options.on_change) {}

  void On(const begin_processes&) { Do(group_.Begin(Now())); }
  void On(const process_launched& m) { Do(group_.Launched(m.process, m.incarnation, m.pid, Now())); }
  void On(const process_ended& m) { Do(group_.Ended(m.process, m.incarnation, m.end, Now())); }
  void On(const stop_processes& m) { Do(group_.Stop(std::chrono::milliseconds(m.at_most_ms), Now())); }
  void On(const look_at_processes&) {
    // An earlier look may have been armed after this one, and has done its work.
    if (Now() < armed_) return;
    armed_ = GroupTime::max();
    Do(group_.Look(Now()));
  }
  process_signalled On(const signal_process& m) {
    const int process = group_.Find(m.name);
    if (process < 0) return {NotFound("there is no process of the name '", m.name, "'")};
    const uint64_t incarnation = group_.Incarnation(process);
    if (incarnation == 0) return {NotFound("there is no process of ", m.name, " now")};
    launcher_->Signal(process, incarnation, m.signal);
    return {};
  }
  process_signalled On(const release_process& m) {
    const int process = group_.Find(m.name);
    if (process < 0) return {NotFound("there is no process of the name '", m.name, "'")};
    Do(group_.Release(process, Now()));
    return {};
  }
  processes_state Status() const { return {group_.Status(Now())}; }

 private:
  GroupTime Now() const { return self_->clock().now(); }
  void Do(const ProcessGroup::Actions& actions) {
    for (const ProcessGroup::Action& a : actions) {
      a.signal == 0 ? launcher_->Launch(a.process, a.incarnation)
                    : launcher_->Signal(a.process, a.incarnation, a.signal);
    }
    if (group_.over() && over_) std::exchange(over_, nullptr)(group_.Status(Now()), group_.Stopped());
    Arm();
    if (changed_) CallUser("on_change", changed_);
  }
  void Arm() {
    const auto due = group_.NextLook();
    if (!due || *due >= armed_) return;
    armed_ = *due;
    const auto in = std::max(GroupTime::duration(0), *due - Now());
    self_->delayed_send(self_, std::chrono::ceil<std::chrono::milliseconds>(in), look_at_processes{});
  }

  caf::event_based_actor* const self_;
  ProcessGroup group_;
  const std::shared_ptr<ProcessLauncher> launcher_;
  ProcessesOver over_;
  const std::function<void()> changed_;
  GroupTime armed_ = GroupTime::max();  // when the timer is due
};

struct WatcherState {
  const char* name = "troupe.processes";
  std::unique_ptr<Watcher> watcher;
};

caf::behavior WatcherBehavior(caf::stateful_actor<WatcherState>* self, const ProcessSupervisorOptions& options,
                              const std::shared_ptr<ProcessLauncher>& launcher, const ProcessesOver& over) {
  self->state.watcher = std::make_unique<Watcher>(self, options, launcher, over);
  Watcher* const w = self->state.watcher.get();
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  return {
      [w](const begin_processes& m) { w->On(m); },       [w](const process_launched& m) { w->On(m); },
      [w](const process_ended& m) { w->On(m); },         [w](const look_at_processes& m) { w->On(m); },
      [w](const stop_processes& m) { w->On(m); },        [w](const signal_process& m) { return w->On(m); },
      [w](const get_processes&) { return w->Status(); }, [w](const release_process& m) { return w->On(m); },
  };
}

}  // namespace

caf::actor SpawnProcesses(caf::actor_system& system, const ProcessSupervisorOptions& options,
                          std::shared_ptr<ProcessLauncher> launcher, ProcessesOver over) {
  return system.spawn<caf::hidden>(WatcherBehavior, options, std::move(launcher), std::move(over));
}

}  // namespace troupe
