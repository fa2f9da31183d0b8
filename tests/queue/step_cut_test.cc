// How the steps of a session are brought to where a snapshot may be taken.
#include "actors/snapshot/step_cut.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/actors/graphs.h"
#include "tests/actors/signatures.h"
#include "tests/queue/queue_test_util.h"

namespace troupe {
namespace step_cut_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(step_cut)

// A step that is to fill a queue, and never comes to that. Those that waited at the gate would be
// held again if it were shut in the same breath.
BOOST_AUTO_TEST_CASE(a_gate_that_was_reopened_stays_open_for_a_while) {
  Scope root = Scope::NewRootScope();
  const Output q = ops::FIFOQueueV2(root.WithOpName("q"), {DType::kInt32}, {.shapes = {TensorShape()}});
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
  const std::string enqueue = ops::QueueEnqueueV2(root.WithOpName("enqueue"), q, {x}).name();
  const std::string dequeue = ops::QueueDequeueV2(root.WithOpName("dequeue"), q, {DType::kInt32})[0].name();
  const auto session = Session::Create({}).value();
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  const auto take = SignatureOf(*session, {}, {dequeue}), put = SignatureOf(*session, {"x"}, {}, {enqueue});
  BOOST_REQUIRE((take != nullptr && put != nullptr));
  const auto waits_to_be_fed = session->PartialRunSetup({"x"}, {}, {enqueue});
  TROUPE_REQUIRE_OK(waits_to_be_fed.status());

  StepGate gate(std::make_shared<std::atomic<bool>>(false),
                std::make_shared<StepWatch>(std::make_shared<ThreadClock>(), nullptr));
  StepCut cut(&gate, [&] { return StepCut::Signatures{take, put}; });
  const auto limit = std::chrono::steady_clock::now() + 3s;
  bool held = false, opened = false;
  while (!opened && std::chrono::steady_clock::now() < limit) {
    BOOST_REQUIRE(cut.Busy() > 0);
    held |= gate.shut();
    opened = held && !gate.shut();
    std::this_thread::sleep_for(1ms);
  }
  BOOST_TEST(opened);
  // Then all begins anew.
  while (!gate.shut()) BOOST_REQUIRE(cut.Busy() > 0);
  TROUPE_REQUIRE_OK(session->PartialRunCancel(*waits_to_be_fed));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace step_cut_test
}  // namespace troupe
