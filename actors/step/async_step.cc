#include "actors/step/async_step.h"

#include "actors/signature/signature.h"
#include "actors/step/answers.h"
#include "actors/step/executor_set.h"
#include "actors/threads/surely.h"

namespace troupe {

void AsyncStep::Reserve(const RunOptions& options, const FeedValues& feeds) {
  options_ = options;
  options_.cancellation = nullptr;
  feeds_.clear();
  for (size_t i = 0; i < feeds.size(); ++i) feeds_.push_back(feeds[i]);
  set_.Renew();
}

void AsyncStep::Begin(const Deadline& deadline, const CancellationToken* token, RunCallback done,
                      proto::RunMetadata* metadata, std::shared_ptr<Signature> keep, bool waits) noexcept {
  stats_ = options_.collect_stats && metadata != nullptr;
  done_ = std::move(done);
  metadata_ = metadata;
  keep_ = std::move(keep);
  set_.Begin(this, absl::Span<const Tensor>(feeds_), true);
  set_.CheckNumerics(options_);
  if (set_.remote() != nullptr) set_.LetRunInLoop(absl::Span<const Tensor>(feeds_), waits);
  set_.Guard(token, deadline);
}

void AsyncStep::RunAsync(const Deadline& deadline, const CancellationToken* token, RunCallback done,
                         proto::RunMetadata* metadata, std::shared_ptr<Signature> keep, int64_t lend_us,
                         bool waits) noexcept {
  const bool lend = MayLend(lend_us);
  Begin(deadline, token, std::move(done), metadata, std::move(keep), waits);
  if (lend) return Lend(lend_us);
  if (set_.empty()) return Over();  // there is no part whose end could tell
  set_.LaunchElsewhere(stats_);
}

void AsyncStep::LetGo() {
  if (!set_.CountDown(1)) return;
  if (set_.MayEndHere() || !RunUnderScheduler(set_.lane().system(), [this] { Over(); })) Over();
}

void AsyncStep::Over() {
  const bool answers = set_.TakeAnswer();
  if (metadata_ != nullptr) set_.FillMetadata(options_, std::exchange(metadata_, nullptr));
  const RunCallback done = std::exchange(done_, nullptr);
  std::shared_ptr<Signature> keep = std::move(keep_);
  std::vector<Tensor> outputs;
  absl::Status result = set_.Finish(&outputs);
  feeds_.clear();
  keep->Release(std::unique_ptr<ExecutorSet>(&set_));
  // Before the answer: whoever has it may end the session, and the actor system that its runtime
  // lives in.
  keep = nullptr;
  if (answers) CallDone(done, std::move(result), std::move(outputs));
}

void AsyncStep::GiveAnswer(EarlyAnswer* answer) {
  answer->done = std::move(done_);
  metadata_ = nullptr;
}

}  // namespace troupe
