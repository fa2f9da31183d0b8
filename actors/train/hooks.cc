#include "troupe/train/hooks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>

#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/threads/aside.h"
#include "actors/watch/call_wait.h"
#include "graph/core/log.h"
#include "troupe/files.h"
#include "troupe/proto/config.pb.h"
#include "troupe/train/global_step.h"
#include "troupe/train/monitored_session.h"
#include "troupe/variable.h"

namespace troupe::train {
namespace {

// The name of the node whose value is the global step.
absl::StatusOr<std::string> GlobalStepOf(const Scope& root, std::string_view hook) {
  const std::vector<Variable> found = VariablesIn(root, kGlobalStep);
  if (found.empty()) return FailedPrecondition(hook, " needs a global step: train::GetOrCreateGlobalStep makes one");
  return Output(found[0]).name();
}

absl::StatusOr<int64_t> AsStep(const Tensor& t) {
  if (t.rank() == 0 && t.dtype() == DType::kInt64) return t.scalar<int64_t>();
  if (t.rank() == 0 && t.dtype() == DType::kInt32) return t.scalar<int32_t>();
  return InvalidArgument("the global step is ", t.TypeAndShape(), ", but should be an integer scalar");
}

absl::StatusOr<int64_t> StepNow(Session& session, const std::string& global_step) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor t, session.Get(global_step));
  return AsStep(t);
}

absl::Status CheckEvery(Every every, std::string_view hook) {
  return every.valid() ? absl::OkStatus()
                       : InvalidArgument(hook, " needs either a number of steps above 0 or of seconds");
}

// The signal that told the process to end; 0 = none yet. StopOnSignalHook's.
std::atomic<int> told_to_end{0};
std::atomic<bool> signals_taken{false};

// Safe in a signal handler: lock-free atomics, signal and raise alone.
void OnSignal(int signal) {
  static_assert(std::atomic<int>::is_always_lock_free);
  if (told_to_end.exchange(signal, std::memory_order_relaxed) == 0) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // taken when this handler returns
}

}  // namespace

Hook::~Hook() = default;
absl::Status Hook::Begin(const Scope&) { return absl::OkStatus(); }
absl::Status Hook::AfterCreateSession(Session&) { return absl::OkStatus(); }
absl::StatusOr<RunArgs> Hook::BeforeRun(RunContext&) { return RunArgs{}; }
absl::Status Hook::AfterRun(RunContext&, const RunValues&) { return absl::OkStatus(); }
absl::Status Hook::SessionEnded() { return absl::OkStatus(); }
absl::Status Hook::End(Session&) { return absl::OkStatus(); }
bool Hook::ShouldStop() const { return false; }

bool StepTimer::IsDue(int64_t step) const {
  if (!last_step_) return true;
  if (step == *last_step_) return false;
  if (every_.steps > 0) return step >= *last_step_ + every_.steps;
  return std::chrono::steady_clock::now() - last_time_ >= std::chrono::duration<double>(every_.seconds);
}

bool StepTimer::IsNear(int64_t step) const {
  if (!last_step_) return false;
  if (every_.steps > 0) return step - *last_step_ >= every_.steps - std::max<int64_t>(every_.steps / 10, 1);
  return std::chrono::steady_clock::now() - last_time_ >= std::chrono::duration<double>(every_.seconds * 0.9);
}

std::pair<int64_t, double> StepTimer::Update(int64_t step) {
  const auto now = std::chrono::steady_clock::now();
  std::pair<int64_t, double> since{0, 0.0};
  if (last_step_) since = {step - *last_step_, std::chrono::duration<double>(now - last_time_).count()};
  last_step_ = step;
  last_time_ = now;
  return since;
}

