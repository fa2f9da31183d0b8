#include "troupe/compute_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "graph/core/clock.h"
#include "kernels/device/when_threads_are_made.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace troupe {

ScopedFlushDenormals::ScopedFlushDenormals() {
#if defined(__x86_64__) || defined(_M_X64)
  saved_ = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // FTZ | DAZ, all exceptions masked, round to nearest
#elif defined(__aarch64__)
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  saved_ = static_cast<uint32_t>(fpcr);
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{1} << 24));  // FZ alone
#else
  saved_ = 0;
#endif
}

ScopedFlushDenormals::~ScopedFlushDenormals() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_setcsr(saved_);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(saved_)));
#endif
}

namespace {

constexpr double kMinRangeNanos = 20000;  // a range is worth waking a thread for
constexpr int kRangesPerThread = 2;       // slack for threads that are slower or come late
// A step that is told to end waits for the ranges that have begun. More ranges cost little where
// each is this long.
constexpr double kMaxRangeNanos = 10e6;
// A worker that has just worked looks out this long for more before it sleeps, and a caller for its
// helpers: within a training step the next loop comes after a few microseconds, and waking a thread
// costs up to 70 us on a small VM. Bounded, so that an idle process sleeps.
constexpr int64_t kLookOutNanos = 40000;
// Where nothing came so many times one after the other, so many looks are left out: a server of
// parameters gets its work from messages, and others need the processor.
constexpr int kLooksInVain = 4, kLooksLeftOut = 15;
// Who waits for jobs of its own step waits for the last of their ranges, which takes about this
// long.
constexpr int64_t kHelpNanos = 200000;

inline void Pause() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Looks at `ready` again and again for at most `nanos`. True when it became true.
template <class F>
bool LookOut(int64_t nanos, F&& ready) {
  const int64_t until = NowNanos() + nanos;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (NowNanos() < until);
  return false;
}

// A loop that several threads work on. Lives on the stack of ParallelFor's caller, which waits
// until nobody holds it.
struct Loop {
  void (*fn)(void*, int64_t, int64_t);
  void* arg;
  int64_t n, ranges;
  const void* owner = nullptr;
  bool (*ended)(const void*) = nullptr;  // tells whether to go on; null: to the end
  const void* ended_arg = nullptr;
  bool closed = false;  // to helpers, since its step was answered; guarded by Impl::mu
  // The caller takes ranges from the front, helpers from the back. So most of a range's data were
  // written by the thread that reads them, since the loop before was split alike, and lie in its
  // cache.
  std::atomic<int64_t> taken{0}, back{0};
  int64_t front = 0;            // the caller's own
  std::atomic<int> helpers{0};  // threads inside besides the caller; changed under Impl::mu
  std::atomic<bool> threw{false}, cut_off{false};
  std::exception_ptr exception;  // of whoever set `threw`

  bool HasMore() const { return taken.load(std::memory_order_relaxed) < ranges; }
  // Runs one range. False when there is none.
  bool WorkOnce(bool caller) {
    if (taken.fetch_add(1, std::memory_order_relaxed) >= ranges) return false;
    if (ended != nullptr && ended(ended_arg)) [[unlikely]] {
      taken.store(ranges, std::memory_order_relaxed);
      cut_off.store(true, std::memory_order_relaxed);
      return false;
    }
    const int64_t i = caller ? front++ : ranges - 1 - back.fetch_add(1, std::memory_order_relaxed);
    int64_t begin, end;
    ComputeThreads::Range(n, ranges, i, &begin, &end);
    try {
      fn(arg, begin, end);
    } catch (...) {
      if (!threw.exchange(true)) exception = std::current_exception();
    }
    return true;
  }
  void Work(bool caller) {
    while (WorkOnce(caller)) {
    }
  }
};

thread_local const void* loop_owner = nullptr;
// In one variable: finding one costs more than reading it.
struct LoopEnd {
  bool (*ended)(const void*) = nullptr;
  const void* arg = nullptr;
};
thread_local LoopEnd loop_end;
thread_local bool on_worker = false;

// What a worker has in hand. Lives on its stack; guarded by Impl::mu.
struct Hand {
  const void* owner = nullptr;
  bool busy = false, lost = false;
  Hand *before = nullptr, *after = nullptr;
};
thread_local const Hand* own_hand = nullptr;  // of a worker

}  // namespace

