#include "actors/watch/step_watch.h"

#include <algorithm>

#include "actors/threads/lane.h"
#include "actors/step/answers.h"
#include "actors/step/cancel_later.h"
#include "actors/step/executor_set.h"
#include "actors/step/partial_step.h"
#include "actors/watch/stall_report.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"

namespace troupe {

namespace {

// A part that has not answered after this time is busy.
constexpr std::chrono::milliseconds kGrace{100};
// A step that has been told to end has this long until its call is answered without it.
constexpr std::chrono::milliseconds kEndGrace{50};
// After this time the watch looks again at what it had no memory for.
constexpr std::chrono::milliseconds kAgain{10};

}  // namespace

void StepWatch::PushAlarm(Time when, ExecutorSet* set, const WatchedCall* call) {
  if (when == Time::max()) return;
  try {
    alarms_.push_back({when, ++last_alarm_, set, call});
  } catch (const std::bad_alloc&) {
    alarms_lost_ = true;
    throw;
  }
  std::push_heap(alarms_.begin(), alarms_.end());
}

void StepWatch::RebuildAlarms() {
  alarms_.clear();
  for (const auto& [s, e] : steps_) PushAlarm(e.due(), s, nullptr);
  for (const auto& [c, e] : calls_) PushAlarm(e.when, nullptr, c);
}

bool StepWatch::SetAlarm(Time when, ExecutorSet* set, const WatchedCall* call) {
  if (alarms_.size() > 2 * (steps_.size() + calls_.size()) + 64) {
    // Most are out of date. What is added here is on its list already.
    RebuildAlarms();
  } else {
    PushAlarm(when, set, call);
  }
  if (when >= armed_) return false;
  armed_ = when;
  return true;
}

void StepWatch::WakeClock(Time when) {
  try {
    clock_->Wake(shared_from_this(), when);
  } catch (const std::bad_alloc&) {
    // The clock does not know of it: the next one must tell it again.
    std::lock_guard<std::mutex> lock(mu_);
    armed_ = Time::max();
    throw;
  }
}

void StepWatch::Add(ExecutorSet* set, int64_t step_id, const Deadline& deadline, int64_t stall_ms) {
  Entry e{set, step_id};
  e.timeout_ms = deadline.ms;
  e.deadline = deadline.at;
  e.stall_ms = stall_ms;
  if (stall_ms > 0) {
    e.progress_at = clock_->Now();
    e.check = TimeAfter(e.progress_at, stall_ms / 2 + stall_ms % 2);
  }
  const Time due = e.due();
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto [it, is_new] = steps_.try_emplace(set, e);
    // Whoever stopped the step came before: it is answered soon, whatever its deadline is.
    if (!is_new && it->second.step_id == step_id && it->second.state == State::kEnding) return;
    it->second = std::move(e);
    if (!SetAlarm(due, set, nullptr)) return;
  }
  WakeClock(due);
}

// A step for which there is no memory here ends as soon as its kernels return.
void StepWatch::Stopped(ExecutorSet* set, int64_t step_id, bool begun) noexcept {
  const Time now = clock_->Now();
  Time due = Time::max();
  try {
    {
      std::lock_guard<std::mutex> lock(mu_);
      // An answer that is given takes the step off this list under its lock, or is seen here.
      if (!set->unanswered(step_id)) return;
      Entry& e = steps_.try_emplace(set, Entry{set, step_id}).first->second;
      if (e.state == State::kEnding) return;
      BeginEnding(&e, now, begun);
      due = e.due();
      if (!SetAlarm(due, set, nullptr)) return;
    }
    WakeClock(due);
  } catch (const std::bad_alloc&) {
  }
}

void StepWatch::Remove(ExecutorSet* set) {
  std::lock_guard<std::mutex> lock(mu_);
  steps_.erase(set);
}

void StepWatch::Add(std::shared_ptr<WatchedCall> call, Time when) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    const WatchedCall* key = call.get();
    calls_.insert_or_assign(key, Call{std::move(call), when});
    if (!SetAlarm(when, nullptr, key)) return;
  }
  WakeClock(when);
}

void StepWatch::Remove(const WatchedCall* call) {
  std::shared_ptr<WatchedCall> last;  // may be
  std::lock_guard<std::mutex> lock(mu_);
  const auto c = calls_.find(call);
  if (c == calls_.end()) return;
  last = std::move(c->second.call);
  calls_.erase(c);
}

size_t StepWatch::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return steps_.size() + calls_.size();
}

void StepWatch::EndReports(bool wait) {
  std::unique_lock<std::mutex> lock(mu_);
  reports_ended_ = true;
  if (wait) reported_.wait(lock, [&] { return reporting_ == 0; });
}

void StepWatch::GiveReport(const std::string& text) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (reports_ended_) return;
    ++reporting_;
  }
  report_(text);
  std::lock_guard<std::mutex> lock(mu_);
  if (--reporting_ == 0) reported_.notify_all();
}

StepWatch::Time StepWatch::Look() noexcept {
  Later later;
  CancelLater cancel;
  Time next = Time::max();
  try {
    next = LookAtDue(&later);
  } catch (...) {
    next = clock_->Now() + kAgain;
    std::lock_guard<std::mutex> lock(mu_);
    alarms_lost_ = true;
    armed_ = next;
  }
  // The answers first: a callback of a kernel may take its time.
  DoLater(&later);
  cancel.Flush();
  return next;
}

