// A step that is fed and fetched piece by piece (partial run).
//
//   handle = *session.PartialRunSetup({"a", "b"}, {"x", "y"}, {});
//   session.PartialRun(handle, {{"a", ta}}, {"x"}, &out);     // x must not depend on b
//   session.PartialRun(handle, {{"b", tb}}, {"y"}, &out);
//
//   state    event                             action                                                              next
//   open     Run                             1 check it all, then send the feeds to the executors                  waiting
//   open     Run: a name, a value or an order that is wrong
//                                            2 nothing is fed                                                      open
//   waiting  all fetches of this Run are there 3 hand them over                                                    open
//   waiting  the step has ended, and no feed or fetch is left for a later Run
//                                            9 hand the fetches over, or return the step's error                   over
//   waiting  the step failed                 4 return its error                                                    over
//   waiting  the time of this Run is up      5 ask the parts what they wait for, end the step with their answers   waiting
//   open     GiveUp, the step's deadline, its token, the session's end
//                                            6 the step is aborted                                                 open; the next Run returns the error
//   any      the step has ended                7 the executors are released: none waits for the caller             as before; over when no fetch is left
//   any      the step was aborted 50 ms ago, and has not ended
//                                              8 as 4; the executors are released when its kernels have returned   as before
//
// A partial run is one step: every node runs once, as soon as its inputs are there. The running
// step keeps this object alive, so that dropping the handle need not wait. Thread rule: all methods
// are thread safe; a call waits for its fetches, the last one for the end of the step: what the
// targets do is done then, and their errors are told.
//
// Tests of the edges, tests/cast/partial_step_test.cc:
//   1, 3  edges_1_and_3_a_step_is_fed_and_fetched_piece_by_piece
//   2     edge_2_what_is_refused_leaves_the_step_as_it_was
//   4     edge_4_an_error_ends_the_step_and_the_handle
//   5     edge_5_a_call_that_takes_too_long_ends_the_step
//   6, 7  edges_6_and_7_the_steps_deadline_frees_the_executors_though_nobody_calls
//   6     edge_6_a_token_of_the_set_up_or_of_a_call_ends_the_step
//   6     edge_6_the_end_of_the_session_ends_what_is_open
//   7     edge_7_executors_are_free_before_the_last_fetch_is_taken
//   8     edge_8_a_step_that_does_not_end_is_answered
//   9     edge_9_the_last_call_waits_for_the_targets
#ifndef TROUPE_ACTORS_STEP_PARTIAL_STEP_H_
#define TROUPE_ACTORS_STEP_PARTIAL_STEP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/signature/signature.h"
#include "actors/step/step.h"

namespace troupe {

class PartialStep : public Step, public std::enable_shared_from_this<PartialStep> {
 public:
  explicit PartialStep(std::shared_ptr<Signature> signature) : signature_(std::move(signature)) {}
  // `options`, `deadline`: token and deadline of the whole step.
  void Start(const RunOptions& options, const Deadline& deadline);

  // `options`: deadline and token of this call; they end the step, too. INVALID_ARGUMENT: a name
  // that the set-up did not give, a tensor fed or fetched twice, or a fetch that depends on a feed
  // that has not come (named).
  absl::Status Run(const RunOptions& options, const Feeds& feeds, const Names& fetches, std::vector<Tensor>* outputs);
  // Aborts the step, if it still runs. Does not wait.
  void GiveUp();
  // True when every fetch has been taken or the step has failed: the handle is worth nothing any
  // more.
  bool over() const;
  // Why the step has failed; OK while it has not.
  absl::Status failure() const;

  // The step's answer, once: from the last executor's turn, or by the watch before the step's end.
  void OnDone(const absl::Status& status);

  // Step, from the executors' turns.
  void PartDone() override;
  void Over() override;
  bool partial() const override { return true; }
  void ResultCame(uint32_t index, Tensor value) override;
  void GiveAnswer(EarlyAnswer* answer) override { answer->partial = shared_from_this(); }

 private:
  void Feed(ExecutorSet* set, uint32_t index, const Tensor& value);
  // The executors are not needed any more.
  void LetGo();
  absl::StatusOr<size_t> IndexOf(const Names& names, const std::string& name, const char* what) const;
  // Waits until `ready` or, with a deadline, ends the step then.
  template <class F>
  void WaitFor(std::unique_lock<std::mutex>* lock, ExecutorSet* set, const Deadline& deadline, F ready);

  const std::shared_ptr<Signature> signature_;
  std::shared_ptr<PartialStep> me_;  // while the step runs
  ExecutorSet* running_ = nullptr;   // likewise; as set_, for the turns
  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::shared_ptr<ExecutorSet> set_;  // until the step has ended; goes back to its signature with the last reference
  std::vector<bool> fed_, ready_, fetched_;
  std::vector<Tensor> values_;              // fetches that are there and have not been taken
  std::optional<CancellationToken> token_;  // the whole step's
  bool done_ = false;
  absl::Status status_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_PARTIAL_STEP_H_
