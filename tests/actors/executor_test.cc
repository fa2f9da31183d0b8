// The executor: its state machine edge by edge without an actor, and its actor killed while a step
// runs.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <cstdio>
#include <random>
#include <thread>

#include "actors/signature/signature.h"
#include "actors/step/blocking_step.h"
#include "actors/supervision/supervisor.h"
#include "actors/wire/graph_messages.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "tests/actors/graphs.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace executor_test {

using namespace std::chrono_literals;

// Compiles what `fetches` need for one CPU device.
std::shared_ptr<const CompiledPart> Compile(const Scope& root, const Names& feeds, const Names& fetches) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  auto pruned = PruneForExecution(*root.graph(), feeds, fetches, {});
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  auto part = CompiledPart::Compile(*pruned->graph, EvaluationDevice(1), SessionScope("test"));
  BOOST_REQUIRE_MESSAGE(part.ok(), part.status());
  return *part;
}

// Writes down what the step asks of its actor.
class Host : public StepHost, public std::enable_shared_from_this<Host> {
 public:
  void RingDoorbell() override { log.push_back("ring"); }
  const EdgeTable& edges() const override { return table; }
  absl::Status SendToPart(part_message) override {
    log.push_back("send");
    return absl::OkStatus();
  }
  std::shared_ptr<void> KeepAlive() override { return shared_from_this(); }
  void ResultReady(uint32_t index, Tensor) override { log.push_back(StrCat("result ", index)); }
  void PostToken(Token t) override {
    log.push_back("token");
    tokens.push_back(std::move(t));
  }
  EdgeTable table;
  std::vector<std::string> log;
  std::vector<Token> tokens;
};

// A step's state without its actor, about to begin step 1.
struct Machine {
  explicit Machine(std::shared_ptr<const CompiledPart> part, std::vector<Tensor> fed = {})
      : state(part, host.get()), arguments(std::move(fed)), results(part->num_results) {
    host->table = EdgesBetween({EdgesOf(*part)});
    input.context = std::make_shared<StepContext>();
    input.context->step_id = 1;
    input.arguments = arguments.data();
    input.results = results.data();
  }
  void Finish() {
    BOOST_REQUIRE(state.done());
    TROUPE_REQUIRE_OK(state.Finish());
  }
  std::shared_ptr<Host> host = std::make_shared<Host>();
  StepState state;
  std::vector<Tensor> arguments, results;
  StepInput input;
};

BOOST_AUTO_TEST_CASE(edges_1_and_2_and_7_a_run_from_begin_to_finish) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = ops::Square(root, ops::Neg(root, x));
  Machine m(Compile(root, {x.name()}, {y.name()}), {Tensor::Scalar(3.0f)});
  BOOST_TEST(m.state.idle());
  for (int step = 1; step <= 3; ++step) {
    m.input.context->step_id = step;
    m.state.Begin(m.input);
    BOOST_TEST(!m.state.idle());
    BOOST_TEST(!m.state.done());
    BOOST_TEST(!m.state.Drain(1000));
    m.Finish();
    BOOST_TEST(m.results[0].scalar<float>() == 9.0f);
  }
  BOOST_TEST(m.host->log.empty());
}

BOOST_AUTO_TEST_CASE(edge_2_a_turn_ends_when_its_budget_is_spent) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat);
  const std::string feed = x.name();
  for (int i = 0; i < 10; ++i) x = ops::Neg(root, x);
  Machine m(Compile(root, {feed}, {x.name()}), {Tensor::Scalar(1.0f)});
  m.state.Begin(m.input);
  int turns = 1;
  while (m.state.Drain(3)) ++turns;
  BOOST_TEST(turns == 4);  // 12 nodes: the argument, ten negations, the result
  m.Finish();
  BOOST_TEST(m.results[0].scalar<float>() == 1.0f);
}

struct RecvGraph {
  RecvGraph() {
    auto n = NodeBuilder(root.graph(), "recv", "_Recv")
                 .Attr("tensor_type", DType::kFloat)
                 .Attr("tensor_name", "edge")
                 .Attr("send_device", "/job:a/device:CPU:0")
                 .Attr("send_device_incarnation", 7)
                 .Attr("recv_device", "/job:b/device:CPU:0")
                 .Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    out = ops::Neg(root, Output(NodeOut{*n, 0}, root.state()));
  }
  Arrival* Message(const Machine& m, Tensor value, int64_t step) {
    const int64_t edge = m.host->table.Find(m.state.part().recvs[0].first);
    return new Arrival(tensor_to_part{step, static_cast<uint32_t>(edge), {}, false, std::move(value)});
  }
  Scope root = Scope::NewRootScope();
  Output out;
};

