// The chief of mirrored replicas, and what the processes of the others do meanwhile.
#include "troupe/train/train_mirrored.h"

#include <utility>

#include "actors/threads/inside_actor.h"
#include "actors/train/chief.h"
#include "actors/train/training_loop.h"
#include "actors/train/server_recovery.h"
#include "actors/train/step_tracer.h"

namespace troupe::train {
namespace {

// Runs the steps, saves, and says when all is done.
class MirrorChief {
 public:
  MirrorChief(const Scope& root, const MirroredTraining& mirrored, const TrainingOptions& options, Teller* teller,
              Stop* stop, StepTracer* tracer)
      : mirrored_(mirrored),
        tracer_(*tracer),
        recovery_(root, mirrored, options.checkpoints),
        loop_(root.graph(), options, teller, stop) {}

  absl::Status Run() {
    for (;;) {
      const absl::Status s = Try();
      if (s.ok()) return s;
      // Before it has begun, nothing is lost: tasks may not have found each other yet.
      TROUPE_RETURN_IF_ERROR(loop_.WaitAfter(s, seen_, /*tell=*/begun_));
    }
  }
  void Report(TrainingReport* report) const {
    report->recoveries = loop_.recoveries;
    report->lost_updates = lost_updates_;
    report->restarts = restarts_;
  }

 private:
  const TrainingOptions& options() const { return loop_.options; }
  absl::Status Try() {
    TROUPE_RETURN_IF_ERROR(loop_.NewSession().status());
    // The others end after the last checkpoint: a chief that is lost then is not to wait for them.
    const absl::StatusOr<ServerRecovery::Checkpoint> newest = recovery_.Newest();
    if (newest.ok() && newest->step >= options().last_step) {
      TROUPE_RETURN_IF_ERROR(recovery_.RestoreOnly(loop_.session(), newest->path));
      TellBegun(loop_, {.step = newest->step, .from = TrainingEvent::kCheckpoint, .checkpoint = newest->path});
      return End();
    }
    TROUPE_ASSIGN_OR_RETURN(const ServerRecovery::Begun begun, recovery_.Begin(loop_.session(), seen_));
    begun_ = true;
    step_ = seen_ = begun.step;
    lost_updates_ += begun.lost_updates;
    restarts_ += begun.filled;
    TellBegun(loop_, begun);
    loop_.Back();
    // Nobody has ended yet, whatever an earlier training has left.
    if (mirrored_.options().others_follow)
      TROUPE_RETURN_IF_ERROR(loop_.session().Run({}, {}, {mirrored_.state().begin()}, nullptr));
    while (step_ < options().last_step) TROUPE_RETURN_IF_ERROR(Step());
    if (saved_ != step_) TROUPE_RETURN_IF_ERROR(SaveAndTell(&recovery_, &loop_, step_, /*last=*/true, &saved_));
    return End();
  }
  absl::Status Step() {
    TROUPE_ASSIGN_OR_RETURN(Feeds feeds, loop_.FeedsOf(options().feeds, step_));
    TROUPE_ASSIGN_OR_RETURN(feeds, loop_.FeedsOf(options().update_feeds, step_, std::move(feeds)));
    std::vector<Tensor> loss;
    StepTracer::Step traced = tracer_.Begin(step_);
    const absl::Status updated = OfUpdate(loop_.session().Run(loop_.Doing(traced.options()), feeds, {mirrored_.loss()},
                                                              {mirrored_.update()}, &loss, traced.metadata()));
    traced.End(updated, StrCat("update ", step_));
    TROUPE_RETURN_IF_ERROR(updated);
    seen_ = ++step_;
    loop_.WentOn();
    loop_.teller->Tell({.kind = TrainingEvent::kStep,
                        .step = step_,
                        .loss = static_cast<double>(loss[0].scalar<float>()),
                        .gradients = mirrored_.replicas()});
    if (!IsSaved(options().checkpoints, step_)) return absl::OkStatus();
    return SaveAndTell(&recovery_, &loop_, step_, step_ >= options().last_step, &saved_);
  }

  absl::Status End() {
    TROUPE_RETURN_IF_ERROR(RunAtEnd(&loop_));
    if (!mirrored_.options().others_follow) return absl::OkStatus();
    // The first to have ended: who loses its token sees that.
    TROUPE_RETURN_IF_ERROR(loop_.session().Run({}, {}, {mirrored_.state().begin()}, nullptr));
    TROUPE_RETURN_IF_ERROR(loop_.session().Run({}, {}, {mirrored_.state().end()}, nullptr));
    // One that is gone has a checkpoint to see it from, or nobody to wait for. Each is told in a
    // step of its own, which the loss of another one does not end; who is silent takes its part of
    // the time that is left, and leaves the others theirs.
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + kForOthers;
    int told = 0;
    int64_t others = mirrored_.replicas() - 1;
    for (const Operation& tell : mirrored_.tell_end()) {
      if (!tell.valid()) continue;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      RunOptions soon;
      soon.timeout_ms = std::clamp<int64_t>(left.count() / others--, 1, 2000);
      told += loop_.session().Run(soon, {}, {}, {tell}, nullptr, nullptr).ok();
    }
    AwaitOthers(loop_.session(), mirrored_.state(), told + 2, end);
    return absl::OkStatus();
  }

