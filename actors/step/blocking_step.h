// A step whose caller waits in its lane: the calling thread runs the executors, and sleeps when
// none of them can go on.
//
// A blocking Run waits so only where each kernel returns: without deadline and token, for the
// library's own kernels, with all parts in this process. Any other blocking Run starts an
// asynchronous step and waits for its answer (Signature::RunBlocking). While a kernel occupies the
// caller's thread, Close does not take effect.
//
// Edges 1, 3, 4 and 5 of executor_set.h. Thread rule: Run on the thread that has leased the set.
#ifndef TROUPE_ACTORS_STEP_BLOCKING_STEP_H_
#define TROUPE_ACTORS_STEP_BLOCKING_STEP_H_

#include <vector>

#include "actors/signature/feed_values.h"
#include "actors/step/step.h"

namespace troupe {

class ExecutorSet;

class BlockingStep : public Step {
 public:
  explicit BlockingStep(ExecutorSet* set) : set_(*set) {}
  // Runs one step. Throws std::bad_alloc if there is no memory to begin.
  absl::Status Run(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds,
                   std::vector<Tensor>* outputs, proto::RunMetadata* metadata);

  void PartDone() override;
  void Over() override {}  // the lane sees it

 private:
  ExecutorSet& set_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_BLOCKING_STEP_H_
