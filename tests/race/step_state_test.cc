// A step whose tensors and finished jobs come from other threads, driven without an actor: one
// thread has the turn and sleeps until the bell rings.
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>

#include "actors/executor/step_state.h"
#include "actors/wire/graph_messages.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "tests/race/threads.h"
#include "troupe/node_builder.h"
#include "troupe/troupe.h"

namespace troupe::race {
namespace step_state_test {

std::shared_ptr<const CompiledPart> Compile(const Scope& root, const Names& feeds, const Names& fetches, int threads) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  auto pruned = PruneForExecution(*root.graph(), feeds, fetches, {});
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  auto part = CompiledPart::Compile(*pruned->graph, EvaluationDevice(threads), SessionScope("race"));
  BOOST_REQUIRE_MESSAGE(part.ok(), part.status());
  return *part;
}

// The bell of a step. It orders the turn after nothing but itself: the list of arrivals has to
// carry their contents.
class Host : public StepHost, public std::enable_shared_from_this<Host> {
 public:
  void RingDoorbell() override {
    std::lock_guard<std::mutex> lock(mu_);
    ++rings_;
    bell_.notify_one();
  }
  const EdgeTable& edges() const override { return table; }
  absl::Status SendToPart(part_message) override { return absl::InternalError("nothing is sent"); }
  std::shared_ptr<void> KeepAlive() override { return shared_from_this(); }
  void ResultReady(uint32_t, Tensor) override {}
  void PostToken(Token) override {}
  EdgeTable table;
  // False when it does not ring within a minute.
  bool Sleep() {
    std::unique_lock<std::mutex> lock(mu_);
    if (!bell_.wait_for(lock, std::chrono::seconds(60), [&] { return rings_ > 0; })) return false;
    --rings_;
    return true;
  }

 private:
  std::mutex mu_;
  std::condition_variable bell_;
  int rings_ = 0;
};

struct Machine {
  explicit Machine(std::shared_ptr<const CompiledPart> part) : state(part, host.get()), results(part->num_results) {
    host->table = EdgesBetween({EdgesOf(*part)});
  }
  // One step; `posts` may start threads after Begin.
  absl::Status Step(int64_t id, std::function<void()> begun = nullptr) {
    StepInput input;
    input.context = std::make_shared<StepContext>();
    input.context->step_id = id;
    input.results = results.data();
    input.timings = &timings;
    timings.clear();
    state.Begin(input);
    if (begun) begun();
    for (;;) {
      while (state.Drain(1000)) {
      }
      if (state.done()) return state.Finish();
      if (!host->Sleep()) return absl::DeadlineExceededError("the bell does not ring");
      state.TakeArrivals();
    }
  }
  std::shared_ptr<Host> host = std::make_shared<Host>();
  StepState state;
  std::vector<Tensor> results;
  std::vector<node_run> timings;
};

// `count` receives, added up.
struct Receives {
  explicit Receives(int count) {
    std::vector<Output> values;
    for (int i = 0; i < count; ++i) {
      auto n = NodeBuilder(root.graph(), StrCat("recv", i), "_Recv")
                   .Attr("tensor_type", DType::kFloat)
                   .Attr("tensor_name", StrCat("edge", i))
                   .Attr("send_device", "/job:a/device:CPU:0")
                   .Attr("send_device_incarnation", 7)
                   .Attr("recv_device", "/job:b/device:CPU:0")
                   .Build();
      BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
      values.push_back(Output(NodeOut{*n, 0}, root.state()));
    }
    sum = ops::AddN(root, values);
  }
  Scope root = Scope::NewRootScope();
  Output sum;
};

void Post(Machine& m, int64_t step, uint32_t edge, float value) {
  auto* a = new Arrival(tensor_to_part{step, edge, {}, false, Tensor::Scalar(value)});
  if (m.state.PostArrival(a)) m.host->RingDoorbell();
}

BOOST_AUTO_TEST_CASE(tensors_come_from_many_threads) {
  constexpr int kThreads = 4, kEach = 5;
  Receives graph(kThreads * kEach);
  Machine m(Compile(graph.root, {}, {graph.sum.name()}, 1));
  BOOST_REQUIRE_EQUAL(m.host->table.size(), static_cast<size_t>(kThreads * kEach));
  for (int step = 1; step <= 100; ++step) {
    std::thread senders;
    const absl::Status s = m.Step(step, [&] {
      senders = std::thread([&] {
        RunThreads(kThreads, [&](int t) {
          for (int i = 0; i < kEach; ++i) {
            Post(m, step - 1, t * kEach + i, 1e6f);  // of a step that is over
            Post(m, step, t * kEach + i, static_cast<float>(step));
          }
        });
      });
    });
    senders.join();
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    BOOST_TEST(m.results[0].scalar<float>() == static_cast<float>(step * kThreads * kEach));
  }
  // What came too late lies there until somebody looks.
  m.state.TakeArrivals();
  BOOST_TEST(m.state.late_arrivals() == 100 * kThreads * kEach);
}

BOOST_AUTO_TEST_CASE(aborts_cross_tensors) {
  Receives graph(8);
  Machine m(Compile(graph.root, {}, {graph.sum.name()}, 1));
  for (int step = 1; step <= 100; ++step) {
    std::thread senders;
    const absl::Status s = m.Step(step, [&] {
      senders = std::thread([&] {
        RunThreads(3, [&](int t) {
          if (t == 2) {
            auto* a = new Arrival(abort_step{step, absl::CancelledError("enough")});
            if (m.state.PostArrival(a)) m.host->RingDoorbell();
            return;
          }
          for (int i = 0; i < 4; ++i) Post(m, step, t * 4 + i, 1.0f);
        });
      });
    });
    senders.join();
    // Either all tensors came first, or the abort did.
    if (s.ok()) {
      BOOST_TEST(m.results[0].scalar<float>() == 8.0f);
    } else {
      BOOST_TEST(s.message() == "enough");
    }
  }
}

BOOST_AUTO_TEST_CASE(costly_branches_run_as_jobs) {
  constexpr int64_t kN = 200000;
  Scope root = Scope::NewRootScope();
  std::vector<Output> branches;
  for (int b = 0; b < 4; ++b) {
    Output x = ops::Fill(root, ops::Const(root, {kN}), ops::Const(root, 0.1f * static_cast<float>(b + 1)));
    for (int i = 0; i < 3; ++i) x = ops::Tanh(root, x);
    branches.push_back(x);
  }
  const Output sum = ops::AddN(root, branches);
  Machine m(Compile(root, {}, {sum.name()}, 3));
  float want = 0;
  for (int b = 0; b < 4; ++b) want += std::tanh(std::tanh(std::tanh(0.1f * static_cast<float>(b + 1))));
  int jobs = 0;
  for (int step = 1; step <= 12; ++step) {
    const absl::Status s = m.Step(step);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    const auto values = m.results[0].flat<float>();
    float worst = 0;
    for (const float v : values) worst = std::max(worst, std::abs(v - want));
    BOOST_TEST(worst < 1e-4f);
    for (const node_run& t : m.timings) jobs += t.thread == 1;
  }
  BOOST_TEST(jobs > 0);
}

}  // namespace step_state_test
}  // namespace troupe::race
