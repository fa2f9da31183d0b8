#include "troupe/process_supervisor.h"

#include <caf/all.hpp>
#include <cctype>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>

#include "actors/messages/reply.h"
#include "actors/threads/actor_thread.h"
#include "actors/threads/aside.h"
#include "net/caller.h"
#include "net/process_actor.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

struct SupervisorsConfig : caf::actor_system_config {
  SupervisorsConfig() {
    set("scheduler.max-threads", static_cast<size_t>(1));
    set("work-stealing.moderate-poll-attempts", static_cast<size_t>(10));
  }
};

absl::Status CheckPolicy(const ProcessPolicy& p) {
  const auto fits = [](milliseconds t) { return t >= milliseconds(0) && t <= kLongest; };
  if (fits(p.min_delay) && fits(p.max_delay) && p.max_delay >= p.min_delay && fits(p.window) && p.most_restarts >= 0 &&
      p.jitter >= 0 && p.jitter < 1) {
    return absl::OkStatus();
  }
  return InvalidArgument("ProcessPolicy: times are from 0 up to a day, max_delay is at least min_delay, most_restarts ",
                         "is not negative, and jitter is in [0, 1)");
}

absl::Status Check(const ProcessSupervisorOptions& o) {
  if (o.processes.empty()) return InvalidArgument("there is no process to supervise");
  if (o.log_bytes < 4096 || o.log_files < 1 || o.log_files > 100 || o.stop_within < milliseconds(0))
    return InvalidArgument("log_bytes is at least 4096, log_files from 1 to 100, and stop_within not negative");
  std::set<std::string> names;
  for (const ProcessSpec& spec : o.processes) {
    bool good = !spec.name.empty() && spec.name.size() <= 200 && spec.name[0] != '.';
    for (const char c : spec.name)
      good = good && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      std::string_view("._:-").find(c) != std::string_view::npos);
    if (!good)
      return InvalidArgument("the name of a process is of letters, digits and ._:-, not '", CEscape(spec.name), "'");
    if (!names.insert(spec.name).second) return InvalidArgument("two processes have the name ", spec.name);
    if (spec.command.empty()) return InvalidArgument(spec.name, " has no command");
    if (auto s = CheckPolicy(spec.policy); !s.ok()) return Annotate(s, spec.name);
  }
  return absl::OkStatus();
}

absl::Status MaySupervise() {
  return OnSchedulerThread() || MustNotBlockHere()
             ? FailedPrecondition("processes are not supervised from an actor's handler")
             : absl::OkStatus();
}

}  // namespace

struct ProcessSupervisor::Impl {
  template <class Answer, class Question>
  absl::StatusOr<Answer> Ask(Question question) {
    TROUPE_RETURN_IF_ERROR(MaySupervise());
    NoLoggerAfter restore;
    absl::StatusOr<Answer> answer = Died();
    caf::scoped_actor self(*system);
    self->request(actor, std::chrono::seconds(30), std::move(question))
        .receive([&](const Answer& a) { answer = a; }, [](const caf::error&) {});
    return answer;
  }
  static absl::Status Died() {
    return absl::InternalError("the supervisor of the processes has died, and they with it");
  }

  SupervisorsConfig config;
  std::unique_ptr<caf::actor_system> system;
  caf::actor actor;
  std::shared_ptr<ProcessLauncher> launcher;
  bool watched = false;  // `heard` will be told of the actor's end
  // What the actor has told, which may be about to end when this object has gone.
  struct Heard {
    std::mutex mu;
    std::condition_variable changed;
    bool over = false, died = false;
    absl::Status stopped;  // when it was over
  };
  const std::shared_ptr<Heard> heard = std::make_shared<Heard>();
};