StepWatch::Time StepWatch::LookAtDue(Later* later) {
  Time next = Time::max();
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Time now = clock_->Now();
    armed_ = now;  // what is set meanwhile is part of the answer
    later->reports.swap(reports_due_);
    if (alarms_lost_) {
      RebuildAlarms();
      alarms_lost_ = false;
    }
    while (!alarms_.empty() && alarms_.front().when <= now) {
      std::pop_heap(alarms_.begin(), alarms_.end());
      const Alarm a = alarms_.back();
      alarms_.pop_back();
      if (a.set != nullptr) {
        LookAtStep(a.set, now, later);
      } else {
        LookAtCall(a.call, now, later);
      }
    }
    if (!alarms_.empty()) next = alarms_.front().when;
    armed_ = next;
  }
  return next;
}

void StepWatch::LookAtStep(ExecutorSet* set, Time now, Later* later) {
  const auto it = steps_.find(set);
  if (it == steps_.end() || it->second.due() > now) return;
  Entry& e = it->second;
  if (now >= e.deadline) {
    switch (e.state) {
      case State::kWatched:
      case State::kAsking:
        e.state = State::kExpiring;
        e.deadline = now + kGrace;
        e.check = Time::max();
        Ask(&e);
        break;
      case State::kExpiring:
        Expire(&e, now);
        break;
      case State::kEnding:
        later->answers.emplace_back();
        if (!set->AnswerEarly(e.step_id, LinesOf(e), &later->answers.back())) later->answers.pop_back();
        steps_.erase(it);
        return;
    }
  }
  if (now >= e.check) CheckProgress(&e, now, later);
  SetAlarm(e.due(), set, nullptr);
}

void StepWatch::LookAtCall(const WatchedCall* call, Time now, Later* later) {
  const auto it = calls_.find(call);
  if (it == calls_.end() || it->second.when > now) return;
  later->calls.push_back(std::move(it->second.call));
  calls_.erase(it);
}

void StepWatch::DoLater(Later* later) {
  // Each for itself: of what one has no memory for, the others know nothing.
  const auto each = [](auto&& list, auto&& f) {
    for (auto& item : list) {
      if (absl::Status s = Guarded("the clock", [&] { f(item); }); !s.ok()) LogError(s.message());
    }
  };
  each(later->reports, [this](const std::string& text) { GiveReport(text); });
  each(later->answers, [](EarlyAnswer& a) {
    if (a.partial != nullptr) {
      a.partial->OnDone(a.status);
    } else {
      CallDone(a.done, std::move(a.status), {});
    }
  });
  each(later->calls, [](const std::shared_ptr<WatchedCall>& call) { call->TimeIsUp(); });
}

void StepWatch::CheckProgress(Entry* e, Time now, Later* later) {
  const std::chrono::milliseconds half(e->stall_ms / 2 + e->stall_ms % 2);
  e->check = TimeAfter(now, half.count());
  const int64_t progress = e->set->nodes_run();
  if (progress != e->progress) {
    e->progress = progress;
    e->progress_at = now;
    e->state = State::kWatched;
  } else if (e->state == State::kAsking) {
    later->reports.push_back(Report(e));
  } else if (now - e->progress_at >= std::chrono::milliseconds(e->stall_ms)) {
    e->progress_at = now;
    e->state = State::kAsking;
    e->check = now + std::min(half, kGrace);
    Ask(e);
  }
}

// Under the lock, which keeps the executors. On this thread nobody answers before this returns.
void StepWatch::Ask(Entry* e) {
  e->question = std::make_shared<StepQuestion>(e->set->executors());
  e->question->Ask(&e->set->transport(),
                   [watch = weak_from_this(), set = e->set](const std::shared_ptr<StepQuestion>& question) {
                     if (auto w = watch.lock()) w->Answered(set, question);
                   });
}

// None when there was no memory for the question.
std::vector<std::string> StepWatch::LinesOf(const Entry& e) {
  return e.question != nullptr ? e.question->Lines() : std::vector<std::string>();
}

std::string StepWatch::Report(Entry* e) {
  e->state = State::kWatched;
  return StallText(e->step_id, e->set->Describe(), e->stall_ms, LinesOf(*e));
}

void StepWatch::Expire(Entry* e, Time now) {
  e->set->Stop(e->step_id, DeadlineStatus(e->timeout_ms, LinesOf(*e)));
  BeginEnding(e, now);
}

void StepWatch::BeginEnding(Entry* e, Time now, bool begun) noexcept {
  e->state = State::kEnding;
  e->deadline = now + kEndGrace;
  e->check = Time::max();
  e->question = nullptr;
  if (!begun) return;
  try {
    Ask(e);
  } catch (const std::bad_alloc&) {
    // The answer does not say what has not returned.
  }
}

// A part tells its report where nothing may be thrown. Without memory for what follows, the step is
// looked at 100 ms after it was asked, as if a part had not answered.
void StepWatch::Answered(ExecutorSet* set, const std::shared_ptr<StepQuestion>& question) noexcept {
  std::string text;
  Time due = Time::max();
  CancelLater cancel;
  try {
    {
      std::lock_guard<std::mutex> lock(mu_);
      const auto it = steps_.find(set);
      if (it == steps_.end() || it->second.question != question) return;
      Entry& e = it->second;
      if (e.state == State::kExpiring) {
        Expire(&e, clock_->Now());
        if (SetAlarm(e.due(), set, nullptr)) due = e.due();
      } else if (e.state == State::kAsking && e.set->nodes_run() == e.progress) {
        text = Report(&e);
        // A lane's thread is its caller's, who may hold what `on_stall` takes: the clock gives it.
        if (InsideLane()) {
          reports_due_.push_back(std::exchange(text, std::string()));
          due = clock_->Now();
        }
      }
    }
    if (due != Time::max()) WakeClock(due);
    if (!text.empty()) GiveReport(text);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace troupe