absl::Status StopAtStepHook::Begin(const Scope& root) {
  TROUPE_ASSIGN_OR_RETURN(global_step_, GlobalStepOf(root, "StopAtStepHook"));
  return absl::OkStatus();
}
absl::Status StopAtStepHook::AfterCreateSession(Session& session) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t step, StepNow(session, global_step_));
  if (last_ < 0) last_ = step + std::min(steps_, std::numeric_limits<int64_t>::max() - std::max<int64_t>(step, 0));
  // A session that goes on from a checkpoint may have nothing left to do.
  reached_ = step >= last_;
  return absl::OkStatus();
}
absl::StatusOr<RunArgs> StopAtStepHook::BeforeRun(RunContext&) { return RunArgs{.fetches = {global_step_}}; }
absl::Status StopAtStepHook::AfterRun(RunContext& context, const RunValues& values) {
  // What was fetched may be from before the step's own update.
  TROUPE_ASSIGN_OR_RETURN(int64_t step, AsStep(values.fetches[0]));
  if (step < last_ - 1) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(step, StepNow(context.session(), global_step_));
  reached_ = step >= last_;
  if (reached_) context.RequestStop();
  return absl::OkStatus();
}

StopOnSignalHook::~StopOnSignalHook() {
  if (!installed_) return;
  ::sigaction(SIGINT, &before_[0], nullptr);
  ::sigaction(SIGTERM, &before_[1], nullptr);
  signals_taken = false;
}
absl::Status StopOnSignalHook::Begin(const Scope&) {
  if (installed_) return absl::OkStatus();
  if (signals_taken.exchange(true)) return FailedPrecondition("there is another StopOnSignalHook already");
  told_to_end = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  const int signals[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; ++i) {
    ::sigaction(signals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &action, nullptr);
  }
  installed_ = true;
  return absl::OkStatus();
}
bool StopOnSignalHook::ShouldStop() const { return told_to_end.load(std::memory_order_relaxed) != 0; }

struct CheckpointSaverHook::Saves {
  std::mutex mu;
  absl::Status failed;  // the first error that nobody has been told
  bool writing = false;
  bool Writing() {
    std::lock_guard<std::mutex> lock(mu);
    return writing;
  }
  absl::Status Take() {
    std::lock_guard<std::mutex> lock(mu);
    return std::exchange(failed, absl::OkStatus());
  }
};

CheckpointSaverHook::CheckpointSaverHook(CheckpointSaverOptions options, std::optional<Saver> saver)
    : options_(std::move(options)),
      saver_(std::move(saver)),
      timer_(options_.every),
      saves_(std::make_shared<Saves>()) {}
