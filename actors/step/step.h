// A step as its set of executors sees it: whom the set tells what its parts say. Its kinds are
// BlockingStep, AsyncStep, PartialStep, and RemoteStep, whose master is another process.
//
// Thread rule: called from any thread; GiveAnswer by the clock's.
#ifndef TROUPE_ACTORS_STEP_STEP_H_
#define TROUPE_ACTORS_STEP_STEP_H_

#include <cstdint>

#include "actors/watch/step_watch.h"
#include "troupe/tensor.h"

namespace troupe {

class Step {
 public:
  // A part is done: counts it down (ExecutorSet::CountDown), and ends the step if it was the last.
  // From any thread; the set may be gone afterwards.
  virtual void PartDone() = 0;
  // No part is left, or none has begun. Not called where PartDone does not.
  virtual void Over() = 0;
  // Whether arguments come one by one, and results are told one by one.
  virtual bool partial() const { return false; }
  // Of a partial step: a result is there before the end.
  virtual void ResultCame(uint32_t, Tensor) {}
  // A part has failed, which is the step's first error. For a step whose master is elsewhere.
  virtual void PartFailed(uint32_t, const absl::Status&) {}
  // The watch answers instead of the step: takes what it needs for that. Once, from the clock's
  // thread.
  virtual void GiveAnswer(EarlyAnswer*) {}

 protected:
  ~Step() = default;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_STEP_H_