  const MirroredTraining& mirrored_;
  StepTracer& tracer_;
  ServerRecovery recovery_;
  TrainingLoop loop_;
  int64_t step_ = 0, seen_ = 0, saved_ = -1, lost_updates_ = 0, restarts_ = 0;
  bool begun_ = false;
};

// The process of another replica: its server does what the chief's steps ask for.
class Follower {
 public:
  Follower(const Scope& root, const MirroredTraining& mirrored, int replica, const TrainingOptions& options,
           Teller* teller, Stop* stop)
      : mirrored_(mirrored),
        replica_(static_cast<size_t>(replica)),
        recovery_(root, mirrored, options.checkpoints),
        loop_(root.graph(), options, teller, stop) {}

  absl::Status Run() {
    for (;;) {
      const absl::Status s = Try();
      if (s.ok()) return s;
      // Whom it waits for is the chief, who tells of losses.
      TROUPE_RETURN_IF_ERROR(loop_.WaitAfter(s, 0, /*tell=*/false));
    }
  }

 private:
  // The last checkpoint is written.
  bool AllSaved() const {
    const absl::StatusOr<ServerRecovery::Checkpoint> newest = recovery_.Newest();
    return newest.ok() && newest->step >= loop_.options.last_step;
  }
  // The global step at the chief; FAILED_PRECONDITION while that has not begun.
  absl::StatusOr<int64_t> StepOfChief() const {
    TROUPE_ASSIGN_OR_RETURN(const Tensor step, loop_.session().Get(mirrored_.state().global_step()));
    return step.dtype() == DType::kInt64 ? step.scalar<int64_t>() : step.scalar<int32_t>();
  }
  // It serves as long as the chief may need it: until that says the end, which it does when its
  // at_end has returned, or is gone, and all is saved; but no longer than give_up without a new
  // step.
  absl::Status Try() {
    TROUPE_RETURN_IF_ERROR(loop_.NewSession().status());
    const int64_t last = loop_.options.last_step;
    for (int64_t seen = -1;;) {
      const absl::StatusOr<int64_t> step = StepOfChief();
      const bool begun = step.ok() || absl::IsFailedPrecondition(step.status());
      // Who comes when all is done finds no chief.
      if (!begun && AllSaved()) return absl::OkStatus();
      if (!begun) return Unavailable("replica ", replica_, " does not see its chief: ", step.status().message());
      if (step.ok() && std::exchange(seen, *step) != *step) loop_.WentOn();
      if (loop_.given_up()) {
        if (AllSaved()) return absl::OkStatus();
        return DeadlineExceeded("replica ", replica_, " waits for its chief, which ",
                                step.ok() ? StrCat("stays at step ", *step) : "has not begun");
      }
      RunOptions run = loop_.Waiting();
      if (seen >= last) run.timeout_ms = std::min<int64_t>(run.timeout_ms, kForOthers.count() / 2);
      const absl::Status told =
          loop_.session().Run(run, {}, {}, {Operation(mirrored_.await_end()[replica_])}, nullptr, nullptr);
      // The token may have gone with a step that was cut off.
      if (absl::IsDeadlineExceeded(told) && !ChiefHasEnded(seen)) continue;
      if (!absl::IsDeadlineExceeded(told)) {
        TROUPE_RETURN_IF_ERROR(told);
        // An end that an earlier training has left here is not this one's.
        const absl::StatusOr<int64_t> now = StepOfChief();
        if (now.ok() ? *now < last : !AllSaved()) continue;
      }
      // That it cannot be said is no failure: the chief waits for a while only.
      loop_.session().Run({}, {}, {mirrored_.state().end()}, nullptr).IgnoreError();
      return absl::OkStatus();
    }
  }
  // It says so behind its last step, before it tells the others.
  bool ChiefHasEnded(int64_t step) const {
    if (step < loop_.options.last_step) return false;
    const absl::StatusOr<Tensor> ended = loop_.session().Get(mirrored_.state().ended());
    return ended.ok() && ended->scalar<int64_t>() >= 1;
  }

  const MirroredTraining& mirrored_;
  const size_t replica_;
  ServerRecovery recovery_;
  TrainingLoop loop_;
};

}  // namespace

absl::StatusOr<TrainingReport> TrainMirrored(const Scope& root, const MirroredTraining& mirrored, int replica,
                                             const TrainingOptions& options) {
  if (InsideActor()) return FailedPrecondition("TrainMirrored blocks, and was called in an actor's handler");
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  if (replica < 0 || replica >= mirrored.replicas()) {
    return InvalidArgument("TrainMirrored was called for replica ", replica, " of ", mirrored.replicas());
  }
  Teller teller(options);
  Stop stop;
  TrainingReport report{.step = options.last_step};
  if (replica != 0) {
    Follower follower(root, mirrored, replica, options, &teller, &stop);
    TROUPE_RETURN_IF_ERROR(root.status());
    TROUPE_RETURN_IF_ERROR(follower.Run());
    return report;
  }
  StepTracer tracer(options.trace, &teller);
  MirrorChief chief(root, mirrored, options, &teller, &stop, &tracer);
  TROUPE_RETURN_IF_ERROR(root.status());
  const absl::Status led = chief.Run();
  tracer.Finish();  // also of a training that failed
  TROUPE_RETURN_IF_ERROR(led);
  chief.Report(&report);
  return report;
}

}  // namespace troupe::train
