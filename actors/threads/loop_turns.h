// The execution unit of what the network's thread runs itself, when a message has come: the worker
// that takes it, and the executors of short steps.
//
// Problem: a message from another process would wake a thread of the scheduler, for the worker, and
// a compute thread, for the executor, and what that sends would wake the network's thread again.
// Each costs 20 to 70 us on a small VM, more than a short step itself.
//
// Contract: whoever hands a message to CAF on the network's thread makes a LoopTurns::Message and
// names it as the execution unit. Of the actors that are woken meanwhile, those that are ShortTurns
// and may run in the loop wait for Drain, which resumes them for one message each; all others go
// their way. After `kMost` in one Drain the rest goes elsewhere: the thread has other connections
// to look after, and heartbeats. A turn is never interrupted, so that whoever may run here has to
// know that it is short.
//
// Nobody may block here (inside_actor.h), and the program's code is to run elsewhere: whoever
// drains leaves kernels' callbacks for a step that is told to end to a thread aside
// (step/cancel_later.h), and what ends a step that calls the program is not for this thread
// (RemoteSteps::OffTheLoop).
//
// Thread rule: a Message belongs to the thread that makes it, as does its unit. TookLong comes on
// that thread.
#ifndef TROUPE_ACTORS_THREADS_LOOP_TURNS_H_
#define TROUPE_ACTORS_THREADS_LOOP_TURNS_H_

#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"

namespace troupe {

// An actor that may take its turn in the network's thread.
class ShortTurns {
 public:
  // Whether it may now. Asked by whoever wakes it there.
  virtual bool MayRunInLoop() const = 0;
  // Lets the threads resume it that do so otherwise.
  virtual void ResumeElsewhere() noexcept = 0;
  // Whether others are likely to follow its messages soon: not of what comes by the clock.
  virtual bool IsTalk() const { return true; }
  // A turn took longer than any should that runs here. The actor may have ended with it, and be
  // on its way to another thread: only what is its own for ever may be touched.
  virtual void TookLong(std::chrono::nanoseconds) {}

 protected:
  ~ShortTurns() = default;
};

class LoopTurns : public caf::execution_unit {
 public:
  static constexpr std::chrono::microseconds kMost{1000};

  // `loop`: where actors go that are nobody's concern here.
  LoopTurns(caf::actor_system* system, caf::execution_unit* loop) : caf::execution_unit(system), loop_(loop) {}
  // The unit of the message that this thread handles; null when it handles none, or has no time
  // left for it.
  static LoopTurns* Here();
  // How many messages this thread has handled.
  static uint64_t Messages();
  // Whether it has resumed an actor for a talk since the last TakeRan, which says when it did so
  // first.
  static bool HasRan();
  static std::optional<std::chrono::steady_clock::time_point> TakeRan();
  // How many turns all threads of this process have resumed so.
  static uint64_t TurnsOfAll();
  void exec_later(caf::resumable* actor) override;
  // Resumes who waits, and whom they wake.
  void Drain();

  // While it lives, its thread handles a message.
  class Message {
   public:
    explicit Message(caf::execution_unit* loop);
    ~Message();
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;
    LoopTurns* turns() const { return turns_; }

   private:
    LoopTurns* const turns_;
  };

 private:
  struct Waiting {
    caf::resumable* actor;
    ShortTurns* turns;
  };
  void Resume(const Waiting& next);

  caf::execution_unit* loop_;
  absl::InlinedVector<Waiting, 8> queue_;
  bool open_ = false;       // a message is being handled
  bool time_over_ = false;  // in Drain
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_LOOP_TURNS_H_
