// A step for which no thread waits: its callback is called when the last part is done, or by the
// watch when the step was told to end and has not.
//
// RunAsync runs so, and a blocking Run that must hear of a deadline, a token or Close whatever the
// kernels do. The step begins on the calling thread if it is known to be short (lend.cc), otherwise
// on the compute threads.
//
// Edges 2, 6, 7 and 8 of executor_set.h, and those of lend.cc. Thread rule: Reserve, RunAsync and
// RunHere on the thread that has leased the set; the rest from the step's own turns. Every set has
// one, whose memory it uses again.
#ifndef TROUPE_ACTORS_STEP_ASYNC_STEP_H_
#define TROUPE_ACTORS_STEP_ASYNC_STEP_H_

#include <chrono>
#include <memory>
#include <vector>

#include "actors/signature/feed_values.h"
#include "actors/step/step.h"

namespace troupe {

class ExecutorSet;
class Signature;

class AsyncStep : public Step {
 public:
  explicit AsyncStep(ExecutorSet* set) : set_(*set) {}
  // Keeps the feeds, and takes what the step needs memory for before it begins. Throws
  // std::bad_alloc.
  void Reserve(const RunOptions& options, const FeedValues& feeds);
  // Starts the step. It begins on the calling thread if it is likely to take at most `lend_us`
  // microseconds (lend.cc), otherwise on the compute threads. `keep` is released before `done` is
  // called, and the set given back to it. `waits`: `done` is the library's own, and only wakes who
  // waits. REQUIRES: Reserve.
  void RunAsync(const Deadline& deadline, const CancellationToken* token, RunCallback done,
                proto::RunMetadata* metadata, std::shared_ptr<Signature> keep, int64_t lend_us, bool waits) noexcept;
  // The same for a caller who waits: it begins on the calling thread, which works on it as long as
  // something can run (lend.cc). REQUIRES: `done` only wakes the caller.
  void RunHere(const Deadline& deadline, const CancellationToken* token, RunCallback done, proto::RunMetadata* metadata,
               std::shared_ptr<Signature> keep) noexcept;

  void PartDone() override { LetGo(); }
  void Over() override;
  void GiveAnswer(EarlyAnswer* answer) override;

 private:
  void Begin(const Deadline& deadline, const CancellationToken* token, RunCallback done, proto::RunMetadata* metadata,
             std::shared_ptr<Signature> keep, bool waits) noexcept;
  void LetGo();
  // lend.cc.
  bool MayLend(int64_t lend_us) const;
  void Lend(int64_t lend_us) noexcept;
  void RunLent(std::chrono::steady_clock::time_point* until, int64_t lend_us);
  template <class F>
  void RunInLane(int64_t lend_us, F over);

  ExecutorSet& set_;
  std::vector<Tensor> feeds_;
  RunOptions options_;
  bool stats_ = false;
  // The thread that takes the set's answer (ExecutorSet::TakeAnswer, AnswerEarly) owns these two.
  RunCallback done_;
  proto::RunMetadata* metadata_ = nullptr;
  std::shared_ptr<Signature> keep_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_ASYNC_STEP_H_
