// A lane: a thread that runs the actors of a step that it started.
//
// A request through CAF's scheduler and back costs two thread hops (20-70 us on a small VM). A
// blocking Run instead turns its own thread into an execution unit for the time of the step:
// messages that wake the step's executors put them on a queue that this thread drains. They stay
// actors, addressed and run by messages; only the thread that resumes them is the one that waits
// anyway. Who starts a short asynchronous step is its lane too, but never waits (lend.h).
//
// Thread rule: Own, Drain and Wait belong to the calling thread. Messages sent by that thread name
// the lane as their execution unit; other threads name remote(), which queues under a mutex and
// wakes the lane. An actor that is not the lane's own is handed to the scheduler; its own ones,
// when nobody drains the lane any more, to `elsewhere` (turn_threads.h).
#ifndef TROUPE_ACTORS_LANE_H_
#define TROUPE_ACTORS_LANE_H_

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

  // Actors that may run here.
  void Own(std::vector<caf::resumable*> actors) { own_ = std::move(actors); }
  // Makes the calling thread the lane's, until Detach. Between the two, other threads' messages
  // wait for this thread; otherwise they go elsewhere, so that an actor never waits in a lane that
  // nobody drains.
  void Attach();
  // Whoever is queued goes on elsewhere.
  void Detach();
  bool IsAttached() const { return thread_ == std::this_thread::get_id(); }
  void exec_later(caf::resumable* actor) override;
  // The execution unit for other threads.
  caf::execution_unit* remote() { return &remote_; }
  // Resumes the actors that are queued now, each once. True when others have been queued since.
  bool DrainSome();
  // Sleeps until an actor is queued or another thread calls Wake, or `until` has come (false).
  bool Wait(std::chrono::steady_clock::time_point until);
  void Wake();
  // Whether there is something to drain, or Wait would return at once. Without the lock, for the
  // lane's thread when it does something else until then.
  bool Stirred() const { return head_ < queue_.size() || woken_.load(std::memory_order_acquire); }
  // Wakes the lane when `last()` is true, which is called under the lane's lock: what it makes
  // visible to the lane's thread cannot make that thread leave, and the lane go, before this call
  // is over (Detach waits for the lock).
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
  std::atomic<bool> woken_{false};  // changed under mu_
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

#endif  // TROUPE_ACTORS_LANE_H_
