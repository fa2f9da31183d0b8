// What the loops of chiefs and workers share: sessions that are made anew after a loss, which
// errors are one, and how long to try.
//
//   TrainingLoop loop(...);
//   while (!done) {
//     absl::Status s = OneTry(loop);   // from a new session to the end, or to an error
//     if (!s.ok()) TROUPE_RETURN_IF_ERROR(loop.WaitAfter(s, step));
//   }
//
// Thread rule: a TrainingLoop is for one thread; Teller and Stop are thread safe.
#ifndef TROUPE_ACTORS_TRAIN_TRAINING_LOOP_H_
#define TROUPE_ACTORS_TRAIN_TRAINING_LOOP_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "actors/threads/aside.h"
#include "graph/core/guarded.h"
#include "troupe/session.h"
#include "troupe/train/train_together.h"

namespace troupe::train {

// The user's on_event, for one thread at a time.
class Teller {
 public:
  explicit Teller(const TrainingOptions& options) : options_(options) {}
  void Tell(const TrainingEvent& event) {
    if (!options_.on_event) return;
    std::lock_guard<std::mutex> lock(mu_);
    CallUser("TrainingOptions.on_event", [&] { options_.on_event(event); });
  }

 private:
  const TrainingOptions& options_;
  std::mutex mu_;
};

// Ends what the loops of one process wait for.
class Stop {
 public:
  void Set() {
    set_ = true;
    token_.Cancel();
  }
  bool set() const { return set_; }
  const CancellationToken* token() const { return &token_; }
  // The chief has made all steps: nobody else is the reason why training fails from now on.
  void AllStepsMade() { all_made_ = true; }
  bool all_steps_made() const { return all_made_; }

 private:
  std::atomic<bool> set_{false}, all_made_{false};
  CancellationToken token_;
};

// Whether an error says that a process is lost, which may be started again. CANCELLED does not:
// what is cut off by a loss says what was lost.
inline bool SaysLost(const absl::Status& s) {
  return absl::IsUnavailable(s) || absl::IsAborted(s) || absl::IsFailedPrecondition(s);
}

class TrainingLoop {
 public:
  TrainingLoop(const Graph* graph, const TrainingOptions& options, Teller* teller, Stop* stop)
      : options(options), teller(teller), stop(stop), graph_(graph), went_on_(Clock::now()) {}

  // A new session of the graph, in place of the one before.
  absl::StatusOr<Session*> NewSession() {
    if (session_ != nullptr) session_->Close().IgnoreError();
    session_ = nullptr;
    SessionOptions o = options.session;
    o.share_variables = true;
    TROUPE_ASSIGN_OR_RETURN(session_, Session::Create(o));
    TROUPE_RETURN_IF_ERROR(session_->Extend(*graph_));
    return session_.get();
  }
  Session& session() const { return *session_; }
  // Something was done: what comes has all the time again.
  void WentOn() {
    went_on_ = Clock::now();
    pause_ = kFirstPause;
    told_ = false;
    done_since_back_ = true;
  }
  // From `start` on something was done that takes as long as it likes: that time does not count,
  // unless it has failed again since what was lost was back.
  void NotCounted(std::chrono::steady_clock::time_point start, const absl::Status& done) {
    if (done.ok() || done_since_back_) went_on_ += Clock::now() - start;
  }
  // What failed is the user's: it ends training, whatever the error, and is what training says.
  void FailedByUser() { users_error_ = true; }
  bool failed_by_user() const { return users_error_; }
  // What was lost is back, and nothing is done yet. It has all the time again, but not if nothing
  // has been done since it was back before: then what fails is what failed before.
  void Back() {
    if (done_since_back_) WentOn();
    done_since_back_ = false;
    told_ = false;
  }
  // For waits on others: until it is time to ask again, or to give up, unless somebody else does.
  RunOptions Waiting(bool gives_up = true) const {
    constexpr std::chrono::milliseconds kAskAgain{10'000};
    const auto left = options.give_up - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - went_on_);
    RunOptions run;
    run.timeout_ms = std::max<int64_t>(1, (gives_up ? std::min(kAskAgain, left) : kAskAgain).count());
    run.cancellation = stop->token();
    return run;
  }
  // For what is done: as long as nothing may go on, unless somebody else gives up.
  RunOptions Doing(RunOptions run = {}) const {
    run.timeout_ms = std::max<int64_t>(1, options.give_up.count());
    run.cancellation = stop->token();
    return run;
  }
  // Feeds of a step, with `more` behind them. Their error ends training, whatever it is.
  using FeedsFunction = std::function<absl::StatusOr<Feeds>(int64_t)>;
  absl::StatusOr<Feeds> FeedsOf(const FeedsFunction& from, int64_t step, Feeds more = {}) {
    if (!from) return more;
    absl::StatusOr<Feeds> all = Guarded("the feeds of a step", [&] { return from(step); });
    users_error_ |= !all.ok();
    if (all.ok()) all->insert(all->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return all;
  }
  // Nothing has gone on for so long that it is given up.
  bool given_up() const { return Clock::now() - went_on_ >= options.give_up; }
  // OK after a pause: it is to be tried again. Or the error, when it says nothing of a lost
  // process, or this process itself was stopped, or it has been so for too long, unless somebody
  // else gives up.
  absl::Status WaitAfter(const absl::Status& s, int64_t step, bool tell = true, bool gives_up = true) {
    if (stop->set() || users_error_ || left()) return s;
    if (!SaysLost(s) || (gives_up && given_up())) return s;
    if (tell && !told_) {
      told_ = true;
      ++recoveries;
      teller->Tell({.kind = TrainingEvent::kLost, .step = step, .why = s});
    }
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, kLastPause);
    return absl::OkStatus();
  }

  const TrainingOptions& options;
  Teller* const teller;
  Stop* const stop;
  int64_t recoveries = 0;

 private:
  using Clock = std::chrono::steady_clock;
  bool left() const;
  static constexpr std::chrono::milliseconds kFirstPause{5}, kLastPause{200};
  const Graph* const graph_;
  std::unique_ptr<Session> session_;
  Clock::time_point went_on_;
  std::chrono::milliseconds pause_ = kFirstPause;
  bool told_ = false, users_error_ = false, done_since_back_ = true;
};

// What no training can be done with, whoever is there.
absl::Status CheckOptions(const TrainingOptions& options);

// An update that broke off leaves variables of which it is not known what they are (DATA_LOSS):
// that, too, is mended by beginning anew.
inline absl::Status OfUpdate(const absl::Status& s) {
  return absl::IsDataLoss(s) ? Aborted("an update broke off: ", s.message()) : s;
}

// How long whoever has ended waits for the others to hear of it: one may be gone.
inline constexpr std::chrono::milliseconds kForOthers{5000};
// Waits until the other ones of so many workers have heard of the end, and no longer than until
// `end`.
void AwaitOthers(Session& session, const ServerState& state, int workers,
                 std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + kForOthers);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_TRAINING_LOOP_H_
