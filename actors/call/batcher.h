// The actor that puts requests together (troupe/serving.h).
//
//   state (of one request)  event                                     action                     next
//   (none)   run_request that does not fit, or finds too many rows  1 run_reply with the error  (none)
//   (none)   run_request                                            2 it waits                  waiting
//   waiting  there is a step's worth of rows, or the first has waited long enough, and less than the
//            most steps run                                         3 run_request to the session running
//   waiting  its own deadline passed                                4 run_reply DEADLINE_EXCEEDED (none)
//   running  run_reply of the session                               5 run_reply with its rows   (none)
//   running  run_reply with an error, or no reply; it was alone     6 run_reply with that       (none)
//   running  run_reply with an error; there were others             7 it waits for a step alone waiting
//   any      the batcher ends                                       8 run_reply UNAVAILABLE     (none)
//   any      the batcher dies with it in hand: there is no memory   9 run_reply ABORTED         (none)
//   waiting  down of its asker                                     10 forget it                 (none)
//
// Thread rule: an actor's.
//
// Tests of the edges, tests/calls/batcher_test.cc:
//   1        edge_1_requests_that_do_not_fit
//   2, 3, 5  edges_2_3_and_5_requests_are_put_together
//   4        edge_4_a_request_has_a_deadline
//   6, 7     edges_6_and_7_a_request_at_fault_hurts_no_other
//   8        edge_8_whoever_waits_hears_of_the_end
//   10       edge_10_who_is_gone_is_not_computed
// and tests/no_memory/batcher_test.cc:
//   9        edge_9_whoever_asks_without_memory_is_answered
#ifndef TROUPE_ACTORS_CALL_BATCHER_H_
#define TROUPE_ACTORS_CALL_BATCHER_H_

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "actors/messages/reply.h"
#include "troupe/serving.h"

namespace troupe {

class Batcher : public caf::event_based_actor {
 public:
  Batcher(caf::actor_config& config, std::shared_ptr<Session> session, BatcherOptions options)
      : caf::event_based_actor(config), session_(std::move(session)), options_(std::move(options)) {}
  const char* name() const override { return "troupe.batcher"; }
  caf::behavior make_behavior() override;
  void on_exit() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Request {
    Reply<run_reply> reply;       // given when the request is dropped, too
    caf::actor_addr asker;        // null: nobody knows
    std::vector<Tensor> feeds;    // in the order of the options
    std::vector<size_t> fetches;  // indices
    int64_t rows = 0;
    Clock::time_point came, deadline = Clock::time_point::max();
    bool alone = false;
  };
  using Requests = std::vector<Request>;

  void Take(const run_request& asked);
  absl::Status Read(const run_request& asked, Request* request) const;
  // Begins as many steps as may begin now, and sees to it that it is called in time for the next.
  void Look();
  Clock::duration Delay() const;
  bool IsDue(Clock::time_point now) const;
  Requests NextStep();
  void Run(Requests&& requests);
  // Everything of the requests, one below the other.
  absl::StatusOr<run_request> Together(const Requests& requests) const;
  // Of a step with so many, with those that fill it up.
  int64_t RowsOfStep(int64_t rows) const;
  void Done(Requests&& requests, run_reply&& reply);
  void HandOut(Requests* requests, const std::vector<Tensor>& outputs);
  // A request begins to wait, or has waited: its asker is monitored meanwhile.
  void Watch(const Request& request);
  void Unwatch(const Request& request);
  void Forget(const caf::actor_addr& asker);
  static void Fail(Request* request, const absl::Status& status);

  std::shared_ptr<Session> session_;
  const BatcherOptions options_;
  std::deque<Request> waiting_;
  std::map<caf::actor_addr, int> askers_;  // that wait, and with how many requests
  int64_t rows_ = 0;                       // that wait
  int steps_ = 0;                          // that run
  // Those of the steps that run, by number, so that the end of the batcher finds them.
  std::map<int64_t, Requests> running_;
  int64_t last_step_ = 0;
  Clock::time_point alarm_ = Clock::time_point::max();
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_CALL_BATCHER_H_