CheckpointSaverHook::~CheckpointSaverHook() {
  if (saver_) saver_->WaitForSaves();
}
absl::Status CheckpointSaverHook::Begin(const Scope& root) {
  TROUPE_RETURN_IF_ERROR(CheckEvery(options_.every, "CheckpointSaverHook"));
  if (options_.folder.empty()) return InvalidArgument("CheckpointSaverHook needs a folder");
  TROUPE_ASSIGN_OR_RETURN(global_step_, GlobalStepOf(root, "CheckpointSaverHook"));
  if (!saver_ && options_.scaffold == nullptr) saver_.emplace(root);
  graph_ = root.graph();
  return root.status();
}
absl::Status CheckpointSaverHook::Save(Session& session, int64_t step, bool wait) {
  SaveOptions how{.global_step = step, .graph = graph_};
  const auto done = [saves = saves_, events = options_.events, after = options_.after_save,
                     step](absl::StatusOr<std::string> path) {
    absl::Status s = path.status();
    if (s.ok() && events != nullptr) s = events->AddSessionLog(SessionEvent::kCheckpoint, step, *path);
    if (s.ok() && after) CallUser("after_save of a CheckpointSaverHook", [&] { after(*path, step); });
    std::lock_guard<std::mutex> lock(saves->mu);
    saves->writing = false;
    if (saves->failed.ok()) saves->failed = std::move(s);
  };
  {
    std::lock_guard<std::mutex> lock(saves_->mu);
    saves_->writing = true;
  }
  const std::string path = files::Join(options_.folder, options_.name);
  if (options_.beside_steps && !wait) {
    saver_->SaveAsync(session, path, how, done);
  } else {
    done(saver_->Save(session, path, how));
  }
  if (wait) saver_->WaitForSaves();
  return saves_->Take();
}
absl::Status CheckpointSaverHook::AfterCreateSession(Session& session) {
  if (!saver_) saver_ = options_.scaffold->saver;
  if (!saver_) return FailedPrecondition("CheckpointSaverHook has no Saver: the graph has no variables");
  TROUPE_ASSIGN_OR_RETURN(const int64_t step, StepNow(session, global_step_));
  timer_.Update(step);
  return Save(session, step, true);
}
absl::StatusOr<RunArgs> CheckpointSaverHook::BeforeRun(RunContext&) { return RunArgs{.fetches = {global_step_}}; }
absl::Status CheckpointSaverHook::AfterRun(RunContext& context, const RunValues& values) {
  TROUPE_RETURN_IF_ERROR(saves_->Take());
  TROUPE_ASSIGN_OR_RETURN(int64_t step, AsStep(values.fetches[0]));
  // A disk that is slower than the steps must not collect snapshots without bound.
  const bool due = timer_.IsDue(step + 1);
  if ((!due && !timer_.IsNear(step + 1)) || saves_->Writing()) return absl::OkStatus();
  if (!due) {
    if (options_.beside_steps) saver_->ExpectSave();
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(step, StepNow(context.session(), global_step_));
  if (!timer_.IsDue(step)) return absl::OkStatus();
  timer_.Update(step);
  return Save(context.session(), step, false);
}
absl::Status CheckpointSaverHook::SessionEnded() {
  if (!saver_) return absl::OkStatus();
  saver_->WaitForSaves();
  const absl::Status s = saves_->Take();
  // That the session was lost is known.
  const bool known = absl::IsAborted(s) || absl::IsUnavailable(s) || absl::IsCancelled(s);
  return known ? absl::OkStatus() : s;
}
// Nobody makes a session again after this, so what is cut off by a death is done again for some
// five seconds: whenever an actor has taken the place of a dead one, and after pauses, since others
// than actors may be cut off, too.
absl::Status CheckpointSaverHook::End(Session& session) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + std::chrono::seconds(5);
  const Directory& directory = *session.runtime()->impl()->directory;
  const auto cut_off = [&](const absl::Status& s) {
    return (absl::IsAborted(s) || absl::IsUnavailable(s)) && !HasLeftCluster(*session.runtime());
  };
  saver_->WaitForSaves();
  absl::Status last = saves_->Take();
  if (!last.ok() && !cut_off(last)) return last;
  bool lost = !last.ok();  // the save of the step that was due last
  for (std::chrono::milliseconds pause(10);; pause *= 2) {
    const uint64_t seen = directory.arrivals();
    const absl::StatusOr<int64_t> step = StepNow(session, global_step_);
    if (step.ok() && !lost && timer_.last_step() == *step) return absl::OkStatus();
    last = step.ok() ? Save(session, *step, true) : step.status();
    lost |= step.ok();
    const Clock::time_point now = Clock::now();
    if (last.ok() || !cut_off(last) || now >= until) return last;
    directory.WaitForArrival(seen, std::min(until, now + pause));
  }
}

StepCounterHook::StepCounterHook(std::shared_ptr<FileWriter> events, Every every)
    : events_(std::move(events)), timer_(every) {}
absl::Status StepCounterHook::Begin(const Scope& root) {
  TROUPE_RETURN_IF_ERROR(CheckEvery(timer_.every(), "StepCounterHook"));
  TROUPE_ASSIGN_OR_RETURN(global_step_, GlobalStepOf(root, "StepCounterHook"));
  return events_ != nullptr ? absl::OkStatus() : InvalidArgument("StepCounterHook needs a FileWriter");
}
absl::StatusOr<RunArgs> StepCounterHook::BeforeRun(RunContext&) { return RunArgs{.fetches = {global_step_}}; }
absl::Status StepCounterHook::AfterRun(RunContext& context, const RunValues& values) {
  TROUPE_ASSIGN_OR_RETURN(int64_t step, AsStep(values.fetches[0]));
  if (!timer_.IsDue(step + 1)) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(step, StepNow(context.session(), global_step_));
  if (!timer_.IsDue(step)) return absl::OkStatus();
  const auto [steps, seconds] = timer_.Update(step);
  if (steps <= 0 || seconds <= 0) return absl::OkStatus();
  return events_->AddScalar("global_step/sec", static_cast<float>(static_cast<double>(steps) / seconds), step);
}