struct ComputeThreads::Impl {
  struct Job {
    std::function<void()> run;
    const void* owner = nullptr;
  };
  std::mutex mu;
  std::condition_variable work;      // workers wait here
  std::condition_variable finished;  // callers of ParallelFor wait here
  std::condition_variable ended;     // Stop waits here
  std::deque<Job> jobs;
  std::vector<Loop*> loops;        // that still have ranges to give
  std::atomic<uint32_t> news{0};   // counts loops and jobs that came
  std::atomic<int> idle{0};        // workers
  std::atomic<int> queued{0};      // jobs
  std::atomic<bool> turns{false};  // StartTurns has been here
  int asleep = 0;                  // of the idle ones, those that must be woken
  int promised = 0;                // of the others, those that somebody counts on already
  int most_helpers = 0;            // of one loop
  bool look_out = false;           // there is a processor for every thread
  bool stop = false;
  int running = 0;   // workers
  int too_many = 0;  // of these, since some that were lost have come back
  std::vector<std::thread> workers;
  Hand* hands = nullptr;  // of the workers

  // REQUIRES: mu is held, or nobody else knows this object.
  void AddWorker(const std::shared_ptr<Impl>& me) {
    workers.emplace_back([me] { me->Run(); });
    ++running;
  }
  void Join(Hand* h) {
    h->after = hands;
    if (hands != nullptr) hands->before = h;
    hands = h;
  }
  void Part(Hand* h) {
    (h->before != nullptr ? h->before->after : hands) = h->after;
    if (h->after != nullptr) h->after->before = h->before;
  }
  void Take(Hand* h, const void* owner) {
    h->owner = owner;
    h->busy = true;
  }
  // Whoever comes back although it was lost is one too many.
  void PutDown(Hand* h) {
    h->busy = false;
    if (std::exchange(h->lost, false)) ++too_many;
  }
  void Enter(Loop* loop, std::unique_lock<std::mutex>* lock) {
    loop->helpers.fetch_add(1, std::memory_order_relaxed);
    lock->unlock();
  }
  void Leave(Loop* loop, std::unique_lock<std::mutex>* lock) {
    lock->lock();
    // The caller may destroy the loop as soon as it sees no helpers: this is the last look at it.
    if (loop->helpers.fetch_sub(1, std::memory_order_acq_rel) == 1) finished.notify_all();
  }
  // The latest loop that has something to give, or null. Those that have not are forgotten.
  Loop* NextLoop() {
    for (size_t i = loops.size(); i-- > 0;) {
      Loop* l = loops[i];
      if (!l->HasMore()) {
        loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (!l->closed && l->helpers.load(std::memory_order_relaxed) < most_helpers) {
        return l;
      }
    }
    return nullptr;
  }
  void RunJob(std::deque<Job>::iterator it, std::unique_lock<std::mutex>* lock) {
    {
      const Job job = std::move(*it);
      jobs.erase(it);
      queued.fetch_sub(1, std::memory_order_relaxed);
      lock->unlock();
      try {
        job.run();
      } catch (...) {  // NOLINT: whoever gives a job catches what he wants to know of
      }
    }
    lock->lock();
  }

  void Run() {
    ScopedFlushDenormals flush;
    on_worker = true;
    bool worked = false;
    int in_vain = 0;  // looks one after the other, and those left out since
    Hand hand;
    std::unique_lock<std::mutex> lock(mu);
    Join(&hand);
    own_hand = &hand;
    for (;;) {
      if (too_many > 0 && !stop) {
        --too_many;
        --running;
        const auto me = std::find_if(workers.begin(), workers.end(),
                                     [](const std::thread& t) { return t.get_id() == std::this_thread::get_id(); });
        me->detach();
        workers.erase(me);
        Part(&hand);
        // It may have been woken for something that another one must take now.
        work.notify_one();
        return;
      }
      if (Loop* loop = NextLoop(); loop != nullptr) {
        Take(&hand, loop->owner);
        Enter(loop, &lock);
        loop->Work(false);
        Leave(loop, &lock);
        PutDown(&hand);
        worked = true;
      } else if (!jobs.empty()) {
        Take(&hand, jobs.front().owner);
        RunJob(jobs.begin(), &lock);
        PutDown(&hand);
        worked = true;
      } else if (stop) {
        --running;
        Part(&hand);
        ended.notify_all();
        return;
      } else if (worked && look_out && in_vain >= kLooksInVain && in_vain < kLooksInVain + kLooksLeftOut) {
        worked = false;
        ++in_vain;
      } else if (worked && look_out) {
        worked = false;
        const uint32_t seen = news.load(std::memory_order_relaxed);
        idle.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        const bool came = LookOut(kLookOutNanos, [&] { return news.load(std::memory_order_relaxed) != seen; });
        lock.lock();
        in_vain = came ? 0 : std::min(in_vain + 1, kLooksInVain);
        idle.fetch_sub(1, std::memory_order_relaxed);
        if (promised > 0) --promised;
      } else {
        idle.fetch_add(1, std::memory_order_relaxed);
        ++asleep;
        work.wait(lock);
        --asleep;
        idle.fetch_sub(1, std::memory_order_relaxed);
      }
    }
  }

  void Share(Loop* loop, int most);
  void Push(std::function<void()> run, const void* owner) {
    std::unique_lock<std::mutex> lock(mu);
    jobs.push_back({std::move(run), owner});
    queued.fetch_add(1, std::memory_order_relaxed);
    Announce(1, std::move(lock));
  }
  // Tells up to `wanted` workers that something came. REQUIRES: mu is held; it is released.
  void Announce(int wanted, std::unique_lock<std::mutex> lock) {
    news.fetch_add(1, std::memory_order_relaxed);
    // Who looks out takes one thing, however many are announced before it has the lock.
    const int awake = std::clamp(idle.load(std::memory_order_relaxed) - asleep - promised, 0, wanted);
    promised += awake;
    const int wake = std::min(wanted - awake, asleep);
    lock.unlock();
    if (wake == 1) {
      work.notify_one();
    } else if (wake > 1) {
      work.notify_all();
    }
  }
};

ComputeThreads::ComputeThreads(int threads)
    : num_threads_(threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency())),
      impl_(std::make_shared<Impl>()) {
  impl_->look_out = num_threads_ <= static_cast<int>(std::thread::hardware_concurrency());
  impl_->most_helpers = num_threads_ - 1;
  if (auto* const made = when_threads_are_made.load()) made();
  try {
    std::lock_guard<std::mutex> lock(impl_->mu);
    for (int i = 1; i < num_threads_; ++i) impl_->AddWorker(impl_);
  } catch (...) {
    Stop(std::chrono::hours(1));
    throw;
  }
}

