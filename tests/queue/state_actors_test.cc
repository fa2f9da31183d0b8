// The actor of a queue, edge by edge, on a stage whose scheduler is in the test's hands.
#include "actors/state/state_actors.h"

#include <atomic>
#include <thread>

#include "actors/runtime/runtime_impl.h"

#include "tests/cast/stage.h"
#include "tests/queue/queue_test_util.h"

namespace troupe::queue {
namespace state_actors_test {

BOOST_AUTO_TEST_SUITE(state_actors)

// A container with its actor, and a queue in it.
struct OneQueue {
  explicit OneQueue(int max_failures = 10) {
    RestartPolicy policy;
    policy.jitter = 0;
    policy.max_failures = max_failures;
    states = std::make_shared<StateActors>(&stage.system(), directory, "d", policy, /*on_askers_thread=*/false);
    SetStateHost(containers.get(), states);
    NewContainer();
    queue = NewQueue(Spec(2));
    queue->LiveIn(containers.get());
    stage.Play();
  }
  ~OneQueue() {
    SetStateHost(containers.get(), nullptr);
    states->Close();
    stage.Kill(container);
    stage.Play();
  }
  void NewContainer() {
    container = SpawnContainer(stage.system(), containers, device, states);
    directory->Set("container:d", container, 1);
  }
  caf::actor Actor() const { return StateActorOf(*queue); }

