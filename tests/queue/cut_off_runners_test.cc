// What a queue runner that a death cuts off has in hand, when nobody makes the session anew.
#include <chrono>
#include <thread>

#include "actors/runtime/runtime_impl.h"
#include "actors/state/state_actors.h"
#include "kernels/queue/queue.h"
#include "tests/actors/graphs.h"
#include "troupe/queues.h"
#include "troupe/train/global_step.h"
#include "troupe/train/monitored_session.h"

namespace troupe::train {
namespace cut_off_runners_test {

BOOST_AUTO_TEST_SUITE(cut_off_runners)

// A runner moves numbers from one queue to another, from which each step takes one.
struct Moving {
  explicit Moving(const std::string& folder) {
    const Queue from = Queue::Fifo(root.WithOpName("from"), {DType::kInt32}, {.shapes = {TensorShape()}});
    const Queue to = Queue::Fifo(root.WithOpName("to"), {DType::kInt32}, {.capacity = 2, .shapes = {TensorShape()}});
    std::vector<int32_t> numbers(20);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
    const Operation fill = from.EnqueueMany(root, {Const(root, Literal(Tensor::Vector<int32_t>(numbers)))});
    const Operation move = to.Enqueue(root.WithOpName("move"), from.Dequeue(root));
    AddQueueRunner(root, MakeQueueRunner(root, to, {move}));
    next = to.Dequeue(root)[0];
    step = Operation(GetOrCreateGlobalStep(root).AssignAdd(root, int64_t{1}));
    MonitoredTrainingOptions options;
    options.scaffold = std::make_shared<Scaffold>();
    options.scaffold->init_function = [fill](Session& s) { return s.Run({}, {}, {fill}, nullptr); };
    options.checkpoint_folder = folder;
    options.save_checkpoint = {.steps = 1000};
    auto made = MonitoredTrainingSession(root, options);
    BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
    session = *std::move(made);
  }
  int32_t Next() {
    std::vector<Tensor> out;
    const absl::Status s = session->Run({}, {next}, {step}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    return out[0].scalar<int32_t>();
  }
  // The queue from which the steps take.
  std::shared_ptr<queue::Queue> Object() const {
    for (const auto& e : session->session()->runtime()->impl()->devices[0]->containers()->Entries()) {
      auto found = std::dynamic_pointer_cast<queue::Queue>(e.object);
      if (found != nullptr && found->DebugString().find("'to'") != std::string::npos) return found;
    }
    return nullptr;
  }
  // Waits until the queue says that of itself.
  void Await(std::string_view what) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (Object()->DebugString().find(what) == std::string::npos) {
      BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < late, Object()->DebugString());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  Scope root = Scope::NewRootScope();
  Output next;
  Operation step;
  std::unique_ptr<MonitoredSession> session;
};

// The step of a runner that a death cuts off has taken an element, and has put it nowhere. While
// there are steps the session is made anew, and so is the element. Close saves what there is: what
// was lost is that element, and not the steps since the last checkpoint.
BOOST_AUTO_TEST_CASE(a_death_behind_the_last_step_costs_the_element_in_hand_and_no_other) {
  const std::string folder = "mem://queue/cut_off_runners";
  {
    Moving m(folder);
    for (int32_t i = 0; i < 3; ++i) BOOST_TEST(m.Next() == i);
    m.Await("2 elements, 1 enqueues wait");  // 3 and 4; the runner has 5
    caf::anon_send_exit(StateActorOf(*m.Object()), caf::exit_reason::kill);
    m.Await("closed");
    const absl::Status closed = m.session->Close();
    BOOST_TEST(closed.ok(), closed);
    BOOST_TEST(m.session->sessions_made() == 1);
  }
  Moving again(folder);
  for (const int32_t i : {3, 4, 6, 7, 8}) BOOST_TEST(again.Next() == i);
  TROUPE_REQUIRE_OK(again.session->Close());
}

// Whoever looks whether there is a further step has the session made anew, from the checkpoint.
BOOST_AUTO_TEST_CASE(a_death_before_a_further_step_costs_no_element) {
  const std::string folder = "mem://queue/cut_off_runners_in_between";
  {
    Moving m(folder);
    for (int32_t i = 0; i < 3; ++i) BOOST_TEST(m.Next() == i);
    TROUPE_REQUIRE_OK(m.session->Close());
  }
  Moving m(folder);
  for (int32_t i = 3; i < 5; ++i) BOOST_TEST(m.Next() == i);
  m.Await("2 elements, 1 enqueues wait");  // 5 and 6; the runner has 7
  caf::anon_send_exit(StateActorOf(*m.Object()), caf::exit_reason::kill);
  m.Await("closed");
  BOOST_TEST(!m.session->ShouldStop());
  BOOST_TEST(m.session->sessions_made() == 2);
  // The steps since the checkpoint are done again.
  for (int32_t i = 3; i < 10; ++i) BOOST_TEST(m.Next() == i);
  TROUPE_REQUIRE_OK(m.session->Close());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cut_off_runners_test
}  // namespace troupe::train