ComputeThreads::~ComputeThreads() {
  {
    std::lock_guard<std::mutex> lock(impl_->mu);
    if (impl_->workers.empty()) return;  // there never were any, or they have been left
  }
  Stop(std::chrono::hours(24 * 365));
}

bool ComputeThreads::Stop(std::chrono::milliseconds patience) {
  bool all = false;
  std::vector<std::thread> workers;
  {
    std::unique_lock<std::mutex> lock(impl_->mu);
    impl_->stop = true;
    impl_->work.notify_all();
    all = impl_->ended.wait_for(lock, patience, [&] { return impl_->running == 0; });
    workers.swap(impl_->workers);
  }
  for (std::thread& t : workers) {
    if (all) {
      t.join();
    } else {
      t.detach();
    }
  }
  return all;
}

bool ComputeThreads::HasIdleWorker() const {
  return num_threads_ > 1 &&
         impl_->idle.load(std::memory_order_relaxed) > impl_->queued.load(std::memory_order_relaxed);
}

bool ComputeThreads::WantsJobs() const {
  return num_threads_ > 1 &&
         impl_->queued.load(std::memory_order_relaxed) < impl_->idle.load(std::memory_order_relaxed) + num_threads_ - 1;
}

ComputeThreads::LoopOwner::LoopOwner(const void* owner) : before_(std::exchange(loop_owner, owner)) {}
ComputeThreads::LoopOwner::~LoopOwner() { loop_owner = before_; }
ComputeThreads::LoopCancellation::LoopCancellation(bool (*ended)(const void*), const void* arg)
    : ended_before_(loop_end.ended), arg_before_(loop_end.arg) {
  loop_end = {ended, arg};
}
ComputeThreads::LoopCancellation::LoopCancellation(const std::atomic<bool>* flag)
    : LoopCancellation(
          flag == nullptr
              ? nullptr
              : +[](const void*
                        f) { return static_cast<const std::atomic<bool>*>(f)->load(std::memory_order_relaxed); },
          flag) {}
