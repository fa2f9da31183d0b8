// The loop of asynchronous training.
#include <optional>

#include "actors/threads/inside_actor.h"
#include "actors/train/chief.h"
#include "actors/train/training_loop.h"
#include "actors/train/server_recovery.h"
#include "actors/train/step_tracer.h"
#include "troupe/train/train_together.h"

namespace troupe::train {
namespace {

class Apart {
 public:
  Apart(const Scope& root, const AsyncReplicas& async, const TrainingOptions& options, Teller* teller, Stop* stop,
        StepTracer* tracer)
      : async_(async),
        chief_(async.options().worker == 0),
        tracer_(*tracer),
        loop_(root.graph(), options, teller, stop) {
    if (chief_) recovery_.emplace(root, async.state(), options.checkpoints, /*each_alone=*/true);
  }
  absl::Status Run() {
    for (;;) {
      const absl::Status s = Try();
      if (s.ok()) return s;
      TROUPE_RETURN_IF_ERROR(loop_.WaitAfter(s, seen_, /*tell=*/begun_));
    }
  }
  TrainingReport report() const {
    return {.step = seen_, .recoveries = loop_.recoveries, .lost_updates = lost_updates_};
  }

 private:
  const TrainingOptions& options() const { return loop_.options; }
  absl::Status Try() {
    TROUPE_RETURN_IF_ERROR(loop_.NewSession().status());
    TROUPE_RETURN_IF_ERROR(chief_ ? BeginAsChief() : AwaitChief());
    begun_ = true;
    loop_.Back();
    while (seen_ < options().last_step) TROUPE_RETURN_IF_ERROR(Step());
    if (!chief_) {
      loop_.session().Run({}, {}, {async_.state().end()}, nullptr).IgnoreError();
      return absl::OkStatus();
    }
    if (saved_ != seen_) TROUPE_RETURN_IF_ERROR(SaveAndTell(&*recovery_, &loop_, seen_, /*last=*/true, &saved_));
    TROUPE_RETURN_IF_ERROR(RunAtEnd(&loop_));
    AwaitOthers(loop_.session(), async_.state(), async_.options().workers);
    return absl::OkStatus();
  }
  absl::Status BeginAsChief() {
    TROUPE_ASSIGN_OR_RETURN(const ServerRecovery::Begun begun, recovery_->Begin(loop_.session(), seen_));
    TROUPE_RETURN_IF_ERROR(loop_.session().Run({}, {}, {async_.state().begin()}, nullptr));
    seen_ = begun.step;
    lost_updates_ += begun.lost_updates;
    TellBegun(loop_, begun);
    return absl::OkStatus();
  }
  absl::Status AwaitChief() {
    TROUPE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, StepOfServers(loop_.session(), async_.state()));
    if (!step) return FailedPrecondition("the variables have no values yet");
    seen_ = *step;
    loop_.teller->Tell({.kind = TrainingEvent::kBegin, .step = seen_});
    return absl::OkStatus();
  }
  absl::Status Step() {
    TROUPE_ASSIGN_OR_RETURN(Feeds feeds, loop_.FeedsOf(options().feeds, seen_));
    TROUPE_ASSIGN_OR_RETURN(feeds, loop_.FeedsOf(options().update_feeds, seen_, std::move(feeds)));
    std::vector<Tensor> out;
    StepTracer::Step traced = tracer_.Begin(seen_);
    const absl::Status updated =
        OfUpdate(loop_.session().Run(loop_.Doing(traced.options()), feeds, {async_.loss(), async_.step_after()},
                                     {async_.update()}, &out, traced.metadata()));
    traced.End(updated, StrCat("update ", seen_, " by worker ", async_.options().worker));
    TROUPE_RETURN_IF_ERROR(updated);
    const int64_t before = seen_, every = options().checkpoints.every_steps;
    seen_ = out[1].scalar<int64_t>();
    loop_.WentOn();
    loop_.teller->Tell({.kind = TrainingEvent::kStep,
                        .step = seen_,
                        .loss = out[0].dtype() == DType::kFloat ? static_cast<double>(out[0].scalar<float>())
                                                                : out[0].scalar<double>(),
                        .gradients = 1});
    // Others update, too: the step at which to save may have been one of theirs.
    const bool due = every > 0 && seen_ / every > before / every;
    if (!chief_ || !due || seen_ >= options().last_step) return absl::OkStatus();
    return SaveAndTell(&*recovery_, &loop_, seen_, /*last=*/false, &saved_);
  }

  const AsyncReplicas& async_;
  const bool chief_;
  StepTracer& tracer_;
  std::optional<ServerRecovery> recovery_;
  TrainingLoop loop_;
  int64_t seen_ = 0, saved_ = -1, lost_updates_ = 0;
  bool begun_ = false;
};

}  // namespace

absl::StatusOr<TrainingReport> TrainApart(const Scope& root, const AsyncReplicas& async,
                                          const TrainingOptions& options) {
  if (InsideActor()) return FailedPrecondition("TrainApart blocks, and was called in an actor's handler");
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  Teller teller(options);
  Stop stop;
  StepTracer tracer(options.trace, &teller);
  Apart apart(root, async, options, &teller, &stop, &tracer);
  TROUPE_RETURN_IF_ERROR(root.status());
  const absl::Status ran = apart.Run();
  tracer.Finish();  // also of a training that failed
  TROUPE_RETURN_IF_ERROR(ran);
  return apart.report();
}

}  // namespace troupe::train
