// Variables and cancelled calls where memory runs out, at each allocation in turn: no variable
// stays locked, and no call unanswered.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "actors/session/pending_run.h"
#include "actors/snapshot/step_gate.h"
#include "kernels/state/variable_slot.h"
#include "tests/no_memory/failing.h"

namespace troupe {
namespace slots_and_calls_test {

using namespace std::chrono_literals;
using testing::Failing;

BOOST_AUTO_TEST_SUITE(slots_and_calls)

BOOST_AUTO_TEST_CASE(a_variable_is_free_when_who_waited_for_it_had_no_memory) {
  long k = 0;
  for (bool more = true; more; ++k) {
    BOOST_REQUIRE(k < 50);
    VariableSlot slot("v", DType::kFloat, PartialTensorShape());
    BOOST_REQUIRE(slot.TryBegin());
    Tensor value = Tensor::Vector<float>({1, 2});
    std::promise<void> over;
    bool thrown = false;
    std::thread waits([&] {
      const Failing no_memory(k, 1);
      try {
        (void)slot.Assign(std::move(value));
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      over.set_value();
    });
    // It waits in the queue, or has failed.
    over.get_future().wait_for(20ms);
    slot.End();
    waits.join();
    more = thrown;
    BOOST_REQUIRE_MESSAGE(slot.TryBegin(), "allocation " << k);
    slot.End();
  }
  BOOST_TEST(k > 1);
}

BOOST_AUTO_TEST_CASE(a_call_is_cancelled_when_there_is_memory_again) {
  const auto watch = std::make_shared<StepWatch>(std::make_shared<ThreadClock>(), nullptr);
  for (const bool at_the_gate : {false, true}) {
    long k = 0;
    for (bool more = true; more; ++k) {
      BOOST_REQUIRE(k < 50);
      StepGate gate(std::make_shared<std::atomic<bool>>(false), watch);
      CancellationToken token;
      std::promise<absl::Status> answer;
      std::future<absl::Status> answered = answer.get_future();
      std::shared_ptr<PendingRun> run;
      if (at_the_gate) {
        gate.ShutBelow(1);
        BOOST_REQUIRE(gate.Queue({}, &token, [&](absl::Status s) { answer.set_value(std::move(s)); }));
      } else {
        run = PendingRun::Begin(watch, {}, &token, {},
                                [&](absl::Status s, std::vector<Tensor>) { answer.set_value(std::move(s)); });
      }
      {
        const Failing no_memory(k, 20);
        token.Cancel();
        more = no_memory.failed() > 0;
      }
      BOOST_REQUIRE_MESSAGE((answered.wait_for(10s) == std::future_status::ready), "allocation " << k);
      BOOST_TEST(absl::IsCancelled(answered.get()));
    }
    BOOST_TEST(k > 1);
  }
}

// The wait for memory is not under the token's lock: who has memory to give back may need that.
BOOST_AUTO_TEST_CASE(a_token_without_memory_holds_up_nobody_who_leaves_it) {
  const auto watch = std::make_shared<StepWatch>(std::make_shared<ThreadClock>(), nullptr);
  StepGate gate(std::make_shared<std::atomic<bool>>(false), watch);
  gate.ShutBelow(1);
  CancellationToken token;
  std::promise<void> begun, left;
  std::promise<absl::Status> answer;
  BOOST_REQUIRE(gate.Queue({}, &token, [&](absl::Status s) { answer.set_value(std::move(s)); }));
  struct Nobody : Cancellable {
    void OnCancel() override {}
  } nobody;
  auto other = std::make_unique<Cancellation>(&token, &nobody);
  std::thread cancels([&] {
    begun.set_value();
    const Failing no_memory(0, 3000);  // some three seconds
    token.Cancel();
  });
  begun.get_future().wait();
  std::this_thread::sleep_for(50ms);
  std::thread leaves([&] {
    other = nullptr;
    left.set_value();
  });
  BOOST_TEST((left.get_future().wait_for(1s) == std::future_status::ready));
  leaves.join();
  cancels.join();
  BOOST_TEST(absl::IsCancelled(answer.get_future().get()));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace slots_and_calls_test
}  // namespace troupe