ComputeThreads::LoopCancellation::~LoopCancellation() { loop_end = {ended_before_, arg_before_}; }

void ComputeThreads::HelpLoops(const void* owner, bool (*enough)(void*), void* arg) {
  if (num_threads_ == 1) return;
  // What the ranges begin belongs to whom they belong to.
  const LoopOwner mine(owner);
  // News of others' loops does not make it wait longer.
  for (int64_t until = NowNanos() + kHelpNanos; !enough(arg);) {
    std::unique_lock<std::mutex> lock(impl_->mu);
    const auto it = std::find_if(impl_->loops.begin(), impl_->loops.end(),
                                 [owner](const Loop* l) { return l->owner == owner && l->HasMore(); });
    if (it != impl_->loops.end()) {
      Loop* loop = *it;
      impl_->Enter(loop, &lock);
      while (loop->WorkOnce(false) && !enough(arg)) {
      }
      impl_->Leave(loop, &lock);
      until = NowNanos() + kHelpNanos;
      continue;
    }
    const auto job =
        std::find_if(impl_->jobs.begin(), impl_->jobs.end(), [owner](const Impl::Job& j) { return j.owner == owner; });
    if (job != impl_->jobs.end()) {
      impl_->RunJob(job, &lock);
      until = NowNanos() + kHelpNanos;
      continue;
    }
    const uint32_t seen = impl_->news.load(std::memory_order_relaxed);
    lock.unlock();
    if (!impl_->look_out) return;
    const auto something = [&] { return enough(arg) || impl_->news.load(std::memory_order_relaxed) != seen; };
    if (!LookOut(until - NowNanos(), something) || NowNanos() >= until) return;
  }
}

void ComputeThreads::Schedule(std::function<void()> job, const void* owner) {
  if (num_threads_ == 1) return job();
  impl_->Push(std::move(job), owner);
}

bool ComputeThreads::StartTurns() {
  if (impl_->turns.load(std::memory_order_acquire)) return true;
  std::lock_guard<std::mutex> lock(impl_->mu);
  if (impl_->turns.load(std::memory_order_relaxed)) return true;
  try {
    impl_->AddWorker(impl_);
  } catch (const std::system_error&) {
    if (impl_->workers.empty()) return false;
  } catch (const std::bad_alloc&) {
    return !impl_->workers.empty();  // the next one tries again
  }
  impl_->turns.store(true, std::memory_order_release);
  return true;
}

void ComputeThreads::ScheduleTurn(std::function<void()> turn, const void* owner) {
  // What a lane leaves behind has its turn here, too, and nobody asked for a thread then.
  StartTurns();
  impl_->Push(std::move(turn), owner);
}

void ComputeThreads::DropJobs(const void* owner) {
  if (num_threads_ == 1) return;
  std::unique_lock<std::mutex> lock(impl_->mu);
  for (;;) {
    const auto it =
        std::find_if(impl_->jobs.begin(), impl_->jobs.end(), [owner](const Impl::Job& j) { return j.owner == owner; });
    if (it == impl_->jobs.end()) return;
    {
      const Impl::Job job = std::move(*it);
      impl_->jobs.erase(it);
      impl_->queued.fetch_sub(1, std::memory_order_relaxed);
      lock.unlock();  // it may have a share in anything
    }
    lock.lock();
  }
}

