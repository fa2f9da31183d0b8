// What the actor of a queue runner does (kernels/state/state_machine.h), without actors and steps:
// it hears how steps end, and answers what is to be done next.
//
//   state      request                        answer                                             next
//   running    an enqueue ended OK            1 run it again                                      running
//   running    an enqueue says: no more       2 nothing; of the last one: run the close op        running; ending
//   running    an enqueue failed              3 stop the coordinator with its error; of the last
//                                               one: run the cancel op, for which the stop would
//                                               come too late                                     running; stopping
//   running, ending    stop                   4 run the cancel op: a close may wait behind
//                                               enqueues that nobody makes room for               stopping
//   stopping   an enqueue ended               5 nothing; of the last one, when the cancel op has
//                                               ended, too: leave                                 stopping; ended
//   ending, stopping   close or cancel ended  6 leave, if no enqueue is left                      ended
//   ended      stop                           7 nothing                                           ended
//   ending, stopping   close or cancel was
//              cut off by a death             8 run it again, after a pause; not a close when
//                                               the cancel op closes the queue, too               ending, stopping
//   ending     close failed otherwise, or was
//              cut off too often              9 stop the coordinator with its error, and run
//                                               the cancel op                                     stopping
//   stopping   cancel failed likewise        10 stop the coordinator with its error; leave, if
//                                               no enqueue is left                                stopping; ended
//
// Somebody has to close the queue: whoever waits for its elements would wait for ever.
//
// Thread rule: as for StateMachine.
//
// Tests of the edges, tests/queue/coordinator_test.cc:
//   1, 2, 4, 6, 7  edges_1_2_and_6_of_a_runner_the_last_to_end_closes_the_queue
//   3        edge_3_of_a_runner_a_failure_stops_all
//   3        who_waits_for_elements_of_a_runner_that_failed_is_told
//   4, 5, 7  edges_4_5_and_7_of_a_runner_a_stop_cancels
//   8, 9, 10  edges_8_to_10_of_a_runner_a_close_that_is_cut_off_is_done_again
#ifndef TROUPE_ACTORS_TRAIN_RUNNER_MACHINE_H_
#define TROUPE_ACTORS_TRAIN_RUNNER_MACHINE_H_

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "kernels/state/state_machine.h"

namespace troupe::train {

struct RunnerRequest : StateRequest {
  enum class Kind : uint8_t { kEnqueueEnded, kCloseEnded, kCancelEnded, kStop };
  RunnerRequest(Kind k, absl::Status s = absl::OkStatus()) : kind(k), ended(std::move(s)) {}
  const Kind kind;
  const absl::Status ended;
  // The answer.
  bool again = false, close = false, cancel = false, leave = false;
  std::chrono::milliseconds pause{0};  // before close or cancel
  absl::Status failure;
};

class RunnerMachine : public StateMachine {
 public:
  RunnerMachine(std::string queue, size_t enqueue_ops, std::vector<absl::StatusCode> queue_closed)
      : queue_(std::move(queue)), running_(enqueue_ops), queue_closed_(std::move(queue_closed)) {}

 protected:
  void Handle(const StateRequestPtr& request, StateAnswers* answers) override {
    auto& r = static_cast<RunnerRequest&>(*request);
    answers->Reserve(1);
    switch (r.kind) {
      case RunnerRequest::Kind::kEnqueueEnded:
        EnqueueEnded(&r);
        break;
      case RunnerRequest::Kind::kCloseEnded:
      case RunnerRequest::Kind::kCancelEnded:
        CloseEnded(&r);
        break;
      case RunnerRequest::Kind::kStop:
        r.cancel = (running_ > 0 || closing_ > 0) && !stopped_;
        stopped_ = true;
        closing_ += r.cancel;
        break;
    }
    r.leave = running_ == 0 && closing_ == 0 && !std::exchange(left_, running_ == 0 && closing_ == 0);
    answers->Add(request, absl::OkStatus());
  }
  void Withdraw(const StateRequestPtr&, StateAnswers*) override {}
  void AbortWaiting(const absl::Status&, StateAnswers*) override {}
  absl::StatusOr<ResourceState> Save() const override { return Unimplemented("a queue runner is not saved"); }
  void Visit(const std::function<void(const Tensor&)>&) const override {}
  std::string What() const override { return StrCat("runner of queue '", queue_, "'"); }
  std::string HowMuch() const override { return StrCat(running_, " steps"); }

 private:
  void EnqueueEnded(RunnerRequest* r) {
    if (r->ended.ok() && !stopped_) {
      r->again = true;
      return;
    }
    --running_;
    if (r->ended.ok()) return;
    if (std::find(queue_closed_.begin(), queue_closed_.end(), r->ended.code()) == queue_closed_.end()) {
      r->failure = r->ended;
      if (running_ > 0 || stopped_) return;
      stopped_ = r->cancel = true;
      ++closing_;
    } else if (running_ == 0 && !stopped_) {
      r->close = true;
      ++closing_;
    }
  }

  void CloseEnded(RunnerRequest* r) {
    --closing_;
    const bool close = r->kind == RunnerRequest::Kind::kCloseEnded;
    // CANCELLED: of a closed session, or of a queue that is closed already.
    if (r->ended.ok() || absl::IsCancelled(r->ended) || (close && stopped_)) return;
    if ((absl::IsAborted(r->ended) || absl::IsUnavailable(r->ended)) && cut_off_ < kTries) {
      r->pause = std::chrono::milliseconds(10) * (1 << cut_off_++);
      (close ? r->close : r->cancel) = true;
      ++closing_;
      return;
    }
    r->failure = r->ended;
    if (!close) return;
    stopped_ = r->cancel = true;
    ++closing_;
  }

  // With their pauses some five seconds, in which a supervisor restarts what has died.
  static constexpr int kTries = 9;
  const std::string queue_;
  size_t running_;  // enqueue ops
  const std::vector<absl::StatusCode> queue_closed_;
  int closing_ = 0;  // close and cancel ops under way
  int cut_off_ = 0;  // how often one was cut off
  bool stopped_ = false, left_ = false;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_RUNNER_MACHINE_H_
