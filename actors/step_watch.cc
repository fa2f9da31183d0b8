#include "troupe/actors/step_watch.h"

#include <algorithm>

#include "troupe/actors/signature.h"
#include "troupe/actors/stall_report.h"

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kGrace{100};

}  // namespace

void StepWatch::SetWake(std::function<void()> wake) {
  std::lock_guard<std::mutex> lock(mu_);
  wake_ = std::move(wake);
}

void StepWatch::Add(ExecutorSet* set, int64_t step_id, std::string what, const Deadline& deadline, int64_t stall_ms) {
  Entry e;
  e.set = set;
  e.step_id = step_id;
  e.what = std::move(what);
  e.timeout_ms = deadline.ms;
  e.stall_ms = stall_ms;
  const Time begun = e.progress_at = clock_->now();
  e.deadline = deadline.at;
  if (stall_ms > 0) e.check = TimeAfter(begun, stall_ms / 2 + stall_ms % 2);
  std::function<void()> wake;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Time due = e.due();
    steps_.push_back(std::move(e));
    if (due >= armed_ || waking_ || !wake_) return;
    waking_ = true;
    wake = wake_;
  }
  wake();
}

void StepWatch::Remove(ExecutorSet* set) {
  std::lock_guard<std::mutex> lock(mu_);
  std::erase_if(steps_, [&](const Entry& e) { return e.set == set; });
}

size_t StepWatch::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return steps_.size();
}

bool StepWatch::Look(Time ticked, Time* next) {
  std::vector<std::string> reports;
  bool arm = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Time now = clock_->now();
    if (ticked == armed_) armed_ = Time::max();
    waking_ = false;
    *next = Time::max();
    for (Entry& e : steps_) {
      if (now >= e.deadline) {
        if (e.state == State::kExpiring) {
          Expire(&e);
        } else {
          e.state = State::kExpiring;
          e.deadline = now + kGrace;
          e.check = Time::max();
          Ask(&e);
        }
      }
      if (now >= e.check) CheckProgress(&e, now, &reports);
      *next = std::min(*next, e.due());
    }
    if (*next < armed_) {
      armed_ = *next;
      arm = true;
    }
  }
  for (const std::string& text : reports) report_(text);
  return arm;
}

void StepWatch::CheckProgress(Entry* e, Time now, std::vector<std::string>* reports) {
  const std::chrono::milliseconds half((e->stall_ms + 1) / 2);
  e->check = now + half;
  const int64_t progress = e->set->nodes_run();
  if (progress != e->progress) {
    e->progress = progress;
    e->progress_at = now;
    e->state = State::kWatched;
  } else if (e->state == State::kAsking) {
    reports->push_back(Report(e));
  } else if (now - e->progress_at >= std::chrono::milliseconds(e->stall_ms)) {
    e->progress_at = now;
    e->state = State::kAsking;
    e->check = now + std::min(half, kGrace);
    Ask(e);
  }
}

void StepWatch::Ask(Entry* e) {
  e->question = std::make_shared<StepQuestion>(e->set->executors());
  e->question->Ask([watch = weak_from_this()](const std::shared_ptr<StepQuestion>& question) {
    if (auto w = watch.lock()) w->Answered(question);
  });
}

std::string StepWatch::Report(Entry* e) {
  e->state = State::kWatched;
  return StallText(e->step_id, e->what, e->stall_ms, e->question->Lines());
}

void StepWatch::Expire(Entry* e) {
  e->deadline = Time::max();
  e->set->Abort(DeadlineStatus(e->timeout_ms, e->question->Lines()));
}

void StepWatch::Answered(const std::shared_ptr<StepQuestion>& question) {
  std::string text;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto e = std::find_if(steps_.begin(), steps_.end(), [&](const Entry& x) { return x.question == question; });
    if (e == steps_.end()) return;
    if (e->state == State::kExpiring && e->deadline != Time::max()) {
      Expire(&*e);
    } else if (e->state == State::kAsking && e->set->nodes_run() == e->progress) {
      text = Report(&*e);
    }
  }
  if (!text.empty()) report_(text);
}

}  // namespace troupe
