#include "actors/step_watch.h"

#include <algorithm>

#include "actors/partial_step.h"
#include "actors/signature.h"
#include "actors/stall_report.h"

namespace troupe {

namespace {

// A part that has not answered after this time is busy.
constexpr std::chrono::milliseconds kGrace{100};
// A step that has been told to end has this long until its call is answered without it.
constexpr std::chrono::milliseconds kEndGrace{50};

}  // namespace

bool StepWatch::Sooner(Time due) {
  if (due >= armed_) return false;
  armed_ = due;
  return true;
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
    steps_.push_back(std::move(e));
    if (!Sooner(due)) return;
  }
  clock_->Wake(shared_from_this(), due);
}

void StepWatch::Stopped(ExecutorSet* set, int64_t step_id) {
  const Time now = clock_->Now();
  Time due = Time::max();
  {
    std::lock_guard<std::mutex> lock(mu_);
    // An answer that is given takes the step off this list under its lock, or is seen here.
    if (!set->unanswered(step_id)) return;
    auto e = std::find_if(steps_.begin(), steps_.end(), [&](const Entry& x) { return x.set == set; });
    if (e == steps_.end()) {
      steps_.push_back({set, step_id});
      e = steps_.end() - 1;
    }
    if (e->state == State::kEnding) return;
    BeginEnding(&*e, now);
    due = e->due();
    if (!Sooner(due)) return;
  }
  clock_->Wake(shared_from_this(), due);
}

void StepWatch::Remove(ExecutorSet* set) {
  std::lock_guard<std::mutex> lock(mu_);
  std::erase_if(steps_, [&](const Entry& e) { return e.set == set; });
}

void StepWatch::Add(std::shared_ptr<WatchedCall> call, Time when) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto c = std::find_if(calls_.begin(), calls_.end(), [&](const Call& x) { return x.call == call; });
    if (c == calls_.end()) {
      calls_.push_back({std::move(call), when});
    } else {
      c->when = when;
    }
    if (!Sooner(when)) return;
  }
  clock_->Wake(shared_from_this(), when);
}

void StepWatch::Remove(const WatchedCall* call) {
  std::shared_ptr<WatchedCall> last;  // may be
  std::lock_guard<std::mutex> lock(mu_);
  const auto c = std::find_if(calls_.begin(), calls_.end(), [&](const Call& x) { return x.call.get() == call; });
  if (c == calls_.end()) return;
  last = std::move(c->call);
  calls_.erase(c);
}

size_t StepWatch::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return steps_.size() + calls_.size();
}

StepWatch::Time StepWatch::Look() {
  Later later;
  Time next = Time::max();
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Time now = clock_->Now();
    std::vector<ExecutorSet*> answered;
    for (Entry& e : steps_) {
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
            later.answers.emplace_back();
            if (!e.set->AnswerEarly(e.step_id, e.question->Lines(), &later.answers.back())) later.answers.pop_back();
            answered.push_back(e.set);
            continue;
        }
      }
      if (now >= e.check) CheckProgress(&e, now, &later);
      next = std::min(next, e.due());
    }
    for (ExecutorSet* set : answered) std::erase_if(steps_, [&](const Entry& e) { return e.set == set; });
    for (size_t i = calls_.size(); i-- > 0;) {
      if (now < calls_[i].when) {
        next = std::min(next, calls_[i].when);
        continue;
      }
      later.calls.push_back(std::move(calls_[i].call));
      calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    armed_ = next;
  }
  DoLater(&later);
  return next;
}

void StepWatch::DoLater(Later* later) {
  for (const std::string& text : later->reports) report_(text);
  for (EarlyAnswer& a : later->answers) {
    if (a.partial != nullptr) {
      a.partial->OnDone(a.status);
    } else {
      CallDone(a.done, std::move(a.status), {});
    }
  }
  for (const auto& call : later->calls) call->TimeIsUp();
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

// Under the lock, which keeps the executors. A step on this list has parts, so that nobody answers
// before this returns.
void StepWatch::Ask(Entry* e) {
  e->question = std::make_shared<StepQuestion>(e->set->executors());
  e->question->Ask([watch = weak_from_this()](const std::shared_ptr<StepQuestion>& question) {
    if (auto w = watch.lock()) w->Answered(question);
  });
}

std::string StepWatch::Report(Entry* e) {
  e->state = State::kWatched;
  return StallText(e->step_id, e->set->Describe(), e->stall_ms, e->question->Lines());
}

void StepWatch::Expire(Entry* e, Time now) {
  e->set->Stop(e->step_id, DeadlineStatus(e->timeout_ms, e->question->Lines()));
  BeginEnding(e, now);
}

void StepWatch::BeginEnding(Entry* e, Time now) {
  e->state = State::kEnding;
  e->deadline = now + kEndGrace;
  e->check = Time::max();
  Ask(e);
}

void StepWatch::Answered(const std::shared_ptr<StepQuestion>& question) {
  std::string text;
  Time due = Time::max();
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto e = std::find_if(steps_.begin(), steps_.end(), [&](const Entry& x) { return x.question == question; });
    if (e == steps_.end()) return;
    if (e->state == State::kExpiring) {
      Expire(&*e, clock_->Now());
      if (Sooner(e->due())) due = e->due();
    } else if (e->state == State::kAsking && e->set->nodes_run() == e->progress) {
      text = Report(&*e);
    }
  }
  if (due != Time::max()) clock_->Wake(shared_from_this(), due);
  if (!text.empty()) report_(text);
}

}  // namespace troupe
