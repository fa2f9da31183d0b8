#include "actors/threads/inside_actor.h"
#include "actors/session/partial_runs.h"

#include <algorithm>
#include <new>

#include "actors/session/session_impl.h"
#include "actors/step/partial_step.h"
#include "graph/core/guarded.h"

namespace troupe {

absl::StatusOr<std::string> PartialRuns::Add(
    const std::function<absl::StatusOr<std::shared_ptr<PartialStep>>()>& begin) {
  std::string handle;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (runs_.size() >= std::min(sweep_at_, bound_)) SweepLocked();
    if (runs_.size() >= bound_) {
      return ResourceExhausted(bound_, " partial runs are open, which is SessionOptions.max_partial_runs: ",
                               "take their fetches, give them a deadline, or give them up by PartialRunCancel");
    }
    handle = StrCat("partial/", ++last_);
    runs_[handle] = nullptr;
  }
  absl::StatusOr<std::shared_ptr<PartialStep>> step = absl::UnknownError("it was not begun");
  const absl::Status begun = Guarded("the beginning of a partial run", [&] {
    step = begin();
    return step.status();
  });
  std::shared_ptr<PartialStep> late;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = runs_.find(handle);
    if (!begun.ok()) {
      if (it != runs_.end()) runs_.erase(it);
      return begun;
    }
    if (it != runs_.end()) {
      it->second = *std::move(step);
    } else {
      late = *std::move(step);
    }
  }
  if (late != nullptr) late->GiveUp();
  return handle;
}

absl::StatusOr<std::shared_ptr<PartialStep>> PartialRuns::Find(const std::string& handle) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = runs_.find(handle);
  if (it == runs_.end() || it->second == nullptr) return NotThereLocked(handle);
  return it->second;
}

absl::StatusOr<std::shared_ptr<PartialStep>> PartialRuns::Remove(const std::string& handle) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = runs_.find(handle);
  if (it == runs_.end() || it->second == nullptr) return NotThereLocked(handle);
  std::shared_ptr<PartialStep> step = std::move(it->second);
  runs_.erase(it);
  return step;
}

void PartialRuns::GiveUpAll() {
  decltype(runs_) runs;
  {
    std::lock_guard<std::mutex> lock(mu_);
    runs.swap(runs_);
  }
  for (const auto& [handle, step] : runs) {
    if (step != nullptr) step->GiveUp();
  }
}

void PartialRuns::SweepLocked() {
  constexpr size_t kRemembered = 64;
  for (auto it = runs_.begin(); it != runs_.end();) {
    if (it->second == nullptr || !it->second->over()) {
      ++it;
      continue;
    }
    absl::Status why = it->second->failure();
    if (!why.ok()) failed_.emplace_back(it->first, std::move(why));
    it = runs_.erase(it);
  }
  while (failed_.size() > kRemembered) failed_.pop_front();
  sweep_at_ = 2 * runs_.size() + 16;
}

absl::Status PartialRuns::NotThereLocked(const std::string& handle) {
  for (auto it = failed_.begin(); it != failed_.end(); ++it) {
    if (it->first != handle) continue;
    absl::Status why = std::move(it->second);
    failed_.erase(it);
    return why;
  }
  return InvalidArgument("there is no partial run '", handle, "': it has not been set up, or is over");
}

absl::StatusOr<std::string> Session::PartialRunSetup(const RunOptions& options, const NameList& feeds,
                                                     const NameList& fetches, const NameList& targets) {
  if (impl_->elsewhere != nullptr) {
    TROUPE_RETURN_IF_ERROR(impl_->MayAsk("PartialRunSetup"));
    run_request step{{}, fetches.get(), targets.get(), options};
    for (const std::string& name : feeds.get()) step.feeds.emplace_back(name, Tensor());
    return impl_->elsewhere->PartialRunSetup(std::move(step));
  }
  const Deadline deadline = impl_->DeadlineOf(options.timeout_ms);
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Signature> s,
                          impl_->Find(feeds.get(), fetches.get(), targets.get(), deadline, options.cancellation));
  if (options.cancellation != nullptr && options.cancellation->cancelled()) return CancelledByCaller();
  const auto begin = [&]() -> absl::StatusOr<std::shared_ptr<PartialStep>> {
    if (s->turns != nullptr) TROUPE_RETURN_IF_ERROR(s->turns->Start());
    auto step = std::make_shared<PartialStep>(std::move(s));
    step->Start(options, deadline);
    return step;
  };
  TROUPE_ASSIGN_OR_RETURN(std::string handle, Guarded("a partial run", [&] { return impl_->partial.Add(begin); }));
  // Close gives up what it finds.
  if (impl_->closed->load()) impl_->partial.GiveUpAll();
  return handle;
}

absl::Status Session::PartialRun(const RunOptions& options, const std::string& handle, const FeedList& feeds,
                                 const NameList& fetches, std::vector<Tensor>* outputs) {
  TROUPE_RETURN_IF_ERROR(impl_->MayAsk("PartialRun"));
  if (impl_->elsewhere != nullptr) {
    run_request step{feeds.get(), fetches.get(), {}, options};
    if (step.options.timeout_ms == 0) step.options.timeout_ms = impl_->options.operation_timeout_ms;
    return impl_->elsewhere->PartialRun(handle, std::move(step), outputs);
  }
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<PartialStep> step, impl_->partial.Find(handle));
  absl::Status s;
  try {
    s = step->Run(options, feeds.get(), fetches.get(), outputs);
  } catch (const std::bad_alloc&) {
    // Some of the feeds may have come, others not.
    step->GiveUp();
    s = ThrownStatus("the partial run");
  }
  if (step->over()) impl_->partial.Remove(handle).IgnoreError();
  return s;
}

absl::Status Session::PartialRunCancel(const std::string& handle) {
  if (impl_->process != ThisProcess()) return OfAnotherProcess("session");
  if (impl_->elsewhere != nullptr) {
    impl_->elsewhere->PartialRunCancel(handle);
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<PartialStep> step, impl_->partial.Remove(handle));
  step->GiveUp();
  return absl::OkStatus();
}

}  // namespace troupe
