// An asynchronous call whose signature is still being compiled: every edge of pending_run.h, on the
// stage's clock.
#include "actors/session/pending_run.h"
#include "tests/cast/stage.h"
#include "troupe/session.h"

namespace troupe {
namespace pending_run_test {

using namespace std::chrono_literals;

struct Pending {
  Pending() = default;
  void Begin(int64_t timeout_ms, const CancellationToken* with = nullptr) {
    run = PendingRun::Begin(watch, Deadline::In(timeout_ms, watch->Now()), with, {fed},
                            [this](absl::Status s, std::vector<Tensor> outputs) {
                              BOOST_TEST(!answer.has_value());
                              BOOST_TEST(outputs.empty());
                              BOOST_TEST(given_up == 1);  // first who compiles
                              answer = std::move(s);
                            });
    run->WhenGivenUp([this] { ++given_up; });
  }
  // Who took the call finds it answered.
  void CheckThatNothingIsLeft() {
    BOOST_TEST(given_up == 1);
    bool at_once = false;
    run->WhenGivenUp([&] { at_once = true; });
    BOOST_TEST(at_once);
    BOOST_TEST(fed.BufferUnique());  // nobody else has a share of it any more
    const PendingRun::Taken taken = run->Take();
    BOOST_TEST(!taken.done);
    BOOST_TEST(taken.feeds.empty());
    BOOST_TEST(watch->size() == 0u);
  }

  Stage stage;
  std::shared_ptr<StepWatch> watch = std::make_shared<StepWatch>(stage.clock(), nullptr);
  Tensor fed = Tensor::Vector<float>({1, 2, 3});
  std::shared_ptr<PendingRun> run;
  std::optional<absl::Status> answer;
  int given_up = 0;
};

BOOST_FIXTURE_TEST_CASE(edge_1_callback_and_feeds_are_the_takers, Pending) {
  CancellationToken token;
  Begin(50, &token);
  BOOST_TEST(watch->size() == 1u);
  const PendingRun::Taken taken = run->Take();
  BOOST_TEST(!!taken.done);
  BOOST_TEST(taken.feeds.size() == 1u);
  // Neither the clock nor the token knows the call any more.
  BOOST_TEST(watch->size() == 0u);
  stage.Advance(1s);
  token.Cancel();
  stage.Advance(1s);
  BOOST_TEST(!answer.has_value());
  BOOST_TEST(given_up == 0);
  given_up = 1;
  taken.done(absl::OkStatus(), {});
  BOOST_TEST(answer->ok());
}

BOOST_FIXTURE_TEST_CASE(edges_2_and_4_the_deadline_answers_and_nothing_is_left_to_take, Pending) {
  Begin(50);
  stage.Advance(49ms);
  BOOST_TEST(!answer.has_value());
  BOOST_TEST(!fed.BufferUnique());
  stage.Advance(1ms);
  BOOST_REQUIRE(answer.has_value());
  BOOST_TEST(answer->code() == absl::StatusCode::kDeadlineExceeded, *answer);
  BOOST_TEST(answer->message() == "the step's signature was not compiled within 50 ms");
  CheckThatNothingIsLeft();
}

BOOST_FIXTURE_TEST_CASE(edges_3_and_4_a_token_answers_by_the_clock_and_nothing_is_left_to_take, Pending) {
  CancellationToken token;
  Begin(0, &token);
  BOOST_TEST(watch->size() == 0u);  // without a deadline nobody waits for a time
  token.Cancel();
  BOOST_TEST(!answer.has_value());  // not by who cancels
  stage.Advance(0ms);
  BOOST_REQUIRE(answer.has_value());
  BOOST_TEST(answer->code() == absl::StatusCode::kCancelled, *answer);
  CheckThatNothingIsLeft();
}

BOOST_FIXTURE_TEST_CASE(edge_3_a_token_that_was_cancelled_before_counts, Pending) {
  CancellationToken token;
  token.Cancel();
  Begin(50, &token);
  stage.Advance(0ms);
  BOOST_REQUIRE(answer.has_value());
  BOOST_TEST(answer->code() == absl::StatusCode::kCancelled, *answer);
  CheckThatNothingIsLeft();
}

}  // namespace pending_run_test
}  // namespace troupe
