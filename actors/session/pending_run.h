// An asynchronous call whose signature is still being compiled. Its deadline counts from the call
// and applies during the compile, as does its token. The feeds are released when the call is
// answered, even if the compile still holds a share of this object; who compiles is told that
// nobody waits any more.
//
//   state    event                     action                                        next
//   pending  Take                      1 callback and feeds are the taker's          taken
//   pending  the deadline has come     2 answer, DEADLINE_EXCEEDED; drop the feeds   answered
//   pending  the token is cancelled    3 answer, CANCELLED; drop the feeds           answered
//   answered Take                      4 there is nothing to take                    answered
//
// Early answers are given on the clock's thread, also after a cancellation: the thread that cancels
// may hold locks that the callback takes. Thread rule: all methods are thread safe.
//
// Tests of the edges, tests/cast/pending_run_test.cc:
//   1     edge_1_callback_and_feeds_are_the_takers
//   2, 4  edges_2_and_4_the_deadline_answers_and_nothing_is_left_to_take
//   3, 4  edges_3_and_4_a_token_answers_by_the_clock_and_nothing_is_left_to_take
#ifndef TROUPE_ACTORS_SESSION_PENDING_RUN_H_
#define TROUPE_ACTORS_SESSION_PENDING_RUN_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "actors/watch/call_wait.h"
#include "actors/watch/step_watch.h"

namespace troupe {

class PendingRun : public WatchedCall, public Cancellable, public std::enable_shared_from_this<PendingRun> {
 public:
  // `token` may be destroyed when this returns; its state is shared.
  static std::shared_ptr<PendingRun> Begin(std::shared_ptr<StepWatch> watch, const Deadline& deadline,
                                           const CancellationToken* token, std::vector<Tensor> feeds, RunCallback done);
  struct Taken {
    RunCallback done;  // null when the call has been answered
    std::vector<Tensor> feeds;
  };
  Taken Take();
  // Calls `tell` when the call is answered without its signature; now, if it has been already.
  void WhenGivenUp(std::function<void()> tell);

  void TimeIsUp() override;
  void OnCancel() override;

 private:
  PendingRun(std::shared_ptr<StepWatch> watch, const Deadline& deadline, std::vector<Tensor> feeds, RunCallback done)
      : watch_(std::move(watch)), deadline_(deadline), run_{std::move(done), std::move(feeds)} {}

  const std::shared_ptr<StepWatch> watch_;
  const Deadline deadline_;
  std::optional<Cancellation> cancellation_;
  mutable std::mutex mu_;
  Taken run_;
  std::function<void()> given_up_;
  bool cancelled_ = false;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_PENDING_RUN_H_
