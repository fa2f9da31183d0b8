// A node that was ready, but whose kernel, or the reading of a reference among its inputs, must
// wait for something that others have (troupe/kernel.h, KernelWait).
#ifndef TROUPE_ACTORS_EXECUTOR_PENDING_WAIT_H_
#define TROUPE_ACTORS_EXECUTOR_PENDING_WAIT_H_

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "troupe/kernel.h"

namespace troupe {

struct Iteration;

// What a kernel waits for, until its node is run again or the step is told to end. The latter is
// heard through the step's cancellation list, at once: a turn may be long, and others want what the
// step has got meanwhile. Thread rule: `wait` is guarded by `mu`.
struct PendingWait {
  std::mutex mu;
  std::unique_ptr<KernelWait> wait;  // null: given up, or taken by who runs the node
  std::atomic<bool> taken{false};    // the same, for those who cannot lock
  CancellationList::Id id = 0;
  std::unique_ptr<KernelWait> Take() {
    std::lock_guard<std::mutex> lock(mu);
    taken.store(true);
    return std::move(wait);
  }
};

// Thread rule: in the executor's turn.
struct WaitingNode {
  uint32_t node;
  Iteration* iteration;
  bool dead;
  int input;  // the reference; -1: the kernel
  std::shared_ptr<PendingWait> pending;
  int64_t since;
  std::list<WaitingNode>::iterator self;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_PENDING_WAIT_H_
