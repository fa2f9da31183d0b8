#include "actors/train/chief.h"

#include <chrono>

namespace troupe::train {

void TellBegun(const TrainingLoop& loop, const ServerRecovery::Begun& begun) {
  loop.teller->Tell({.kind = TrainingEvent::kBegin,
                     .step = begun.step,
                     .from = begun.from,
                     .lost_updates = begun.lost_updates,
                     .path = begun.from == TrainingEvent::kCheckpoint ? begun.checkpoint : ""});
  if (begun.from == TrainingEvent::kStart && !begun.checkpoint.empty())
    loop.teller->Tell({.kind = TrainingEvent::kSaved, .path = begun.checkpoint});
}

bool IsSaved(const CheckpointPolicy& policy, int64_t step) {
  return !policy.folder.empty() && policy.every_steps > 0 && step % policy.every_steps == 0;
}

absl::Status SaveAndTell(ServerRecovery* recovery, TrainingLoop* loop, int64_t step, bool last, int64_t* saved) {
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<std::string> path = recovery->Save(loop->session(), step);
  loop->NotCounted(start, path.status());
  if (path.ok()) {
    *saved = step;
    if (!path->empty()) loop->teller->Tell({.kind = TrainingEvent::kSaved, .step = step, .path = *path});
    return absl::OkStatus();
  }
  if (last || SaysLost(path.status())) return path.status();
  loop->teller->Tell({.kind = TrainingEvent::kSaveFailed, .step = step, .why = path.status()});
  return absl::OkStatus();
}

absl::Status RunAtEnd(TrainingLoop* loop) {
  if (!loop->options.at_end) return absl::OkStatus();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status s = Guarded("TrainingOptions.at_end", [&] { return loop->options.at_end(loop->session()); });
  loop->NotCounted(start, s);
  if (!s.ok() && !SaysLost(s)) loop->FailedByUser();
  return s;
}

}  // namespace troupe::train
