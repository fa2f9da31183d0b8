#include "actors/step/partial_step.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "actors/step/answers.h"
#include "actors/step/executor_set.h"
#include "actors/step/own_result.h"
#include "actors/threads/aside.h"
#include "actors/threads/no_memory.h"

namespace troupe {

// Made when the library is loaded: it may be given up because memory has run out.
static const absl::Status& kGivenUp = *new absl::Status(absl::CancelledError("the partial run was given up"));

void PartialStep::Start(const RunOptions& options, const Deadline& deadline) {
  fed_.assign(signature_->feeds.size(), false);
  ready_.assign(signature_->fetches.size(), false);
  fetched_ = ready_;
  values_.resize(ready_.size());
  std::shared_ptr<ExecutorSet> set(signature_->Lease().release(), [s = signature_](ExecutorSet* set) {
    s->Release(std::unique_ptr<ExecutorSet>(set));
  });
  set_ = set;
  if (options.cancellation != nullptr) token_ = *options.cancellation;
  set->Renew();
  me_ = shared_from_this();
  running_ = set.get();
  set->Begin(this, {}, true);
  set->CheckNumerics(options);
  set->Guard(options.cancellation, deadline);
  if (set->empty()) return Over();
  set->LaunchElsewhere(false);
}

void PartialStep::Feed(ExecutorSet* set, uint32_t index, const Tensor& value) {
  const int64_t step = set->step_id();
  for (uint32_t i = 0; i < set->executors().size(); ++i) {
    if (index >= set->executors()[i]->state().part().num_arguments) continue;
    const PartAddress part = set->executors()[i]->address();
    if (absl::Status s = set->transport().Deliver(part, argument{step, index, value}); !s.ok()) set->Stop(step, s);
  }
  RemoteParts* const remote = set->remote();
  for (size_t task = 0; remote != nullptr && task < remote->size(); ++task) {
    if (!remote->Takes(task, index)) continue;
    const RemotePlan::Task& t = remote->plan().tasks[task];
    if (absl::Status s = remote->ToPart({t.number, t.first_part}, argument{step, index, value}); !s.ok())
      set->Stop(step, s);
  }
}

void PartialStep::PartDone() {
  if (running_->CountDown(1)) Over();
}

void PartialStep::Over() {
  std::shared_ptr<void> at_exit;
  const std::shared_ptr<PartialStep> me = std::move(me_);
  const bool answers = running_->TakeAnswer();
  const absl::Status status = running_->FinishPartial();
  LetGo();
  // Once it is answered, the process may end: that waits for the step, whose signature may have the
  // last share of the runtime. Not before the step has let go of its memory: this needs some.
  UntilMemoryAllows([&] { at_exit = UntilExit(); });
  if (answers) OnDone(status);
}

absl::StatusOr<size_t> PartialStep::IndexOf(const Names& names, const std::string& name, const char* what) const {
  const auto parsed = ParseTensorName(name);
  if (!parsed.ok()) return parsed.status();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto have = ParseTensorName(names[i]);
    if (have.ok() && *have == *parsed) return i;
  }
  return InvalidArgument("'", name, "' is no ", what, " of this partial run");
}