BOOST_FIXTURE_TEST_CASE(edges_3_and_4_a_tensor_comes_before_or_after_its_recv_and_late_ones_are_dropped, RecvGraph) {
  Machine m(Compile(root, {}, {out.name()}));
  // After: the Recv waits.
  m.state.Begin(m.input);
  BOOST_TEST(!m.state.Drain(100));
  BOOST_TEST(!m.state.done());
  BOOST_REQUIRE_EQUAL(m.state.Report().roots.size(), 1u);
  const StepReport::Root waits = m.state.Report().roots[0];
  BOOST_TEST(waits.text.find("node 'recv' (_Recv) on ") == 0u, waits.text);
  BOOST_TEST(waits.text.find(" for tensor 'edge' of /job:a/device:CPU:0") != std::string::npos, waits.text);
  BOOST_TEST(waits.takes.key == m.state.part().recvs[0].first);
  BOOST_REQUIRE_EQUAL(waits.chains.size(), 1u);
  BOOST_TEST(waits.chains[0].lines.size() == 2u);                         // the negation and the result
  BOOST_TEST(m.state.PostArrival(Message(m, Tensor::Scalar(1.0f), 0)));   // of an older step: rings, and is dropped
  BOOST_TEST(!m.state.PostArrival(Message(m, Tensor::Scalar(2.0f), 1)));  // the bell has been rung
  m.state.TakeArrivals();
  BOOST_TEST(m.state.late_arrivals() == 1);
  BOOST_TEST(!m.state.Drain(100));
  m.Finish();
  BOOST_TEST(m.results[0].scalar<float>() == -2.0f);
  // Before: the tensor waits.
  m.input.context->step_id = 2;
  m.state.Begin(m.input);
  BOOST_TEST(m.state.PostArrival(Message(m, Tensor::Scalar(5.0f), 2)));
  m.state.TakeArrivals();
  BOOST_TEST(!m.state.Drain(100));
  m.Finish();
  BOOST_TEST(m.results[0].scalar<float>() == -5.0f);
}

BOOST_FIXTURE_TEST_CASE(edge_8_what_comes_before_its_step_begins_is_kept, RecvGraph) {
  Machine m(Compile(root, {}, {out.name()}));
  for (int step = 1; step <= 2; ++step) {
    m.state.PostArrival(Message(m, Tensor::Scalar(3.0f * step), step));
    m.state.TakeArrivals();
    m.input.context->step_id = step;
    m.state.Begin(m.input);
    BOOST_TEST(!m.state.Drain(100));
    m.Finish();
    BOOST_TEST(m.results[0].scalar<float>() == -3.0f * step);
  }
  BOOST_TEST(m.state.late_arrivals() == 0);
  BOOST_TEST(m.state.received_bytes() == 8);
}

BOOST_FIXTURE_TEST_CASE(edge_8_what_is_too_much_for_the_mailroom_ends_its_step_when_that_begins, RecvGraph) {
  Machine m(Compile(root, {}, {out.name()}));
  for (size_t i = 0; i <= Mailroom::kMost; ++i) m.state.PostArrival(Message(m, Tensor(), 1));
  m.state.TakeArrivals();
  m.state.Begin(m.input);
  BOOST_TEST(!m.state.Drain(100));
  BOOST_REQUIRE(m.state.done());
  const absl::Status s = m.state.Finish();
  BOOST_TEST(s.code() == absl::StatusCode::kResourceExhausted, s);
  BOOST_TEST(std::string(s.message()).find("the next is of tensor 'edge' of /job:a/device:CPU:0") != std::string::npos,
             s);
  // The next step begins with an empty room.
  m.input.context->step_id = 2;
  m.state.PostArrival(Message(m, Tensor::Scalar(5.0f), 2));
  m.state.TakeArrivals();
  m.state.Begin(m.input);
  BOOST_TEST(!m.state.Drain(100));
  m.Finish();
  BOOST_TEST(m.results[0].scalar<float>() == -5.0f);
}

BOOST_FIXTURE_TEST_CASE(a_wrong_dtype_at_a_recv_is_an_error, RecvGraph) {
  Machine m(Compile(root, {}, {out.name()}));
  m.state.Begin(m.input);
  m.state.Drain(100);
  m.state.PostArrival(Message(m, Tensor::Scalar<int32_t>(1), 1));
  m.state.TakeArrivals();
  m.state.Drain(100);
  BOOST_REQUIRE(m.state.done());
  const absl::Status s = m.state.Finish();
  BOOST_TEST(std::string(s.message()).find("received int32") != std::string::npos, s);
}

