#include "actors/session/pending_run.h"

#include "actors/step/answers.h"

namespace troupe {

std::shared_ptr<PendingRun> PendingRun::Begin(std::shared_ptr<StepWatch> watch, const Deadline& deadline,
                                              const CancellationToken* token, std::vector<Tensor> feeds,
                                              RunCallback done) {
  std::shared_ptr<PendingRun> run(new PendingRun(std::move(watch), deadline, std::move(feeds), std::move(done)));
  if (deadline.at != SteadyTime::max()) run->watch_->Add(run, deadline.at);
  if (token != nullptr) {
    run->cancellation_.emplace(token, run.get());
    if (run->cancellation_->cancelled()) run->OnCancel();
  }
  return run;
}

PendingRun::Taken PendingRun::Take() {
  cancellation_.reset();
  watch_->Remove(this);
  std::function<void()> given_up;  // goes without the lock
  std::lock_guard<std::mutex> lock(mu_);
  given_up.swap(given_up_);
  return std::exchange(run_, Taken());
}

void PendingRun::WhenGivenUp(std::function<void()> tell) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (run_.done != nullptr) return given_up_.swap(tell);
  }
  tell();
}

void PendingRun::TimeIsUp() {
  Taken run;
  std::function<void()> given_up;
  bool cancelled = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    run = std::exchange(run_, Taken());
    given_up.swap(given_up_);
    cancelled = cancelled_;
  }
  if (!run.done) return;
  if (given_up) given_up();
  run.feeds.clear();
  CallDone(run.done,
           cancelled ? CancelledByCaller()
                     : DeadlineExceeded("the step's signature was not compiled within ", deadline_.ms, " ms"),
           {});
}

// Under the token's lock, which the entry leaves before this object goes; the list gets a share of
// it.
void PendingRun::OnCancel() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!run_.done) return;
    cancelled_ = true;
  }
  if (std::shared_ptr<PendingRun> me = weak_from_this().lock()) watch_->Add(std::move(me), SteadyTime::min());
}

}  // namespace troupe
