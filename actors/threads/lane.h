// A lane: an execution unit of CAF whose thread is the caller of a blocking Run. It resumes the
// executors of the step that the call started.
//
// Handing a step to CAF's scheduler and back costs two thread switches (20-70 us on a small VM).
// With a lane, messages that wake the step's executors put them on a queue that the calling thread
// drains; it would only wait otherwise. The executors remain ordinary actors. The caller of
// RunAsync may be the lane of a short step, too, but never waits in it (step/lend.cc).
//
// Thread rule: Own, Attach, Detach, DrainSome and Wait belong to the calling thread. Messages sent
// by that thread name the lane as their execution unit; other threads name remote(), which queues
// under a mutex and wakes the lane. An actor that is not the lane's own goes to the scheduler. The
// lane's own actors go to `elsewhere` (turn_threads.h) when no thread drains the lane any more.
#ifndef TROUPE_ACTORS_THREADS_LANE_H_
#define TROUPE_ACTORS_THREADS_LANE_H_

#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace troupe {

class Lane : public caf::execution_unit {
 public:
  // `elsewhere`: null is the scheduler. It outlives the lane.
  explicit Lane(caf::actor_system* system, caf::execution_unit* elsewhere = nullptr);
  ~Lane() override;

  // Sets the actors that may run in this lane. Afterwards queueing one needs no memory.
  void Own(std::vector<caf::resumable*> actors);
  // Makes the calling thread the lane's thread until Detach. In between, actors that other threads
  // wake wait for this thread; at other times they go elsewhere, so that no actor waits in a lane
  // that no thread drains.
  void Attach();
  // Actors that are still queued go elsewhere.
  void Detach();
  bool IsAttached() const { return thread_ == std::this_thread::get_id(); }
  void exec_later(caf::resumable* actor) override;
  // The execution unit for other threads.
  caf::execution_unit* remote() { return &remote_; }
  // Resumes the actors that are queued now, also by other threads, each once. True when others have
  // been queued since.
  bool DrainSome();
  // Sleeps until an actor is queued or another thread calls Wake.
  void Wait();
  void Wake();
  // True when there is something to drain, or Wait would return at once. Takes no lock; for the
  // lane's thread while it does other work.
  bool Stirred() const { return head_ < queue_.size() || woken_.load(std::memory_order_acquire); }
  // Calls `last` under the lane's lock, and wakes the lane if it returns true. What `last`
  // publishes may make the lane's thread leave; since Detach waits for the lock, the lane lives
  // until this call is over.
  template <class F>
  void WakeIf(F&& last) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!last()) return;
    woken_.store(true, std::memory_order_release);
    wake_.notify_one();
  }

 private:
  class Remote : public caf::execution_unit {
   public:
    Remote(caf::actor_system* system, Lane* lane) : caf::execution_unit(system), lane_(lane) {}
    void exec_later(caf::resumable* actor) override;

   private:
    Lane* lane_;
  };

  void Elsewhere(caf::resumable* actor);
  // Queues what other threads have woken.
  void TakeInbox();

  caf::execution_unit* const elsewhere_;
  std::atomic<std::thread::id> thread_{};
  std::vector<caf::resumable*> own_;
  // In the lane itself: a step writes here, and the next line of the heap may be another thread's.
  absl::InlinedVector<caf::resumable*, 4> queue_;
  size_t head_ = 0;
  Remote remote_;
  std::mutex mu_;
  std::condition_variable wake_;
  absl::InlinedVector<caf::resumable*, 4> inbox_;  // from other threads
  std::atomic<bool> filled_{false};                // the inbox is not empty; changed under mu_
  std::atomic<bool> woken_{false};                 // changed under mu_
  bool attached_ = false;
};

// True while this thread is in a turn of a lane.
bool InsideLane();
class LaneTurn {
 public:
  LaneTurn();
  ~LaneTurn();
  LaneTurn(const LaneTurn&) = delete;
  LaneTurn& operator=(const LaneTurn&) = delete;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_LANE_H_