ProcessSupervisor::ProcessSupervisor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<ProcessSupervisor>> ProcessSupervisor::Start(const ProcessSupervisorOptions& options) {
  TROUPE_RETURN_IF_ERROR(Check(options));
  TROUPE_RETURN_IF_ERROR(MaySupervise());
  if (!options.logs.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.logs, error);
    if (error) return FailedPrecondition("the folder of logs ", options.logs, ": ", error.message());
  }
  try {
    NoLoggerAfter restore;
    auto supervisor = std::make_unique<ProcessSupervisor>(std::make_shared<Impl>());
    Impl* const impl = supervisor->impl_.get();
    impl->system = std::make_unique<caf::actor_system>(impl->config);
    // There are none before the actor has been told to begin.
    ProcessEvents events;
    events.launched = [impl](int process, uint64_t incarnation, absl::StatusOr<int64_t> pid) {
      SendSurely(*impl->system, impl->actor, [&] { return process_launched{process, incarnation, pid}; });
    };
    events.ended = [impl](int process, uint64_t incarnation, ProcessEnd end) {
      SendSurely(*impl->system, impl->actor, [&] { return process_ended{process, incarnation, end}; });
    };
    TROUPE_ASSIGN_OR_RETURN(impl->launcher, NewProcessLauncher(options, std::move(events)));
    impl->actor = SpawnProcesses(*impl->system, options, impl->launcher,
                                 [heard = impl->heard](const ProcessesStatus&, const absl::Status& stopped) {
                                   std::lock_guard<std::mutex> lock(heard->mu);
                                   heard->over = true;
                                   heard->stopped = stopped;
                                   heard->changed.notify_all();
                                 });
    // The launcher is there until the actor has been seen to end.
    impl->actor->attach_functor([launcher = impl->launcher.get(), heard = impl->heard, changed = options.on_change] {
      launcher->Close();
      // Before the supervisor may go.
      if (changed) CallUser("on_change", changed);
      std::lock_guard<std::mutex> lock(heard->mu);
      heard->died = true;
      heard->changed.notify_all();
    });
    impl->watched = true;
    SendSurely(*impl->system, impl->actor, [] { return begin_processes{}; });
    return supervisor;
  } catch (const std::exception& e) {
    return ResourceExhausted("no supervisor of processes could be started: ", e.what());
  }
}

ProcessSupervisor::~ProcessSupervisor() {
  OnSoundThread([this] {
    NoLoggerAfter restore;
    if (impl_->actor) {
      StopSurely(*impl_->system, impl_->actor);
      std::unique_lock<std::mutex> lock(impl_->heard->mu);
      impl_->heard->changed.wait(lock, [&] { return impl_->heard->died || !impl_->watched; });
    }
    // Its thread may still tell the actor something.
    impl_->launcher = nullptr;
    impl_->actor = nullptr;
    impl_->system = nullptr;
  });
}

absl::StatusOr<ProcessesStatus> ProcessSupervisor::status() const {
  TROUPE_ASSIGN_OR_RETURN(processes_state state, impl_->Ask<processes_state>(get_processes{}));
  return std::move(state.value);
}

absl::Status ProcessSupervisor::Signal(const std::string& name, int signal) {
  if (signal < 1 || signal > 64) return InvalidArgument("there is no signal ", signal);
  TROUPE_ASSIGN_OR_RETURN(const process_signalled noted, impl_->Ask<process_signalled>(signal_process{name, signal}));
  return noted.status;
}

absl::Status ProcessSupervisor::Release(const std::string& name) {
  TROUPE_ASSIGN_OR_RETURN(const process_signalled noted, impl_->Ask<process_signalled>(release_process{name}));
  return noted.status;
}

absl::StatusOr<bool> ProcessSupervisor::Wait(milliseconds at_most) const {
  TROUPE_RETURN_IF_ERROR(MaySupervise());
  Impl::Heard& h = *impl_->heard;
  std::unique_lock<std::mutex> lock(h.mu);
  h.changed.wait_for(lock, Bounded(at_most), [&] { return h.over || h.died; });
  if (h.died && !h.over) return Impl::Died();
  return h.over;
}

void ProcessSupervisor::BeginStop(milliseconds at_most) {
  SendSurely(*impl_->system, impl_->actor, [&] { return stop_processes{Bounded(at_most).count()}; });
}

absl::Status ProcessSupervisor::Stop(milliseconds at_most) {
  TROUPE_RETURN_IF_ERROR(MaySupervise());
  at_most = Bounded(at_most);
  BeginStop(at_most);
  // Who is killed is gone soon after, unless the system holds it.
  TROUPE_ASSIGN_OR_RETURN(const bool over, Wait(2 * at_most + std::chrono::seconds(30)));
  if (!over) return DeadlineExceeded("processes were killed, and the system has not ended them");
  std::lock_guard<std::mutex> lock(impl_->heard->mu);
  return impl_->heard->stopped;
}

}  // namespace troupe