  Stage stage;
  const std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  const std::shared_ptr<ResourceContainers> containers = std::make_shared<ResourceContainers>();
  const std::shared_ptr<Device> device =
      std::make_shared<Device>("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", 1, Allocator::Cpu(),
                               std::make_shared<ComputeThreads>(1), containers);
  std::shared_ptr<StateActors> states;
  caf::actor container;
  std::shared_ptr<Queue> queue;
};

BOOST_FIXTURE_TEST_CASE(edge_1_a_request_and_its_answer, OneQueue) {
  const auto in = Enqueue(*queue, {1}), out = Dequeue(*queue, 2);
  BOOST_TEST(Outcome(in) == "waits");
  BOOST_TEST(stage.Play([&] { return Outcome(in); }) == R"(
state <- state_letter | OK
state <- state_letter | OK)");
  BOOST_TEST(Outcome(out) == "waits");
  Enqueue(*queue, {2});
  BOOST_TEST(stage.Play([&] { return Outcome(out); }) == R"(
state <- state_letter | OK 1 2)");
  // Its asker has gone.
  const auto gone = Dequeue(*queue);
  stage.Play();
  queue->Withdraw(gone);
  const auto next = Dequeue(*queue);
  Enqueue(*queue, {3});
  BOOST_TEST(stage.Play([&] { return Outcome(next); }) == R"(
state <- state_letter | waits
state <- state_letter | waits
state <- state_letter | OK 3)");
}

BOOST_FIXTURE_TEST_CASE(edge_2_elements_survive_and_who_waited_is_aborted, OneQueue) {
  Enqueue(*queue, {1, 2});
  stage.Play();
  const auto many = Dequeue(*queue, 3);
  stage.Play();
  stage.Kill(Actor());
  BOOST_TEST(stage.Play([&] { return Outcome(many).substr(0, 7); }) == R"(
state <- exit | ABORTED
container <- down | ABORTED)");
  BOOST_TEST(Outcome(many) ==
             "ABORTED: the actor of FIFOQueue 'q', 0 elements, 1 dequeues wait died while the request "
             "waited; it is restarted with its elements");
  BOOST_TEST(!Actor());
  stage.Advance(std::chrono::milliseconds(1));
  const auto both = Dequeue(*queue, 2);
  BOOST_TEST(stage.Play([&] { return Outcome(both); }) == R"(
container <- restart_child | waits
state2 <- state_letter | OK 1 2)");
}

BOOST_FIXTURE_TEST_CASE(edges_3_and_4_a_letter_to_a_dead_actor_waits_for_the_next, OneQueue) {
  // In the mailbox of the dying one, and after its death.
  stage.Kill(Actor());
  const auto first = Enqueue(*queue, {1});
  BOOST_TEST(stage.Play([&] { return Outcome(first); }) == R"(
state <- exit | waits
container <- down | waits)");
  const auto second = Enqueue(*queue, {2}), both = Dequeue(*queue, 2);
  BOOST_TEST(stage.Play() == "");
  stage.Advance(std::chrono::milliseconds(1));
  BOOST_TEST(stage.Play([&] { return Outcome(both); }) == R"(
container <- restart_child | waits
state2 <- state_letter | waits
state2 <- state_letter | waits
state2 <- state_letter | OK 1 2)");
  BOOST_TEST(Outcome(first) == "OK");
  BOOST_TEST(Outcome(second) == "OK");
}

BOOST_AUTO_TEST_CASE(edge_5_a_queue_that_was_given_up_says_so) {
  OneQueue one(/*max_failures=*/0);
  const auto waits = Dequeue(*one.queue);
  one.stage.Play();
  one.stage.Kill(one.Actor());
  const auto late = Dequeue(*one.queue);
  one.stage.Play();
  BOOST_TEST(Outcome(waits).substr(0, 7) == "ABORTED");
  BOOST_TEST(Outcome(late).substr(0, 19) == "FAILED_PRECONDITION");
  BOOST_TEST(Outcome(Dequeue(*one.queue)).substr(0, 19) == "FAILED_PRECONDITION");
}

BOOST_FIXTURE_TEST_CASE(edge_6_the_actor_ends_with_its_queue, OneQueue) {
  const auto waits = Dequeue(*queue);
  stage.Play();
  queue = nullptr;
  BOOST_TEST(stage.Play() == R"(
state <- exit
container <- down)");
  BOOST_TEST(Outcome(waits).substr(0, 7) == "ABORTED");
  // Nobody is restarted.
  stage.Advance(std::chrono::milliseconds(10));
  BOOST_TEST(stage.Play() == R"(
container <- restart_child)");
  BOOST_TEST(directory->size() == 1u);  // the container
}

BOOST_FIXTURE_TEST_CASE(edge_7_a_queue_may_outlive_its_runtime, OneQueue) {
  const auto waits = Dequeue(*queue);
  stage.Play();
  states->Close();
  const auto late = Dequeue(*queue);
  stage.Play();
  BOOST_TEST(Outcome(waits).substr(0, 7) == "ABORTED");
  BOOST_TEST(Outcome(late).substr(0, 7) == "ABORTED");
  const auto after = NewQueue(Spec(2));
  after->LiveIn(containers.get());
  BOOST_TEST(Outcome(Dequeue(*after)) == "ABORTED: the runtime has ended");
}

// Threads that no runtime waits for ask a queue of it while it ends. Seen by a sanitizer: an actor
// was resumed that belonged to an actor system which was no more.
BOOST_AUTO_TEST_CASE(edge_7_while_other_threads_ask) {
  for (int round = 0; round < 50; ++round) {
    auto runtime = Runtime::Start({.threads = 1}).value();
    const ResourceContainers* const containers = runtime->impl()->devices[0]->containers();
    const auto queue = NewQueue(Spec(2));
    queue->LiveIn(containers);
    std::atomic<bool> stop{false};
    std::vector<std::thread> askers;
    for (int i = 0; i < 2; ++i) {
      askers.emplace_back([&] {
        while (!stop) {
          Enqueue(*queue, {1});
          Dequeue(*queue);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + round % 3));
    runtime = nullptr;
    stop = true;
    for (std::thread& t : askers) t.join();
    BOOST_TEST(Outcome(Dequeue(*queue)).substr(0, 7) == "ABORTED");
  }
}

BOOST_FIXTURE_TEST_CASE(edges_12_and_13_a_container_watches_its_queues, OneQueue) {
  // While the container's actor is down, another queue is made, and both of their actors die.
  stage.Kill(container);
  stage.Play();
  directory->Set("container:d", nullptr, 1);
  const auto other = NewQueue(Spec(2));
  other->LiveIn(containers.get());
  Enqueue(*queue, {1});
  Enqueue(*other, {2});
  stage.Play();
  stage.Kill(Actor());
  stage.Kill(StateActorOf(*other));
  stage.Play();
  BOOST_TEST(!Actor());
  NewContainer();
  const auto first = Dequeue(*queue), second = Dequeue(*other);
  stage.Play();
  stage.Advance(std::chrono::milliseconds(1));
  stage.Play();
  BOOST_TEST(Outcome(first) == "OK 1");
  BOOST_TEST(Outcome(second) == "OK 2");
  // And again, now that both are watched.
  for (const auto& q : {queue, other}) stage.Kill(StateActorOf(*q));
  stage.Play();
  stage.Advance(std::chrono::milliseconds(10));
  stage.Play();
  BOOST_TEST(!!Actor());
  BOOST_TEST(!!StateActorOf(*other));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace state_actors_test
}  // namespace troupe::queue
