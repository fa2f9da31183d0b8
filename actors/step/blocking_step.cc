#include "actors/step/blocking_step.h"

#include "actors/threads/actor_thread.h"
#include "actors/step/executor_set.h"
#include "troupe/compute_threads.h"

namespace troupe {

absl::Status BlockingStep::Run(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds,
                               std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  set_.Renew();
  set_.EnterLane();
  {
    const LaneTurn turn;
    const ScopedFlushDenormals flush;
    const NoLoggerMeanwhile quiet(&set_.lane().system());
    set_.Begin(this, feeds, false);
    set_.CheckNumerics(options);
    set_.Guard(options.cancellation, deadline);
    set_.Launch(&set_.lane(), options.collect_stats && metadata != nullptr);
    for (;;) {
      if (set_.lane().DrainSome()) continue;
      if (!set_.running()) break;
      set_.HelpJobs();
      set_.lane().Wait();
    }
    set_.EndGuard();
  }
  set_.LeaveLane();
  if (metadata != nullptr) set_.FillMetadata(options, metadata);
  return set_.Finish(outputs);
}

void BlockingStep::PartDone() {
  // From another thread than the lane's, set and step may be gone as soon as no part is left.
  Lane& lane = set_.lane();
  if (lane.IsAttached()) {
    set_.CountDown(1);
  } else {
    lane.WakeIf([this] { return set_.CountDown(1); });
  }
}

}  // namespace troupe
