#include "actors/train/step_tracer.h"

#include "actors/train/training_loop.h"

namespace troupe::train {

StepTracer::Step::Step(StepTracer* tracer, bool measured) : tracer_(tracer) {
  options_.collect_stats = measured;
  if (measured) metadata_ = std::make_unique<proto::RunMetadata>();
}

void StepTracer::Step::End(const absl::Status& status, const std::string& name) {
  if (metadata_ == nullptr || !status.ok()) return;
  std::lock_guard<std::mutex> lock(tracer_->mu_);
  if (!tracer_->written_) tracer_->timeline_.Add(*metadata_, name);
}

StepTracer::Step StepTracer::Begin(int64_t step, bool last) {
  if (policy_.file.empty()) return Step(this, false);
  const int64_t place = step - policy_.first;
  if (last && place >= policy_.steps) Finish();
  return Step(this, place >= 0 && place < policy_.steps);
}

void StepTracer::Finish() {
  std::unique_lock<std::mutex> lock(mu_);
  if (policy_.file.empty() || written_ || timeline_.steps() == 0) return;
  written_ = true;
  const absl::Status wrote = timeline_.Write(policy_.file);
  const int steps = timeline_.steps();
  lock.unlock();
  if (wrote.ok()) {
    teller_->Tell({.kind = TrainingEvent::kTraced, .step = steps, .path = policy_.file});
  } else {
    teller_->Tell({.kind = TrainingEvent::kTraceFailed, .why = wrote});
  }
}

}  // namespace troupe::train