SummarySaverHook::SummarySaverHook(std::shared_ptr<FileWriter> events, const GraphName& summary, Every every)
    : events_(std::move(events)), summary_(summary.text()), timer_(every) {}
absl::Status SummarySaverHook::Begin(const Scope& root) {
  TROUPE_RETURN_IF_ERROR(CheckEvery(timer_.every(), "SummarySaverHook"));
  TROUPE_ASSIGN_OR_RETURN(global_step_, GlobalStepOf(root, "SummarySaverHook"));
  return events_ != nullptr ? absl::OkStatus() : InvalidArgument("SummarySaverHook needs a FileWriter");
}
absl::StatusOr<RunArgs> SummarySaverHook::BeforeRun(RunContext&) {
  requested_ = !next_step_ || timer_.IsDue(*next_step_);
  RunArgs args{.fetches = {global_step_}};
  if (requested_) args.fetches.push_back(summary_);
  return args;
}
absl::Status SummarySaverHook::AfterRun(RunContext& context, const RunValues& values) {
  TROUPE_ASSIGN_OR_RETURN(int64_t step, AsStep(values.fetches[0]));
  ++step;
  if (!next_step_ || requested_) {
    TROUPE_ASSIGN_OR_RETURN(step, StepNow(context.session(), global_step_));
  }
  if (!next_step_) TROUPE_RETURN_IF_ERROR(events_->AddSessionLog(SessionEvent::kStart, step));
  next_step_ = step + 1;
  if (!requested_) return absl::OkStatus();
  timer_.Update(step);
  const Tensor& summary = values.fetches[1];
  if (summary.dtype() != DType::kString || summary.rank() != 0) {
    return InvalidArgument("'", summary_, "' is ", summary.TypeAndShape(), " and no summary");
  }
  return events_->AddSummary(summary.scalar<std::string>(), step);
}
absl::Status SummarySaverHook::End(Session&) { return events_->Flush(); }

LoggingHook::LoggingHook(Tensors tensors, Every every, std::function<void(const std::string&)> print)
    : tensors_(std::move(tensors)), timer_(every), print_(std::move(print)) {}
absl::Status LoggingHook::Begin(const Scope&) { return CheckEvery(timer_.every(), "LoggingHook"); }
absl::StatusOr<RunArgs> LoggingHook::BeforeRun(RunContext&) {
  RunArgs args;
  due_ = timer_.IsDue(step_ + 1);
  for (const auto& [name, tensor] : tensors_) {
    if (due_) args.fetches.push_back(tensor.text());
  }
  return args;
}
absl::Status LoggingHook::AfterRun(RunContext&, const RunValues& values) {
  ++step_;
  if (!due_) return absl::OkStatus();
  timer_.Update(step_);
  std::string line = StrCat("step ", step_, ":");
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& t = values.fetches[i];
    std::string text = t.DebugString();
    // Of a scalar its value alone.
    if (const size_t open = text.find('['); t.rank() == 0 && open != std::string::npos) {
      if (const size_t at = text.find('[', open + 1); at != std::string::npos)
        text = text.substr(at + 1, text.size() - at - 2);
    }
    StrAppend(&line, i == 0 ? " " : ", ", tensors_[i].first, " = ", text);
  }
  if (print_) {
    print_(line);
  } else {
    LogInfo(line);
  }
  return absl::OkStatus();
}