BOOST_FIXTURE_TEST_CASE(edges_5_and_6_an_aborted_step_forgets_and_drops, RecvGraph) {
  Machine m(Compile(root, {}, {out.name()}));
  m.state.Begin(m.input);
  m.state.Drain(100);
  auto* abort = new Arrival(abort_step{1, absl::CancelledError("enough")});
  BOOST_TEST(m.state.PostArrival(abort));
  BOOST_TEST(!m.state.PostArrival(Message(m, Tensor::Scalar(1.0f), 1)));
  m.state.TakeArrivals();
  m.state.Drain(100);
  BOOST_REQUIRE(m.state.done());
  const absl::Status s = m.state.Finish();
  BOOST_TEST(s.code() == absl::StatusCode::kCancelled);
  BOOST_TEST(!m.results[0].valid());
}

BOOST_AUTO_TEST_CASE(every_token_is_a_message_in_the_debugging_mode) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = ops::Add(root, x, ops::Neg(root, x));
  Machine m(Compile(root, {x.name()}, {y.name()}), {Tensor::Scalar(3.0f)});
  m.input.token_messages = true;
  m.state.Begin(m.input);
  m.state.Drain(1000);
  while (!m.host->tokens.empty()) {
    BOOST_TEST(!m.state.done());
    Token t = std::move(m.host->tokens.front());
    m.host->tokens.erase(m.host->tokens.begin());
    m.state.Deliver(std::move(t));
    m.state.Drain(1000);
  }
  m.Finish();
  BOOST_TEST(m.results[0].scalar<float>() == 0.0f);
  BOOST_TEST(m.host->log.size() == 4u);  // x to Neg and Add, Neg to Add, Add to the result
}

BOOST_FIXTURE_TEST_CASE(a_killed_executor_fails_its_step_and_is_replaced, RecvGraph) {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", size_t{2});
  caf::actor_system system(config);
  {
    auto s = std::make_shared<Signature>();
    s->fetches = {out.name()};
    s->parts = {Compile(root, {}, {out.name()})};
    s->system = &system;
    s->closed = std::make_shared<std::atomic<bool>>(false);
    for (const bool while_it_runs : {true, false}) {
      std::unique_ptr<ExecutorSet> set = s->Lease();
      ExecutorSet* address = set.get();
      const caf::actor actor = set->executors()[0]->actor();
      if (!while_it_runs) {
        caf::anon_send_exit(actor, caf::exit_reason::kill);
        for (int i = 0; i < 1000 && set->usable(); ++i) std::this_thread::sleep_for(1ms);
      }
      std::thread killer([&] {
        std::this_thread::sleep_for(30ms);
        caf::anon_send_exit(actor, caf::exit_reason::kill);
      });
      const absl::Status status = BlockingStep(set.get()).Run({}, {}, {}, nullptr, nullptr);
      killer.join();
      BOOST_TEST(status.code() == absl::StatusCode::kAborted, status);
      BOOST_TEST(!set->usable());
      s->Release(std::move(set));
      set = s->Lease();
      BOOST_TEST(set->usable());
      s->Release(std::move(set));
      (void)address;
    }
  }
}