int ComputeThreads::LoseWorkers(const std::vector<const void*>& owners) {
  constexpr int kMostLost = 64;
  int lost = 0;
  std::lock_guard<std::mutex> lock(impl_->mu);
  for (Loop* l : impl_->loops) {
    if (std::find(owners.begin(), owners.end(), l->owner) != owners.end()) l->closed = true;
  }
  for (Hand* h = impl_->hands; h != nullptr && !impl_->stop; h = h->after) {
    if (!h->busy || h->lost || std::find(owners.begin(), owners.end(), h->owner) == owners.end()) continue;
    if (impl_->too_many > 0) {
      --impl_->too_many;
    } else if (impl_->running - impl_->too_many > num_threads_ + kMostLost) {
      break;
    } else {
      try {
        impl_->AddWorker(impl_);
      } catch (const std::exception&) {  // no thread, or no memory for one
        break;
      }
    }
    h->lost = true;
    ++lost;
  }
  return lost;
}

bool ComputeThreads::OnWorker() { return on_worker; }

int64_t ComputeThreads::NumRanges(int64_t n, double unit_cost) const {
  if (num_threads_ == 1 || n <= 1) return 1;
  const double by_cost = static_cast<double>(n) * unit_cost / kMinRangeNanos;
  if (by_cost < 2) return 1;
  return std::min<int64_t>({n, num_threads_ * kRangesPerThread, static_cast<int64_t>(std::min(by_cost, 1e9))});
}

int64_t ComputeThreads::NumBlocks(int64_t n, double unit_cost) const {
  const double work = static_cast<double>(n) * unit_cost;
  if (work < 2 * kMinRangeNanos || n <= 1) [[likely]]
    return 1;
  const int64_t blocks = std::min<int64_t>(n, static_cast<int64_t>(std::min(work / kMaxRangeNanos, 1e6)));
  return std::max(blocks, NumRanges(n, unit_cost));
}

void ComputeThreads::Range(int64_t n, int64_t ranges, int64_t i, int64_t* begin, int64_t* end) {
  // Longer ranges are spread among the others, so that the first half of them has half of the work.
  const int64_t base = n / ranges, rest = n % ranges;
  *begin = i * base + i * rest / ranges;
  *end = (i + 1) * base + (i + 1) * rest / ranges;
}

void ComputeThreads::RunRanges(int64_t n, int64_t ranges, void (*fn)(void*, int64_t, int64_t), void* arg) {
  Loop loop{fn, arg, n, std::min(n, ranges), loop_owner, loop_end.ended, loop_end.arg};
  if (num_threads_ == 1) {
    loop.Work(true);
  } else {
    impl_->Share(&loop, num_threads_ - 1);
  }
  if (loop.threw.load(std::memory_order_relaxed)) [[unlikely]]
    std::rethrow_exception(loop.exception);
  if (loop.cut_off.load(std::memory_order_relaxed)) [[unlikely]]
    throw LoopCancelled();
}

// The caller's side of a loop: on return nobody knows it any more.
void ComputeThreads::Impl::Share(Loop* loop, int most) {
  {
    std::unique_lock<std::mutex> lock(mu);
    if (own_hand != nullptr && own_hand->lost) {  // those that took its place are not to follow it
      lock.unlock();
      return loop->Work(true);
    }
    try {
      loops.push_back(loop);
    } catch (const std::bad_alloc&) {
      // Nobody hears of it. An update of a variable has begun to write, perhaps, and must go on.
      lock.unlock();
      return loop->Work(true);
    }
    Announce(static_cast<int>(std::min<int64_t>(most, loop->ranges - 1)), std::move(lock));
  }
  loop->Work(true);
  const auto alone = [loop] { return loop->helpers.load(std::memory_order_acquire) == 0; };
  std::unique_lock<std::mutex> lock(mu);
  const auto it = std::find(loops.begin(), loops.end(), loop);
  if (it != loops.end()) loops.erase(it);  // from here on nobody comes, they only leave
  if (alone()) return;
  if (look_out) {
    lock.unlock();
    // A helper's last look at the loop is the one that lets us see that it is gone.
    if (LookOut(kLookOutNanos, alone)) return;
    lock.lock();
  }
  finished.wait(lock, alone);
}

}  // namespace troupe