absl::StatusOr<RunArgs> NanHook::BeforeRun(RunContext&) { return RunArgs{.fetches = {tensor_}}; }
absl::Status NanHook::AfterRun(RunContext& context, const RunValues& values) {
  const Tensor& t = values.fetches[0];
  const bool bad = VisitNumeric(t.dtype(), false, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      for (int64_t i = 0; i < t.num_elements(); ++i) {
        if (std::isnan(static_cast<double>(t.data<T>()[i]))) return true;
      }
    }
    return false;
  });
  if (!bad) return absl::OkStatus();
  if (fail_) return InvalidArgument("'", tensor_, "' is not a number");
  context.RequestStop();
  return absl::OkStatus();
}

absl::Status NumericsHook::Begin(const Scope&) { return CheckEvery(timer_.every(), "NumericsHook"); }
absl::StatusOr<RunArgs> NumericsHook::BeforeRun(RunContext&) {
  due_ = timer_.IsDue(step_);
  return RunArgs{.check_numerics = due_, .numerics_folder = due_ ? folder_ : ""};
}
absl::Status NumericsHook::AfterRun(RunContext&, const RunValues&) {
  if (due_) timer_.Update(step_);
  ++step_;
  return absl::OkStatus();
}

absl::StatusOr<RunArgs> FeedHook::BeforeRun(RunContext&) {
  if (!next_) return InvalidArgument("FeedHook has no function that gives what to feed");
  TROUPE_ASSIGN_OR_RETURN(Feeds feeds, next_());
  return RunArgs{.feeds = std::move(feeds)};
}

absl::Status GlobalStepWaiterHook::Begin(const Scope& root) {
  TROUPE_ASSIGN_OR_RETURN(global_step_, GlobalStepOf(root, "GlobalStepWaiterHook"));
  return absl::OkStatus();
}
absl::StatusOr<RunArgs> GlobalStepWaiterHook::BeforeRun(RunContext& context) {
  const SteadyTime limit = TimeAfter(std::chrono::steady_clock::now(), max_wait_ms_);
  for (auto pause = std::chrono::milliseconds(1); !reached_;
       pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t step, StepNow(context.session(), global_step_));
    reached_ = step >= until_;
    if (reached_) break;
    if (std::chrono::steady_clock::now() >= limit) {
      return DeadlineExceeded("the global step is ", step, " and not yet ", until_, " after ", max_wait_ms_, " ms");
    }
    std::this_thread::sleep_for(pause);
  }
  return RunArgs{};
}

ProfilerHook::ProfilerHook(std::shared_ptr<FileWriter> events, Every every)
    : events_(std::move(events)), timer_(every) {}
absl::Status ProfilerHook::Begin(const Scope& root) {
  TROUPE_RETURN_IF_ERROR(CheckEvery(timer_.every(), "ProfilerHook"));
  TROUPE_ASSIGN_OR_RETURN(global_step_, GlobalStepOf(root, "ProfilerHook"));
  return events_ != nullptr ? absl::OkStatus() : InvalidArgument("ProfilerHook needs a FileWriter");
}
absl::StatusOr<RunArgs> ProfilerHook::BeforeRun(RunContext&) {
  // Not the first step, which compiles and allocates.
  requested_ = next_step_ && timer_.IsDue(*next_step_);
  return RunArgs{.fetches = {global_step_}, .collect_stats = requested_};
}
absl::Status ProfilerHook::AfterRun(RunContext& context, const RunValues& values) {
  TROUPE_ASSIGN_OR_RETURN(int64_t step, AsStep(values.fetches[0]));
  ++step;
  if (!next_step_) timer_.Update(step);
  if (requested_ && values.metadata != nullptr) {
    TROUPE_ASSIGN_OR_RETURN(step, StepNow(context.session(), global_step_));
    timer_.Update(step);
    // A step that is done again after a failure has its place in the file already.
    const absl::Status added = events_->AddRunMetadata(*values.metadata, StrCat("step_", step), step);
    if (!added.ok() && !absl::IsAlreadyExists(added)) return added;
  }
  next_step_ = step + 1;
  return absl::OkStatus();
}

}  // namespace troupe::train
