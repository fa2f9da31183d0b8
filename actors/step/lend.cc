// Lends the calling thread of RunAsync to short steps.
//
// A step of one microsecond that an actor starts would otherwise cost two thread switches (20-70 us
// while the threads sleep). So the thread that calls RunAsync is the step's lane (threads/lane.h),
// as in a blocking Run, but never waits: when nothing is left that could run at once (an
// asynchronous kernel or a job is under way), or the time is over, it hands the executors to the
// compute threads (threads/turn_threads.h), which continue the step. If the step is over by then,
// `done` is called on the calling thread.
//
//   asked     no step is known that was short with feeds as big                    1 on the compute threads, as are first steps        elsewhere
//   asked     a part has kernels of the user's, which may not come back, or is in another process
//                                                                                  2 on the compute threads                            elsewhere
//   asked     inside of an executor's turn (a kernel starts a step)                2 on the compute threads                            elsewhere
//   asked     within `done` of a lent step of this thread                          3 it waits until that returns                       waiting
//   asked     otherwise                                                            4 run_step to each executor, through the lane      lent
//   waiting   the time of the thread's first lent step is over                     5 run_step to each executor, on the compute threads elsewhere
//   waiting   otherwise                                                            6 as 4                                              lent
//   lent      the step is over                                                     7 `done`, unless it was answered early             gone
//   lent      nothing can run now, or the time is over                             8 queued executors go to the compute threads        elsewhere
//   any       it was stopped, and has not ended 50 ms later                        9 `done` by the clock (step_watch.h)                answered
//   answered  the step is over                                                    10 nothing is told                                   gone
//
// An actor's handler therefore loses its thread for at most `lend_us` and one turn of an executor
// (2000 nodes), less than the scheduler gives an actor. A chain of steps that `done` callbacks
// start shares that time; then it continues on the compute threads, and the caller of RunAsync gets
// its thread back.
//
// A blocking Run that must not wait in its lane (blocking_step.h) starts its step in the same way,
// for at most the time that such a step may take, and then waits for the answer without the lane.
// It follows edges 4, 7, 8, 9 and 10.
//
// While the calling thread works on a step, the step counts one part more than it has, so that it
// is not over before the thread has released the set.
//
// Tests of the edges, tests/cast/asynchronous_test.cc:
//   1, 3, 6  a_lent_step_sends_the_scheduler_nothing_and_keeps_its_deadline
// and tests/cast/lane_test.cc:
//   2        edge_2_no_thread_is_lent_to_kernels_of_the_users
//   2        edge_2_no_thread_is_lent_inside_of_an_executors_turn
//   4, 7     edges_4_and_7_a_lent_step_is_over_when_run_async_comes_back
//   8        edge_8_a_lent_step_that_must_wait_goes_on_under_the_scheduler
//   9, 10    edges_9_and_10_a_lent_step_that_does_not_end_is_answered_by_the_clock_and_once
// and tests/actors/lending_test.cc:
//   5        an_endless_chain_gives_the_thread_back
#include <time.h>

#include <caf/all.hpp>

#include "actors/threads/actor_thread.h"
#include "actors/executor/turn.h"
#include "actors/signature/signature.h"
#include "actors/step/executor_set.h"
#include "troupe/compute_threads.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// What this thread does for lent steps.
struct Lender {
  bool busy = false, follows = false;
  std::vector<AsyncStep*> waiting;  // started within a `done`
  size_t next = 0;
  AsyncStep* Next() {
    if (next == waiting.size()) return nullptr;
    AsyncStep* step = waiting[next++];
    if (next == waiting.size()) {
      waiting.clear();
      next = 0;
    }
    return step;
  }
};
thread_local Lender lender;

// In ticks of some milliseconds, for a third of the cost of a clock that has finer ones.
int64_t CoarseNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

// Not as a lender of RunAsync: within a `done` of one the caller would wait for itself.
void AsyncStep::RunHere(const Deadline& deadline, const CancellationToken* token, RunCallback done,
                        proto::RunMetadata* metadata, std::shared_ptr<Signature> keep) noexcept {
  const bool limited = deadline.ms > 0 || token != nullptr;
  const std::chrono::nanoseconds most(limited ? kLimitedNanos : kUsersNanos);
  Begin(deadline, token, std::move(done), metadata, std::move(keep), true);
  set_.CountUp();
  Clock::time_point until{};
  // When the time is over in which it was expected to end, it goes on elsewhere: this thread waits,
  // and hears of a deadline or a Close whatever the kernels do.
  RunInLane(most.count() / 1000, [&] {
    const Clock::time_point now = Clock::now();
    if (until == Clock::time_point()) until = now + most;
    return now >= until;
  });
  LetGo();
}

bool AsyncStep::MayLend(int64_t lend_us) const {
  // Of a user's kernel nobody knows when it gives the thread back.
  if (lend_us <= 0 || set_.user_kernels() || InsideLane() || step_in_turn != nullptr) return false;
  // The clock's thread, say, on which an early answer's callback may start the next step.
  if (MustNotBlockHere()) return false;
  return set_.cost().ShortFor(lend_us * 1000, absl::Span<const Tensor>(feeds_));
}

// The step has begun, and may be over when this returns.
void AsyncStep::Lend(int64_t lend_us) noexcept {
  set_.CountUp();
  if (lender.busy) {
    try {
      return lender.waiting.push_back(this);
    } catch (const std::bad_alloc&) {
      set_.LaunchElsewhere(stats_);
      return LetGo();
    }
  }
  lender.busy = true;
  lender.follows = false;
  Clock::time_point until{};
  RunLent(&until, lend_us);
  while (AsyncStep* step = lender.Next()) step->RunLent(&until, lend_us);
  lender.busy = false;
}

// `until`, when the thread's time is over, is set when that begins to count: reading the clock
// costs a tenth of a small step, and most steps are the only one.
void AsyncStep::RunLent(Clock::time_point* until, int64_t lend_us) {
  const auto time_is_over = [&] {
    const Clock::time_point now = Clock::now();
    if (*until == Clock::time_point()) *until = now + std::chrono::microseconds(lend_us);
    return now >= *until;
  };
  const bool follows = std::exchange(lender.follows, true);
  if (follows && time_is_over()) {
    set_.LaunchElsewhere(stats_);
  } else {
    RunInLane(lend_us, time_is_over);
  }
  LetGo();
}

// Runs the step on this thread until nothing of it can run, or over() is true after a turn.
template <class F>
void AsyncStep::RunInLane(int64_t lend_us, F over) {
  set_.EnterLane();
  {
    const LaneTurn turn;
    const ScopedFlushDenormals flush;
    const NoLoggerMeanwhile quiet(&set_.lane().system());
    const int64_t begun = CoarseNanos();
    set_.Launch(&set_.lane(), stats_);
    while (set_.lane().DrainSome()) {
      if (over()) break;
    }
    // Of longer ones each is seen, of shorter ones so many that little time is lost by them.
    if (CoarseNanos() - begun > lend_us * 1000) set_.cost().Overran();
  }
  set_.LeaveLane();
}

}  // namespace troupe