// Nodes with values among nodes that only order others, which have a queue of their own: whatever
// the budget of a turn, every node runs once and after all that it waits for.
BOOST_AUTO_TEST_CASE(edge_2_nodes_that_only_order_others_keep_the_order) {
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    std::mt19937 rng(seed);
    Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root, DType::kFloat);
    constexpr int kNodes = 400;
    std::vector<Operation> made;
    std::vector<std::vector<int>> before(kNodes);  // by node: whom it waits for
    Names fetches;
    for (int i = 0; i < kNodes; ++i) {
      std::vector<Operation> wait;
      for (unsigned k = i == 0 ? 0 : rng() % 4; k > 0; --k) {
        // Near ones make chains, far ones joins.
        const int distance = 1 + static_cast<int>(rng() % (k == 1 ? 400 : 12));
        before[i].push_back(std::max(0, i - distance));
        wait.push_back(made[before[i].back()]);
      }
      const Scope scope = root.WithOpName(StrCat("n", i)).WithControlDependencies(wait);
      if (rng() % 3 == 0 || i + 8 >= kNodes) {
        made.push_back(Operation(ops::Neg(scope, x)));
        fetches.push_back(StrCat("n", i, ":0"));
      } else {
        made.push_back(ops::NoOp(scope));
      }
    }
    const auto part = Compile(root, {x.name()}, fetches);
    BOOST_REQUIRE(!part->has_control_flow);
    BOOST_REQUIRE(!part->ordering.empty());
    for (const int64_t budget : {1, 3, 50, 100000}) {
      for (const bool messages : {false, true}) {
        Machine m(part, {Tensor::Scalar(3.0f)});
        std::vector<node_run> timings;
        m.input.timings = &timings;
        m.input.token_messages = messages;
        m.state.Begin(m.input);
        while (!m.state.done()) {
          const int64_t run = m.state.nodes_run();
          m.state.Drain(budget);
          BOOST_TEST(m.state.nodes_run() - run <= budget);
          std::vector<Token> tokens;
          tokens.swap(m.host->tokens);
          for (Token& t : tokens) m.state.Deliver(std::move(t));
        }
        BOOST_TEST(m.state.nodes_run() == static_cast<int64_t>(part->nodes.size()));
        m.Finish();
        std::vector<int> place(kNodes, -1);
        for (size_t t = 0; t < timings.size(); ++t) {
          int number = -1;
          if (std::sscanf(std::string(part->info[timings[t].node].name).c_str(), "n%d", &number) != 1) continue;
          if (part->info[timings[t].node].op != "Neg") continue;
          BOOST_TEST(place[number] == -1);
          place[number] = static_cast<int>(t);
        }
        // The latest place of a node or of anything before it; nodes without values have no place
        // of their own.
        std::vector<int> latest(kNodes, -1);
        size_t seen = 0;
        for (int i = 0; i < kNodes; ++i) {
          for (const int b : before[i]) latest[i] = std::max(latest[i], latest[b]);
          if (made[i].node()->op().name != "Neg") continue;
          ++seen;
          BOOST_TEST(place[i] > latest[i], "node " << i << " of seed " << seed << " with budget " << budget);
          latest[i] = place[i];
        }
        BOOST_TEST(seen == fetches.size());
        for (const Tensor& r : m.results) BOOST_TEST(r.scalar<float>() == -3.0f);
      }
    }
  }
}

// What waits in that queue is forgotten with the rest when the step is stopped, and the next step
// begins anew.
BOOST_AUTO_TEST_CASE(edge_5_stops_among_nodes_that_only_order_others) {
  Scope root = Scope::NewRootScope();
  std::vector<Operation> layer;
  for (int i = 0; i < 50; ++i) layer.push_back(ops::NoOp(root));
  for (int k = 0; k < 3; ++k) {
    std::vector<Operation> next;
    for (int i = 0; i < 50; ++i)
      next.push_back(ops::NoOp(root.WithControlDependencies({layer[i], layer[(i * 7 + k) % 50]})));
    layer = next;
  }
  const Output y = ops::Neg(root.WithControlDependencies(layer), ops::Const(root, 2.0f));
  Machine m(Compile(root, {}, {y.name()}));
  for (int step = 1; step <= 40; ++step) {
    m.input.context->step_id = step;
    m.state.Begin(m.input);
    const bool stop = step % 2 == 1;
    if (stop) {
      BOOST_TEST(m.state.Drain(step * 5));
      m.state.Abort(absl::CancelledError("enough"));
      BOOST_TEST(!m.state.Drain(1000));
    } else {
      BOOST_TEST(!m.state.Drain(1000));
    }
    BOOST_REQUIRE(m.state.done());
    BOOST_TEST(m.state.Finish().code() == (stop ? absl::StatusCode::kCancelled : absl::StatusCode::kOk));
    if (!stop) BOOST_TEST(m.results[0].scalar<float>() == -2.0f);
  }
}

BOOST_AUTO_TEST_CASE(the_restart_delay_grows_is_bounded_and_ends) {
  RestartPolicy policy;
  policy.min_delay = 10ms;
  policy.max_delay = 50ms;
  policy.jitter = 0;
  policy.max_failures = 5;
  policy.window = 1000ms;
  RestartDecision d(policy);
  const auto start = RestartDecision::Time{} + 1h;
  BOOST_TEST(d.OnFailure(start).count() == 10);
  BOOST_TEST(d.OnFailure(start).count() == 20);
  BOOST_TEST(d.OnFailure(start).count() == 40);
  BOOST_TEST(d.OnFailure(start).count() == 50);
  BOOST_TEST(d.OnFailure(start).count() == 50);
  BOOST_TEST(d.OnFailure(start).count() < 0);
  // After a quiet time it begins anew.
  BOOST_TEST(d.OnFailure(start + 5s).count() == 10);
}

}  // namespace executor_test
}  // namespace troupe