absl::Status PartialStep::Run(const RunOptions& options, const Feeds& feeds, const Names& fetches,
                              std::vector<Tensor>* outputs) {
  const Deadline deadline = signature_->DeadlineOf(options);
  std::vector<size_t> wanted;
  std::vector<std::pair<size_t, const Tensor*>> given;
  std::unique_lock<std::mutex> lock(mu_);
  std::vector<bool> fed = fed_, fetched = fetched_;
  for (const auto& [name, value] : feeds) {
    TROUPE_ASSIGN_OR_RETURN(const size_t i, IndexOf(signature_->feeds, name, "feed"));
    if (fed[i]) return InvalidArgument("'", name, "' has been fed already");
    TROUPE_RETURN_IF_ERROR(signature_->CheckFeed(i, value));
    fed[i] = true;
    given.emplace_back(i, &value);
  }
  for (const std::string& name : fetches) {
    TROUPE_ASSIGN_OR_RETURN(const size_t i, IndexOf(signature_->fetches, name, "fetch"));
    if (fetched[i]) return InvalidArgument("'", name, "' has been fetched already");
    fetched[i] = true;
    wanted.push_back(i);
    for (const int feed : signature_->fetch_needs[i]) {
      if (!fed[feed])
        return InvalidArgument("fetch '", name, "' depends on '", signature_->feeds[feed], "', which has not been fed");
    }
  }
  if (done_ && !status_.ok()) return status_;
  if ((options.cancellation != nullptr && options.cancellation->cancelled()) || (token_ && token_->cancelled())) {
    // Nothing is fed and nothing taken: a value that is there at once would answer before the token
    // does.
    if (done_) status_ = CancelledByCaller();
    const std::shared_ptr<ExecutorSet> ended = set_;
    lock.unlock();
    if (ended != nullptr) ended->OnCancel();
    return CancelledByCaller();
  }
  fed_ = fed;
  fetched_ = fetched;
  const auto all = [](const std::vector<bool>& v) { return std::all_of(v.begin(), v.end(), [](bool b) { return b; }); };
  const bool last = all(fed) && all(fetched);
  // Null when the step has ended, or is about to say so.
  const std::shared_ptr<ExecutorSet> set = set_;
  lock.unlock();
  std::optional<Cancellation> cancellation;
  if (set != nullptr) {
    for (const auto& [i, value] : given) Feed(set.get(), static_cast<uint32_t>(i), *value);
    cancellation.emplace(options.cancellation, set.get());
    if (cancellation->cancelled()) set->OnCancel();
  }
  lock.lock();
  WaitFor(&lock, set.get(), deadline, [&] {
    return done_ || (!last && std::all_of(wanted.begin(), wanted.end(), [&](size_t i) { return ready_[i]; }));
  });
  lock.unlock();
  cancellation.reset();
  lock.lock();
  if (done_ && !status_.ok()) return status_;
  if (outputs != nullptr) outputs->clear();
  for (const size_t i : wanted) {
    Tensor t = std::move(values_[i]);
    if (!t.valid()) return NotTaken(signature_->fetches[i]);
    if (outputs == nullptr) continue;
    TROUPE_RETURN_IF_ERROR(OwnResult(signature_->fetches[i], &t));
    outputs->push_back(std::move(t));
  }
  return absl::OkStatus();
}

template <class F>
void PartialStep::WaitFor(std::unique_lock<std::mutex>* lock, ExecutorSet* set, const Deadline& deadline, F ready) {
  if (set == nullptr || deadline.at == SteadyTime::max()) return changed_.wait(*lock, ready);
  if (changed_.wait_until(*lock, deadline.at, ready)) return;
  lock->unlock();
  const absl::Status late = DeadlineStatus(deadline.ms, AskAndWait(set->executors(), &set->transport()));
  set->Abort(set->step_id(), late);
  lock->lock();
  // The executors answer in their turns, or the watch does when they do not.
  changed_.wait(*lock, [&] { return done_; });
}

void PartialStep::GiveUp() {
  std::unique_lock<std::mutex> lock(mu_);
  const std::shared_ptr<ExecutorSet> set = set_;
  lock.unlock();
  if (set != nullptr) set->Abort(set->step_id(), kGivenUp);
}

bool PartialStep::over() const {
  std::lock_guard<std::mutex> lock(mu_);
  return done_ && (!status_.ok() || std::all_of(fetched_.begin(), fetched_.end(), [](bool b) { return b; }));
}

absl::Status PartialStep::failure() const {
  std::lock_guard<std::mutex> lock(mu_);
  return done_ ? status_ : absl::OkStatus();
}

void PartialStep::ResultCame(uint32_t index, Tensor value) {
  std::lock_guard<std::mutex> lock(mu_);
  values_[index] = std::move(value);
  ready_[index] = true;
  changed_.notify_all();
}

void PartialStep::OnDone(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  done_ = true;
  status_ = status;
  changed_.notify_all();
}

void PartialStep::LetGo() {
  std::shared_ptr<ExecutorSet> set;
  std::lock_guard<std::mutex> lock(mu_);
  set.swap(set_);
}

}  // namespace troupe
