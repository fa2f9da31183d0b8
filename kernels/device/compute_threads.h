// The compute threads of a process or device: one budget of N busy threads, the caller included.
//
// ComputeThreads(N) starts N - 1 workers. ParallelFor splits a loop among the caller and whichever workers are idle; Schedule hands a job to
// a worker. With N = 1 there are no workers and everything runs on the caller, in order. Every worker flushes denormals to zero.
//
// Thread rule: all methods may be called from any thread, workers included (a nested ParallelFor makes progress on its caller alone
// when no worker is idle). ParallelFor blocks until the whole range is done; Schedule never blocks.
//
// An exception out of a range, whoever ran it, comes out of ParallelFor when all ranges are done; of several, the first.
#ifndef TROUPE_KERNELS_DEVICE_COMPUTE_THREADS_H_
#define TROUPE_KERNELS_DEVICE_COMPUTE_THREADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace troupe {

class ComputeThreads {
 public:
  // threads >= 1; 0 means one per hardware thread.
  explicit ComputeThreads(int threads);
  ~ComputeThreads();  // finishes scheduled jobs, joins the workers
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

  int num_threads() const { return num_threads_; }
  // True when a worker is idle now: a job given to Schedule would start at once. Always false with one thread.
  bool HasIdleWorker() const;
  // Runs `job` on a worker; with one thread, on the caller before it returns.
  void Schedule(std::function<void()> job);

  // For a thread that waits for jobs: works on the loops that jobs of `owner` (see LoopOwner) begin, until enough() is true, or until there has been nothing to do for
  // some 200 us. enough() is asked between two ranges, and again and again while there is nothing to do.
  template <class F>
  void Help(const void* owner, F&& enough) {
    using Fn = std::remove_reference_t<F>;
    HelpLoops(
        owner, [](void* fn) -> bool { return (*static_cast<Fn*>(fn))(); },
        const_cast<void*>(static_cast<const void*>(&enough)));
  }
  // For the time of its life, loops that this thread begins belong to `owner`, an address that is only compared.
  class LoopOwner {
   public:
    explicit LoopOwner(const void* owner);
    ~LoopOwner();
    LoopOwner(const LoopOwner&) = delete;
    LoopOwner& operator=(const LoopOwner&) = delete;

   private:
    const void* const before_;
  };

  // Calls f(begin, end) for disjoint ranges that cover [0, n). `unit_cost` is the estimated nanoseconds of one element: a range shorter than
  // some 20 us of work is not split. Which ranges are made depends on n, unit_cost and num_threads only, never on timing, so that sums computed per range are
  // reproducible; who runs them does depend on timing.
  template <class F>
  void ParallelFor(int64_t n, double unit_cost, F&& f) {
    const int64_t ranges = NumRanges(n, unit_cost);
    if (ranges <= 1) {
      if (n > 0) f(int64_t{0}, n);
      return;
    }
    using Fn = std::remove_reference_t<F>;
    RunRanges(
        n, ranges, [](void* fn, int64_t b, int64_t e) { (*static_cast<Fn*>(fn))(b, e); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
  // How many ranges ParallelFor makes, and range `i` of them.
  int64_t NumRanges(int64_t n, double unit_cost) const;
  static void Range(int64_t n, int64_t ranges, int64_t i, int64_t* begin, int64_t* end);
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

  struct Impl;

 private:
  void HelpLoops(const void* owner, bool (*enough)(void*), void* arg);
  void RunRanges(int64_t n, int64_t ranges, void (*fn)(void*, int64_t, int64_t), void* arg);
  int num_threads_;
  std::unique_ptr<Impl> impl_;
};

// Flush-to-zero and denormals-are-zero for the time of its life; restores what was set. A step's kernels run under it.
class ScopedFlushDenormals {
 public:
  ScopedFlushDenormals();
  ~ScopedFlushDenormals();

 private:
  uint32_t saved_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_COMPUTE_THREADS_H_
