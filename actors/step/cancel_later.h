// Calls the cancellation lists of steps when no lock of the library is held.
//
// A step is told to end under several locks: the watch's, a token's, a signature's list of sets.
// What kernels have registered with StepContext::cancellations is code of the program, and may call
// whatever takes the same locks: RunAsync with a deadline, the token, Close. So whoever takes such
// a lock makes a CancelLater before it, and ExecutorSet::Stop leaves the steps' contexts there. A
// context that waits here is shared, so the next step of its set gets another one.
//
//   CancelLater later;
//   std::lock_guard<std::mutex> lock(mu_);
//   set->Stop(step_id, status);           // marks the step; its callbacks are called after the lock
//
// Thread rule: an object belongs to the thread that makes it; Cancel may be called on any thread.
#ifndef TROUPE_ACTORS_STEP_CANCEL_LATER_H_
#define TROUPE_ACTORS_STEP_CANCEL_LATER_H_

#include <memory>
#include <vector>

#include "troupe/kernel.h"

namespace troupe {

class CancelLater {
 public:
  CancelLater();
  // Calls the lists, unless an outer object of this thread will.
  ~CancelLater();
  CancelLater(const CancelLater&) = delete;
  CancelLater& operator=(const CancelLater&) = delete;

  // Calls the context's list: at once, or when the outermost object of this thread goes. At once,
  // too, when there is no memory to remember it.
  static void Cancel(std::shared_ptr<StepContext> context) noexcept;
  // Calls what has been left so far, if this is the outermost object.
  void Flush() noexcept;
  // As Flush, but on a thread aside, for a thread on which nobody may wait for kernels' callbacks:
  // a supervisor's. As Flush if `aside` is false, and when there is no memory for it.
  void FlushAside(bool aside) noexcept;

 private:
  using Contexts = std::vector<std::shared_ptr<StepContext>>;
  const bool outermost_;
  Contexts contexts_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_CANCEL_LATER_H_
