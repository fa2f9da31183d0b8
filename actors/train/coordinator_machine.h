// What the coordinator's actor does (kernels/state/state_machine.h), without actors.
//
//   state      request               action                                                    next
//   working    enter {number, name}  1 one more member                                         working
//   working    leave {number}        2 one less; who waits for the last hears it               working
//   working    stop {status}         3 keep the status unless its code is a clean one; tell    stopped
//                                      all who wait for the stop
//   stopped    stop {status}         4 ignored: the first counts                               stopped
//   stopped    enter, leave          5 as 1 and 2                                              stopped
//   any        wait until stopped, until all have left, or until either
//                                    6 answered when it is so                                  as before
//   any        the actor dies        7 who waits goes on waiting: the next actor answers       as before
//
// Thread rule: as for StateMachine; `stopped` may be read by any thread.
//
// Tests of the edges, tests/queue/coordinator_test.cc:
//   1, 2, 6  edges_1_2_and_6_members_come_and_go
//   3, 4, 5  edges_3_to_5_the_first_who_stops_counts
//   7        edge_7_who_waits_for_a_coordinator_that_dies_goes_on_waiting
#ifndef TROUPE_ACTORS_TRAIN_COORDINATOR_MACHINE_H_
#define TROUPE_ACTORS_TRAIN_COORDINATOR_MACHINE_H_

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/state/state_machine.h"

namespace troupe::train {

struct CoordinatorRequest : StateRequest {
  enum class Kind : uint8_t { kEnter, kLeave, kStop, kWaitStopped, kWaitEmpty, kWaitEither, kAsk };
  explicit CoordinatorRequest(Kind k) : kind(k) {}
  const Kind kind;
  std::string name;                  // kEnter
  int64_t number = 0;                // of the member, kEnter and kLeave
  absl::Status why;                  // kStop; kAsk: the answer
  std::vector<std::string> members;  // kAsk: the answer
};

class CoordinatorMachine : public StateMachine {
 public:
  explicit CoordinatorMachine(std::vector<absl::StatusCode> clean_stop) : clean_stop_(std::move(clean_stop)) {}
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

 protected:
  void Handle(const StateRequestPtr& request, StateAnswers* answers) override;
  void Withdraw(const StateRequestPtr& request, StateAnswers* answers) override;
  void AbortWaiting(const absl::Status&, StateAnswers*) override {}
  absl::StatusOr<ResourceState> Save() const override { return Unimplemented("a coordinator is not saved"); }
  void Visit(const std::function<void(const Tensor&)>&) const override {}
  std::string What() const override { return "coordinator"; }
  std::string HowMuch() const override { return StrCat(members_.size(), " members"); }

 private:
  bool IsSo(CoordinatorRequest::Kind wait) const;
  void Tell(StateAnswers* answers);

  const std::vector<absl::StatusCode> clean_stop_;
  std::map<int64_t, std::string> members_;
  std::atomic<bool> stopped_{false};
  absl::Status error_;
  std::list<std::shared_ptr<CoordinatorRequest>> waiting_;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_COORDINATOR_MACHINE_H_
