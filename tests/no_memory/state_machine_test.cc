// Queues where memory runs out, at each allocation in turn: whoever waits is told, and no element
// is lost.
#include "actors/state/state_actors.h"

#include "tests/cast/stage.h"
#include "tests/no_memory/each_allocation.h"
#include "tests/queue/queue_test_util.h"

namespace troupe::queue {
namespace state_machine_test {

using testing::AtEachAllocation;
using testing::Failing;

BOOST_AUTO_TEST_SUITE(state_machine)

// With the code of its status alone.
std::string Code(const QueueRequestPtr& r) {
  return r->answered() ? absl::StatusCodeToString(r->status().code()) : "waits";
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_resource_that_is_dropped_is_told_when_there_is_memory_again) {
  AtEachAllocation([](long k) {
    const auto q = NewQueue(Spec(2));
    Enqueue(*q, {1});
    std::vector<QueueRequestPtr> waiting;
    for (int i = 0; i < 6; ++i) waiting.push_back(Dequeue(*q, 2));
    long failed = 0;
    {
      const Failing no_memory(k, 20);
      q->Drop();
      failed = no_memory.failed();
    }
    for (const QueueRequestPtr& r : waiting) BOOST_TEST(Code(r) == "ABORTED", "allocation " << k);
    BOOST_TEST(Code(Enqueue(*q, {2})) == "ABORTED", "allocation " << k);
    return failed > 0;
  });
}

BOOST_AUTO_TEST_CASE(who_waits_for_an_actor_that_dies_is_told_when_there_is_memory_again) {
  AtEachAllocation([](long k) {
    const auto q = NewQueue(Spec(2));
    Enqueue(*q, {1, 2});
    std::vector<QueueRequestPtr> waiting;
    for (int i = 0; i < 6; ++i) waiting.push_back(Dequeue(*q, 3));
    const absl::Status why = absl::AbortedError("it died");
    long failed = 0;
    {
      const Failing no_memory(k, 20);
      q->machine()->AbortWaiting(why);
      failed = no_memory.failed();
    }
    for (const QueueRequestPtr& r : waiting) BOOST_TEST(Code(r) == "ABORTED", "allocation " << k);
    BOOST_TEST(Outcome(Dequeue(*q, 2)) == "OK 1 2", "allocation " << k);
    return failed > 0;
  });
}

BOOST_AUTO_TEST_CASE(a_request_that_has_failed_takes_nothing) {
  AtEachAllocation([](long k) {
    const auto q = NewQueue(Spec());
    Enqueue(*q, {1, 2, 3});
    const auto r = std::make_shared<QueueRequest>(QueueRequest::Kind::kDequeue);
    r->wanted = 2;
    long failed = 0;
    try {
      const Failing no_memory(k, 1);
      q->Ask(r);
      failed = no_memory.failed();
    } catch (const std::bad_alloc&) {
      failed = 1;  // it was not sent
      BOOST_TEST(Code(r) == "waits");
    }
    if (failed == 0) return false;
    if (r->answered()) BOOST_TEST(Code(r) == "RESOURCE_EXHAUSTED");
    BOOST_TEST(Outcome(Dequeue(*q, 3)) == "OK 1 2 3", "allocation " << k);
    return true;
  });
}

// What a request that is withdrawn had taken is what the next one waits for.
BOOST_AUTO_TEST_CASE(who_waits_behind_a_request_that_is_withdrawn_is_served_when_there_is_memory_again) {
  AtEachAllocation([](long k) {
    const auto q = NewQueue(Spec());
    Enqueue(*q, {1, 2});
    const QueueRequestPtr gone = Dequeue(*q, 3), next = Dequeue(*q, 2);
    BOOST_TEST(Code(next) == "waits");
    long failed = 0;
    bool thrown = false;
    try {
      const Failing no_memory(k, 20);
      q->Withdraw(gone);
      failed = Failing::failed();
    } catch (const std::bad_alloc&) {
      thrown = true;  // there was none for the letter
    }
    if (!thrown) BOOST_TEST(Outcome(next) == "OK 1 2", "allocation " << k);
    return thrown || failed > 0;
  });
}

// A queue with an actor, on a stage.
struct QueueOfActor {
  QueueOfActor() {
    SetStateHost(containers.get(), states);
    stage.Inline([&] {
      queue = NewQueue(Spec(2));
      queue->LiveIn(containers.get());
    });
  }
  ~QueueOfActor() {
    SetStateHost(containers.get(), nullptr);
    states->Close();
    stage.Inline([] {});
  }

  Stage stage;
  const std::shared_ptr<ResourceContainers> containers = std::make_shared<ResourceContainers>();
  const std::shared_ptr<StateActors> states = std::make_shared<StateActors>(
      &stage.system(), std::make_shared<Directory>(), "d", RestartPolicy(), /*on_askers_thread=*/false);
  std::shared_ptr<Queue> queue;
};

BOOST_AUTO_TEST_CASE(a_letter_for_which_there_is_no_memory_is_not_sent) {
  AtEachAllocation([](long k) {
    QueueOfActor one;
    const auto r = std::make_shared<QueueRequest>(QueueRequest::Kind::kEnqueue);
    r->elements.push_back({Tensor::Scalar(1)});
    bool thrown = false;
    long failed = 0;
    try {
      const Failing no_memory(k, 20);
      one.queue->Ask(r);
      failed = no_memory.failed();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    const QueueRequestPtr size = Ask(*one.queue, QueueRequest::Kind::kSize);
    one.stage.Inline([] {});
    BOOST_TEST(Outcome(size) == (thrown ? "OK 0" : "OK 1"), "allocation " << k);
    return thrown || failed > 0;
  });
}

BOOST_AUTO_TEST_CASE(a_queue_with_an_actor_ends_when_there_is_memory_again) {
  AtEachAllocation([](long k) {
    QueueOfActor one;
    const QueueRequestPtr waits = Dequeue(*one.queue), sent = Dequeue(*one.queue);
    one.stage.Inline([] {});
    long failed = 0;
    {
      const Failing no_memory(k, 20);
      one.queue = nullptr;
      failed = no_memory.failed();
    }
    one.stage.Inline([] {});
    BOOST_TEST(Code(waits) == "ABORTED", "allocation " << k);
    BOOST_TEST(Code(sent) == "ABORTED", "allocation " << k);
    return failed > 0;
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace state_machine_test
}  // namespace troupe::queue
