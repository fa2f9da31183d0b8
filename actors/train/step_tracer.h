// The trace of a process that trains with others (TracePolicy): which of its steps are measured,
// and the file.
//
//   StepTracer::Step traced = tracer.Begin(step);
//   absl::Status s = session.Run(traced.options(), feeds, fetches, targets, &out, traced.metadata());
//   traced.End(s, StrCat("update ", step));
//
// The file is written once: by Finish, or when a step is begun that comes after the last one to be
// measured. That it cannot be written is told, and training goes on.
//
// Thread rule: StepTracer is thread safe; a Step is for one thread.
#ifndef TROUPE_ACTORS_TRAIN_STEP_TRACER_H_
#define TROUPE_ACTORS_TRAIN_STEP_TRACER_H_

#include <memory>
#include <mutex>
#include <string>

#include "troupe/proto/config.pb.h"
#include "troupe/session.h"
#include "troupe/timeline.h"
#include "troupe/train/train_together.h"

namespace troupe::train {

class Teller;

class StepTracer {
 public:
  StepTracer(const TracePolicy& policy, Teller* teller) : policy_(policy), teller_(teller) {}

  class Step {
   public:
    Step(StepTracer* tracer, bool measured);
    const RunOptions& options() const { return options_; }
    proto::RunMetadata* metadata() const { return metadata_.get(); }
    // What failed, or was not measured, is not in the file.
    void End(const absl::Status& status, const std::string& name);

   private:
    StepTracer* const tracer_;
    RunOptions options_;
    std::unique_ptr<proto::RunMetadata> metadata_;  // null: the step is not measured
  };
  // `step`: the number of the update that it is for. `last`: of the steps of this process for an
  // update it is the last one to begin.
  Step Begin(int64_t step, bool last = true);
  void Finish();

 private:
  void WriteLocked(std::unique_lock<std::mutex> lock);

  const TracePolicy policy_;
  Teller* const teller_;
  std::mutex mu_;
  Timeline timeline_;  // guarded by mu_
  bool written_ = false;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_STEP_TRACER_H_
