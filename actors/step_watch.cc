#include "troupe/actors/step_watch.h"

#include <algorithm>

#include "troupe/actors/signature.h"

namespace troupe {

// What the parts of one step have said so far.
struct StepAnswers {
  ExecutorSet* set;
  int64_t step_id;
  bool deadline;
  StepWatch::Time asked;
  size_t left;
  int64_t nodes_run = 0;
  std::vector<std::string> lines;
};

namespace {

constexpr std::chrono::milliseconds kGrace{100};

}  // namespace

std::string StallText(int64_t step_id, const std::string& what, int64_t ms, const std::vector<std::string>& lines) {
  return StrCat("step ", step_id, " (", what, ") has made no progress for ", ms, " ms",
                lines.empty() ? "" : "; it waits for:\n  ", StrJoin(lines, "\n  "));
}

absl::Status DeadlineStatus(int64_t timeout_ms, const std::vector<std::string>& lines) {
  return DeadlineExceeded("the step did not end within ", timeout_ms, " ms", lines.empty() ? "" : "; it waits for:\n  ",
                          StrJoin(lines, "\n  "));
}

void StepWatch::SetWake(std::function<void()> wake) {
  std::lock_guard<std::mutex> lock(mu_);
  wake_ = std::move(wake);
}

void StepWatch::Add(ExecutorSet* set, int64_t step_id, std::string what, int64_t timeout_ms, int64_t stall_ms) {
  Entry e;
  e.set = set;
  e.step_id = step_id;
  e.what = std::move(what);
  e.timeout_ms = timeout_ms;
  e.stall_ms = stall_ms;
  e.begun = e.progress_at = clock_->now();
  e.deadline = timeout_ms > 0 ? e.begun + std::chrono::milliseconds(timeout_ms) : Time::max();
  if (stall_ms > 0) e.check = e.begun + std::chrono::milliseconds((stall_ms + 1) / 2);
  std::lock_guard<std::mutex> lock(mu_);
  const Time due = e.due();
  steps_.push_back(std::move(e));
  if (due >= armed_ || waking_ || !wake_) return;
  waking_ = true;
  wake_();
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
  std::lock_guard<std::mutex> lock(mu_);
  const Time now = clock_->now();
  if (ticked == armed_) armed_ = Time::max();
  waking_ = false;
  *next = Time::max();
  for (Entry& e : steps_) {
    if (now >= e.deadline) {
      if (e.expiring != nullptr) {
        e.deadline = Time::max();
        Expire(&e, *e.expiring);
      } else {
        e.expiring =
            std::make_shared<StepAnswers>(StepAnswers{e.set, e.step_id, true, now, e.set->executors().size(), 0, {}});
        e.deadline = now + kGrace;
        e.check = Time::max();
        Ask(e, e.expiring);
      }
    }
    if (now >= e.check) {
      e.check = now + std::chrono::milliseconds((e.stall_ms + 1) / 2);
      Ask(e,
          std::make_shared<StepAnswers>(StepAnswers{e.set, e.step_id, false, now, e.set->executors().size(), 0, {}}));
    }
    *next = std::min(*next, e.due());
  }
  if (*next >= armed_) return false;
  armed_ = *next;
  return true;
}

void StepWatch::Ask(const Entry& e, std::shared_ptr<StepAnswers> answers) {
  e.set->Report([watch = weak_from_this(), answers](StepReport report) {
    if (auto w = watch.lock()) w->Answered(answers, std::move(report));
  });
}

void StepWatch::Expire(Entry* e, const StepAnswers& answers) {
  e->set->Abort(DeadlineStatus(e->timeout_ms, answers.lines));
}

void StepWatch::Answered(const std::shared_ptr<StepAnswers>& answers, StepReport report) {
  std::string text;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto e = std::find_if(steps_.begin(), steps_.end(),
                                [&](const Entry& x) { return x.set == answers->set && x.step_id == answers->step_id; });
    if (e == steps_.end()) return;
    for (std::string& l : report.lines) answers->lines.push_back(std::move(l));
    answers->nodes_run += report.nodes_run;
    if (--answers->left > 0) return;
    if (answers->deadline) {
      if (e->deadline == Time::max()) return;
      e->deadline = Time::max();
      Expire(&*e, *answers);
    } else if (answers->nodes_run != e->progress) {
      e->progress = answers->nodes_run;
      e->progress_at = answers->asked;
    } else if (answers->asked - e->progress_at >= std::chrono::milliseconds(e->stall_ms)) {
      e->progress_at = answers->asked;
      text = StallText(e->step_id, e->what, e->stall_ms, answers->lines);
    }
  }
  if (!text.empty()) report_(text);
}

}  // namespace troupe
