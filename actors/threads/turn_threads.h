// The execution unit of executors that no lane runs: the runtime's compute threads.
//
// The threads of an actor system serve session, worker and supervisor, and the actors of the
// program. A kernel that ran there would keep them from answering. So an executor that is in no
// lane (lane.h) names this execution unit, and each time it is resumed is one job of a compute
// thread.
//
// Thread rule: exec_later may be called from any thread while the runtime lives.
#ifndef TROUPE_ACTORS_THREADS_TURN_THREADS_H_
#define TROUPE_ACTORS_THREADS_TURN_THREADS_H_

#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>
#include <memory>
#include <vector>

#include "troupe/compute_threads.h"
#include "troupe/status.h"

namespace troupe {

class TurnThreads : public caf::execution_unit {
 public:
  TurnThreads(caf::actor_system* system, std::shared_ptr<ComputeThreads> threads)
      : caf::execution_unit(system), threads_(std::move(threads)) {}
  // Starts the threads for turns, if they do not run. RESOURCE_EXHAUSTED when the system has no
  // thread left. To be called before a step that needs them begins.
  absl::Status Start();
  // REQUIRES: Start was OK.
  void exec_later(caf::resumable* actor) override;
  // As exec_later, once: throws std::bad_alloc.
  void TryExecLater(caf::resumable* actor) {
    threads_->ScheduleTurn([this, actor] { Resume(actor); }, actor);
  }
  // See ComputeThreads. The owner of an actor's turns and of their loops is the actor, a
  // caf::resumable.
  void LoseWorkers(const std::vector<const void*>& owners) { threads_->LoseWorkers(owners); }

 private:
  void Resume(caf::resumable* actor);

  const std::shared_ptr<ComputeThreads> threads_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_TURN_THREADS_H_
