// The compute threads of a process or device: one budget of N busy threads, the caller included.
//
// ComputeThreads(N) starts N - 1 workers. ParallelFor splits a loop among the caller and whichever
// workers are idle; Schedule hands a job to a worker. With N = 1 there are none, and both run on
// the caller, in order. A turn (ScheduleTurn) has no caller that works: when the first one comes,
// StartTurns starts one worker more, so that turns have N threads, also with N = 1, and a program
// without turns has no thread more than before. All workers run under ScopedFlushDenormals.
//
// Thread rule: all methods may be called from any thread, workers included (a nested ParallelFor
// makes progress on its caller alone when no worker is idle). ParallelFor blocks until the whole
// range is done; Schedule and ScheduleTurn never block. Code that runs on a worker (a job, a turn,
// a range) must not wait for something that needs a worker itself; functions that wait so refuse
// the call where OnWorker is true.
//
// An exception that a range throws, on any thread, is thrown by ParallelFor when all ranges are
// done; of several, the first. An exception that a job or turn throws is dropped.
//
// A loop whose step was told to end begins no more ranges, and ParallelFor throws LoopCancelled
// (LoopCancellation says which step that is).
#ifndef TROUPE_COMPUTE_THREADS_H_
#define TROUPE_COMPUTE_THREADS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

// Thrown by ParallelFor instead of going on for a step that was told to end. A kernel lets it pass:
// its node then ends with CANCELLED.
class LoopCancelled : public std::exception {
 public:
  const char* what() const noexcept override { return "the step was told to end"; }
};

class ComputeThreads {
 public:
  // threads >= 1; 0 means one per hardware thread. Throws std::system_error when the system has no
  // thread left; none is left behind then.
  explicit ComputeThreads(int threads);
  ~ComputeThreads();  // Stop, however long it takes; nothing when the workers have been left
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

  // Finishes what was scheduled and joins the workers. False when that takes longer than
  // `patience`: then the workers are detached and end by themselves, so what their jobs use must
  // stay. A later Stop waits for them again, and returns true when none is left. REQUIRES: nothing
  // is scheduled any more, except by the jobs that are left.
  bool Stop(std::chrono::milliseconds patience);

  int num_threads() const { return num_threads_; }
  // True when a worker is idle now and nothing is queued for it: a job would start at once. Always
  // false with one thread.
  bool HasIdleWorker() const;
  // True when a job that is given to Schedule now would soon find a worker: one is idle, or has no
  // other to come back to when it is done with its own. Whoever gives jobs of a step works on what
  // has not begun (Help), so that one too many costs little.
  bool WantsJobs() const;
  // Runs `job` on a worker; with one thread, on the caller before it returns. `owner` may take it
  // back with Help.
  void Schedule(std::function<void()> job, const void* owner = nullptr);
  // Destroys, on this thread, the jobs of `owner` that have not begun.
  void DropJobs(const void* owner);
  // Makes sure that turns have a worker. False when the system has no thread for the first one. To
  // be called before ScheduleTurn; cheap when it was called before.
  bool StartTurns();
  // Runs `turn` on a worker, never on the caller.
  void ScheduleTurn(std::function<void()> turn, const void* owner = nullptr);
  // Says that jobs, turns and ranges of these owners, which run on workers now, may never end, and
  // that no caller waits for them. Each such worker is replaced by another one until it comes back,
  // so that other jobs and turns go on. Returns the number of replacements; it is smaller when some
  // workers were replaced before, when there are 64 replacements already, or when the system has no
  // thread left.
  int LoseWorkers(const std::vector<const void*>& owners);
  // Whether the calling thread is a worker of any ComputeThreads.
  static bool OnWorker();

  // For a thread that waits for jobs of `owner`: works on the loops that they begin (see LoopOwner)
  // and runs those that have not begun, until enough() is true, or until there has been nothing to
  // do for some 200 us. enough() is asked between two ranges or jobs, and again and again while
  // there is nothing to do.
  template <class F>
  void Help(const void* owner, F&& enough) {
    using Fn = std::remove_reference_t<F>;
    HelpLoops(
        owner, [](void* fn) -> bool { return (*static_cast<Fn*>(fn))(); },
        const_cast<void*>(static_cast<const void*>(&enough)));
  }
  // For the time of its life, loops that this thread begins belong to `owner`, an address that is
  // only compared.
  class LoopOwner {
   public:
    explicit LoopOwner(const void* owner);
    ~LoopOwner();
    LoopOwner(const LoopOwner&) = delete;
    LoopOwner& operator=(const LoopOwner&) = delete;

   private:
    const void* const before_;
  };

  // For the time of its life, loops that this thread begins end when `flag` becomes true, or
  // `ended(arg)` is. With null, nothing ends them: so for what must not be left half done.
  class LoopCancellation {
   public:
    explicit LoopCancellation(const std::atomic<bool>* flag);
    // `ended` is called before each range, on whichever thread runs that.
    LoopCancellation(bool (*ended)(const void*), const void* arg);
    ~LoopCancellation();
    LoopCancellation(const LoopCancellation&) = delete;
    LoopCancellation& operator=(const LoopCancellation&) = delete;

   private:
    bool (*const ended_before_)(const void*);
    const void* const arg_before_;
  };

  // Calls f(begin, end) for disjoint ranges that cover [0, n). `unit_cost` is the estimated
  // nanoseconds of one element: a range shorter than some 20 us of work is not split, and one
  // longer than some 10 ms is, also on one thread, so that a step can be ended between two. Which
  // ranges are made depends on n, unit_cost and num_threads only, never on timing, so that sums
  // computed per range are reproducible; who runs them does depend on timing.
  template <class F>
  void ParallelFor(int64_t n, double unit_cost, F&& f) {
    const int64_t ranges = NumBlocks(n, unit_cost);
    if (ranges <= 1) {
      if (n > 0) f(int64_t{0}, n);
      return;
    }
    using Fn = std::remove_reference_t<F>;
    RunRanges(
        n, ranges, [](void* fn, int64_t b, int64_t e) { (*static_cast<Fn*>(fn))(b, e); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
  // How many ranges keep all threads busy, for ParallelRanges; and range `i` of them.
  int64_t NumRanges(int64_t n, double unit_cost) const;
  static void Range(int64_t n, int64_t ranges, int64_t i, int64_t* begin, int64_t* end);
  // How many ranges ParallelFor makes.
  int64_t NumBlocks(int64_t n, double unit_cost) const;
  // As ParallelFor with the number of ranges given.
  template <class F>
  void ParallelRanges(int64_t n, int64_t ranges, F&& f) {
    if (ranges <= 1 || n <= 1) {
      if (n > 0) f(int64_t{0}, n);
      return;
    }
    using Fn = std::remove_reference_t<F>;
    RunRanges(
        n, ranges, [](void* fn, int64_t b, int64_t e) { (*static_cast<Fn*>(fn))(b, e); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  struct TROUPE_HIDDEN Impl;

 private:
  void HelpLoops(const void* owner, bool (*enough)(void*), void* arg);
  void RunRanges(int64_t n, int64_t ranges, void (*fn)(void*, int64_t, int64_t), void* arg);
  int num_threads_;
  std::shared_ptr<Impl> impl_;  // shared by the workers
};

// The floating point environment of kernels for the time of its life, whatever the thread's was:
// denormals are zero, round to nearest, no exception traps. Restores what was set. All kernels run
// under it, so that where one runs does not show.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();

 private:
  uint32_t saved_;
};

}  // namespace troupe

#endif  // TROUPE_COMPUTE_THREADS_H_
