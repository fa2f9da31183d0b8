// Variables in steps: a node that must wait for an update blocks no thread, and updates happen in
// the order in which they were asked for.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "actors/executor/step_state.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "kernels/state/variable_access.h"
#include "tests/actors/graphs.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace variables_in_steps_test {

using namespace std::chrono_literals;

// Sees what the step asks of its actor, from any thread.
class Host : public StepHost, public std::enable_shared_from_this<Host> {
 public:
  void RingDoorbell() override { ++rings; }
  const EdgeTable& edges() const override { return table; }
  absl::Status SendToPart(part_message) override { return absl::OkStatus(); }
  std::shared_ptr<void> KeepAlive() override { return shared_from_this(); }
  void ResultReady(uint32_t, Tensor) override {}
  void PostToken(Token) override {}
  bool Rung(int times) const {
    for (const auto until = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < until;) {
      if (rings >= times) return rings == times;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  EdgeTable table;
  std::atomic<int> rings{0};
};

Node* Add(const Scope& root, std::string_view name, std::string_view op, std::vector<NodeOut> inputs,
          std::initializer_list<std::pair<const char*, AttrValue>> attrs = {}) {
  NodeBuilder b(root.graph(), name, op);
  for (const NodeOut& in : inputs) b.Input(in);
  for (const auto& [key, value] : attrs) b.Attr(key, value);
  auto n = b.Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return *n;
}
NodeOut At(const Output& x) { return {x.node(), x.index()}; }

Node* NewVariable(const Scope& root, const std::string& name, bool by_ref, const TensorShape& shape) {
  return Add(root, name + "_node", by_ref ? "VariableV2" : "VarHandleOp", {},
             {{"dtype", DType::kFloat}, {"shape", shape}, {"shared_name", name}});
}

// One part in a step, without an actor.
struct Machine {
  Machine(const Scope& root, const Names& feeds, const Names& fetches, const Names& targets, std::vector<Tensor> fed,
          int threads = 1)
      : device(EvaluationDevice(threads)), arguments(std::move(fed)) {
    auto pruned = PruneForExecution(*root.graph(), feeds, fetches, targets);
    BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
    auto compiled = CompiledPart::Compile(*pruned->graph, device, SessionScope("test"));
    BOOST_REQUIRE_MESSAGE(compiled.ok(), compiled.status());
    part = *compiled;
    results.resize(part->num_results);
    state = std::make_unique<StepState>(part, host.get());
    input.context = std::make_shared<StepContext>();
    input.context->step_id = 1;
    input.arguments = arguments.data();
    input.results = results.data();
  }
  // The variable, which has this value from now on.
  VariableSlot* Slot(const std::string& name, Tensor value) {
    auto slot = device->containers()->LookUpOrCreate<VariableSlot>("", name, [&] {
      return std::make_shared<VariableSlot>(name, value.dtype(), PartialTensorShape(value.shape()));
    });
    BOOST_REQUIRE(slot.ok());
    TROUPE_REQUIRE_OK((*slot)->Assign(std::move(value)));
    return slot->get();
  }
  std::string Report() const {
    std::string text;
    for (const auto& r : state->Report().roots) StrAppend(&text, r.text, "\n");
    return text;
  }
  Device* const device;
  std::shared_ptr<Host> host = std::make_shared<Host>();
  std::shared_ptr<const CompiledPart> part;
  std::unique_ptr<StepState> state;
  std::vector<Tensor> arguments, results;
  StepInput input;
};

// A kernel that reads by handle; a reference that an Identity reads, a kernel reads, and that is
// itself a result; an update that has a result.
BOOST_AUTO_TEST_CASE(edges_9_and_10_a_node_that_must_wait_for_a_variable_blocks_no_thread) {
  const char* const kinds[] = {"handle", "identity", "kernel", "result", "update"};
  for (const std::string kind : kinds) {
    BOOST_TEST_CONTEXT(kind) {
      const bool by_ref = kind != "handle";
      Scope root = Scope::NewRootScope();
      const Output x = ops::Placeholder(root, DType::kFloat), other = ops::Neg(root, x);
      const std::string name = "in_steps_" + kind;
      const NodeOut v{NewVariable(root, name, by_ref, TensorShape()), 0};
      const NodeOut y = kind == "handle" ? NodeOut{Add(root, "y", "ReadVariableOp", {v}, {{"dtype", DType::kFloat}}), 0}
                        : kind == "identity" ? NodeOut{Add(root, "y", "Identity", {v}), 0}
                        : kind == "kernel"   ? NodeOut{Add(root, "y", "Add", {v, v}), 0}
                        : kind == "update"   ? NodeOut{Add(root, "y", "AssignAdd", {v, At(x)}), 0}
                                             : v;
      const std::string fetch = StrCat(y.node->name(), ":0");
      Machine m(root, {x.name()}, {fetch, other.name()}, {}, {Tensor::Scalar(3.0f)});
      VariableSlot* const slot = m.Slot(name, Tensor::Scalar(5.0f));
      for (int step = 1; step <= 2; ++step) {
        BOOST_REQUIRE(slot->TryBegin());
        m.host->rings = 0;
        m.input.context->step_id = step;
        m.state->Begin(m.input);
        BOOST_TEST(!m.state->Drain(1000));
        BOOST_TEST(!m.state->done());
        BOOST_TEST(m.results[1].scalar<float>() == -3.0f);  // the rest went on
        BOOST_TEST(m.Report().find(StrCat(" for variable '", name, "'")) != std::string::npos, m.Report());
        BOOST_TEST(m.host->rings == 0);
        slot->value() = Tensor::Scalar(7.0f);
        slot->Commit();
        slot->End();
        BOOST_TEST(m.host->rings == 1);
        m.state->TakeArrivals();
        BOOST_TEST(!m.state->Drain(1000));
        BOOST_REQUIRE(m.state->done());
        TROUPE_REQUIRE_OK(m.state->Finish());
        BOOST_TEST(m.results[0].scalar<float>() == (kind == "kernel" ? 14.0f : kind == "update" ? 10.0f : 7.0f));
        BOOST_REQUIRE(slot->TryBegin());  // nobody has kept it
        slot->End();
      }
    }
  }
}

// Updates that run as jobs come back to the turn with their inputs, which are lent.
BOOST_AUTO_TEST_CASE(a_job_that_must_wait_gives_its_thread_back) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const NodeOut v{NewVariable(root, "job_v", false, TensorShape()), 0},
      w{NewVariable(root, "job_w", false, TensorShape()), 0};
  Node *const first = Add(root, "first", "AssignAddVariableOp", {v, At(x)}), *const second =
                                                                                 Add(root, "second",
                                                                                     "AssignSubVariableOp", {w, At(x)});
  Machine m(root, {x.name()}, {}, {std::string(first->name()), std::string(second->name())}, {Tensor::Scalar(3.0f)}, 2);
  VariableSlot *const sv = m.Slot("job_v", Tensor::Scalar(5.0f)), *const sw = m.Slot("job_w", Tensor::Scalar(5.0f));
  for (int step = 1; step <= 2; ++step) {
    // As if measured.
    for (size_t i = 0; i < m.part->nodes.size(); ++i) m.part->cost[i] = 10 * CompiledPart::kHeavyNanos;
    m.part->has_heavy = true;
    BOOST_REQUIRE(sv->TryBegin());
    BOOST_REQUIRE(sw->TryBegin());
    m.host->rings = 0;
    m.input.context->step_id = step;
    m.state->Begin(m.input);
    BOOST_TEST(!m.state->Drain(1000));
    BOOST_TEST(m.host->Rung(1));  // by the job, which has given up
    m.state->TakeArrivals();
    BOOST_TEST(!m.state->Drain(1000));
    BOOST_TEST(!m.state->has_jobs());
    BOOST_TEST(m.Report().find(" for variable 'job_v'") != std::string::npos, m.Report());
    BOOST_TEST(m.Report().find(" for variable 'job_w'") != std::string::npos, m.Report());
    sv->End();
    sw->End();
    m.state->TakeArrivals();
    BOOST_TEST(!m.state->Drain(1000));
    BOOST_REQUIRE(m.state->done());
    TROUPE_REQUIRE_OK(m.state->Finish());
  }
  BOOST_TEST(sv->Read()->scalar<float>() == 11.0f);
  BOOST_TEST(sw->Read()->scalar<float>() == -1.0f);
}

// Each update hands the variable on to the next one of the same step, within the turn.
BOOST_AUTO_TEST_CASE(a_turn_that_has_spent_its_budget_goes_on_with_what_its_last_node_granted) {
  constexpr int kUpdates = 5, kFollowers = 4;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const NodeOut v{NewVariable(root, "handed_on", false, TensorShape()), 0};
  Names targets;
  for (int i = 0; i < kUpdates; ++i) {
    Node* const add = Add(root, StrCat("add", i), "AssignAddVariableOp", {v, At(x)});
    targets.push_back(std::string(add->name()));
    for (int f = 0; f < kFollowers; ++f) {
      NodeBuilder b(root.graph(), StrCat("follower", i, "_", f), "Neg");
      auto follower = b.Input(At(x)).Control(add).Build();
      BOOST_REQUIRE_MESSAGE(follower.ok(), follower.status());
      targets.push_back(std::string((*follower)->name()));
    }
  }
  Machine m(root, {x.name()}, {}, targets, {Tensor::Scalar(1.0f)});
  VariableSlot* const slot = m.Slot("handed_on", Tensor::Scalar(0.0f));
  int step = 0;
  for (int budget = 1; budget <= kUpdates * (kFollowers + 1) + 2; ++budget) {
    BOOST_REQUIRE(slot->TryBegin());
    m.input.context->step_id = ++step;
    m.state->Begin(m.input);
    BOOST_TEST(!m.state->Drain(1000));
    slot->End();
    m.state->TakeArrivals();
    while (m.state->Drain(budget)) {
    }
    BOOST_TEST_CONTEXT("a budget of " << budget) BOOST_REQUIRE(m.state->done());
    TROUPE_REQUIRE_OK(m.state->Finish());
    BOOST_TEST(slot->Read()->scalar<float>() == static_cast<float>(kUpdates * step));
  }
}

BOOST_AUTO_TEST_CASE(edge_5_a_step_that_ends_gives_up_what_its_nodes_wait_for) {
  for (const bool granted : {false, true}) {
    for (const bool busy : {false, true}) {
      Scope root = Scope::NewRootScope();
      const Output x = ops::Placeholder(root, DType::kFloat);
      const NodeOut v{NewVariable(root, "given_up", false, TensorShape()), 0};
      Node* const add = Add(root, "add", "AssignAddVariableOp", {v, At(x)});
      Machine m(root, {x.name()}, {}, {std::string(add->name())}, {Tensor::Scalar(3.0f)});
      VariableSlot* const slot = m.Slot("given_up", Tensor::Scalar(5.0f));
      BOOST_REQUIRE(slot->TryBegin());
      m.state->Begin(m.input);
      BOOST_TEST(!m.state->Drain(1000));
      // With `granted`, the slot is the step's already, which has not had its turn yet.
      if (granted) slot->End();
      // Its turn may be long in coming: nobody waits for that.
      if (busy) {
        m.input.context->Cancel();
        if (!granted) slot->End();
        BOOST_TEST(slot->TryBegin());
        slot->End();
      }
      m.state->Abort(absl::CancelledError("by the test"));
      BOOST_TEST(m.state->done());
      BOOST_TEST(absl::IsCancelled(m.state->Finish()));
      if (!granted && !busy) slot->End();
      BOOST_TEST(slot->Read()->scalar<float>() == 5.0f);
      BOOST_TEST(slot->TryBegin());
      slot->End();
      m.state->TakeArrivals();  // the end of the wait, of a step that is over
    }
  }
}

// ---- in sessions ----

std::atomic<bool> hold{false}, hold_slow{false};
std::atomic<int> held{0};
std::mutex gate_mu;
std::condition_variable gate_opened;

// Updates of nodes named "held..." stop in the middle while `hold` is set.
void Gate(const KernelNode& node) {
  if (node.name.rfind("held", 0) != 0) return;
  std::unique_lock<std::mutex> lock(gate_mu);
  if (!hold) return;
  ++held;
  gate_opened.wait_for(lock, 60s, [] { return !hold; });
}
struct Gated {
  Gated() {
    held = 0;
    hold = true;
    state::update_probe = Gate;
  }
  void Open() {
    std::lock_guard<std::mutex> lock(gate_mu);
    hold = false;
    gate_opened.notify_all();
  }
  void Reached() const {
    for (int i = 0; i < 30000 && held == 0; ++i) std::this_thread::sleep_for(1ms);
    BOOST_REQUIRE(held == 1);
  }
  ~Gated() {
    Open();
    state::update_probe = nullptr;
  }
};

struct Call {
  std::promise<std::pair<absl::Status, std::vector<Tensor>>> answer;
  std::future<std::pair<absl::Status, std::vector<Tensor>>> future = answer.get_future();
  std::unique_ptr<std::pair<absl::Status, std::vector<Tensor>>> got;
  bool Ready() { return future.wait_for(0s) == std::future_status::ready; }
  float Value() {
    BOOST_REQUIRE((future.wait_for(60s) == std::future_status::ready));
    auto [status, outputs] = future.get();
    BOOST_REQUIRE_MESSAGE(status.ok(), status);
    return outputs.empty() ? 0 : outputs[0].scalar<float>();
  }
};

struct InSession {
  explicit InSession(int threads = 2) {
    const NodeOut handle{NewVariable(root, "v", false, TensorShape()), 0};
    Add(root, "set", "AssignVariableOp", {handle, At(x)});
    Add(root, "held_add", "AssignAddVariableOp", {handle, At(x)});
    Add(root, "read", "ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
    ops::Neg(root.WithOpName("other"), x);
    SessionOptions options;
    options.lend_thread_us = 0;
    options.runtime_options.threads = threads;
    session = NewSession(root, options);
    // Compiles what follows.
    TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(0.0f)}}, {}, {"set"}, nullptr));
    TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(0.0f)}}, {}, {"held_add"}, nullptr));
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(0.0f)}}, {"other:0"}, {}, &out));
    TROUPE_REQUIRE_OK(session->Run({}, {"read:0"}, {}, &out));
  }
  std::shared_ptr<Call> Start(float value, const Names& fetches, const Names& targets = {}) {
    auto call = std::make_shared<Call>();
    const Feeds feeds = fetches == Names{"read:0"} ? Feeds{} : Feeds{{"x", Tensor::Scalar(value)}};
    session->RunAsync({}, feeds, fetches, targets, [call](absl::Status s, std::vector<Tensor> out) {
      call->answer.set_value({std::move(s), std::move(out)});
    });
    return call;
  }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  std::unique_ptr<Session> session;
};

// Takes a millisecond, so that it is known to be costly, and longer while `hold_slow` is set.
TROUPE_OP("VariablesSlow").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
std::atomic<int> slow_begun{0};
absl::Status Slow(KernelContext& ctx) {
  std::this_thread::sleep_for(1ms);
  ++slow_begun;
  std::unique_lock<std::mutex> lock(gate_mu);
  gate_opened.wait_for(lock, 60s, [] { return !hold_slow; });
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("VariablesSlow").Device("CPU").Function<Slow>();

// A step whose update waits has a costly kernel besides. When the update's turn comes, it does not
// wait for that kernel; nor does anybody else who asks for the variable.
BOOST_AUTO_TEST_CASE(what_is_granted_to_a_step_does_not_wait_for_its_costly_kernels) {
  InSession s(4);
  Add(s.root, "later", "AssignAddVariableOp", {NodeOut{s.root.graph()->Find("v_node"), 0}, At(s.x)});
  Add(s.root, "slow", "VariablesSlow", {At(s.x)});
  TROUPE_REQUIRE_OK(s.session->Extend(*s.root.graph()));
  for (int i = 0; i < 4; ++i) s.Start(1, {"slow:0"}, {"later"})->Value();  // it is measured
  const float before = s.Start(0, {"read:0"})->Value();
  Gated gate;
  const auto add = s.Start(1, {}, {"held_add"});
  gate.Reached();
  slow_begun = 0;
  hold_slow = true;
  const auto both = s.Start(1, {"slow:0"}, {"later"});
  for (int i = 0; i < 30000 && slow_begun == 0; ++i) std::this_thread::sleep_for(1ms);
  BOOST_TEST(slow_begun == 1);
  gate.Open();
  add->Value();
  BOOST_TEST(s.Start(0, {"read:0"})->Value() == before + 2);
  BOOST_TEST(!both->Ready());
  {
    std::lock_guard<std::mutex> lock(gate_mu);
    hold_slow = false;
    gate_opened.notify_all();
  }
  both->Value();
}

// One of two threads is held in the update. On the other one many steps come to wait for it, in
// order, and steps that have nothing to do with it go on.
BOOST_AUTO_TEST_CASE(steps_wait_in_order_for_an_update_and_block_no_thread) {
  InSession s;
  Gated gate;
  const auto add = s.Start(1, {}, {"held_add"});
  gate.Reached();
  std::vector<std::shared_ptr<Call>> reads, sets, later;
  for (int i = 0; i < 8; ++i) reads.push_back(s.Start(0, {"read:0"}));
  BOOST_TEST(s.Start(4, {"other:0"})->Value() == -4.0f);
  for (const float v : {10.0f, 20.0f, 30.0f}) sets.push_back(s.Start(v, {}, {"set"}));
  BOOST_TEST(s.Start(4, {"other:0"})->Value() == -4.0f);
  for (int i = 0; i < 8; ++i) later.push_back(s.Start(0, {"read:0"}));
  BOOST_TEST(s.Start(4, {"other:0"})->Value() == -4.0f);
  // Whoever has no time to wait is told for what it waited.
  std::vector<Tensor> out;
  const absl::Status late = s.session->Run(RunOptions{.timeout_ms = 50}, {}, {"read:0"}, {}, &out, nullptr);
  BOOST_TEST(absl::IsDeadlineExceeded(late), late);
  BOOST_TEST(late.ToString().find(" for variable 'v', held by node 'held_add' (") != std::string::npos, late);
  for (const auto& list : {reads, sets, later}) {
    for (const auto& call : list) BOOST_TEST(!call->Ready());
  }
  gate.Open();
  add->Value();
  for (const auto& r : reads) BOOST_TEST(r->Value() == 1.0f);
  for (const auto& w : sets) w->Value();
  for (const auto& r : later) BOOST_TEST(r->Value() == 30.0f);
}

// A blocking Run waits in its lane, whose thread is woken when the variable is free.
BOOST_AUTO_TEST_CASE(a_lane_waits_for_an_update_of_another_thread) {
  InSession s;
  Gated gate;
  const auto add = s.Start(1, {}, {"held_add"});
  gate.Reached();
  auto run = std::async(std::launch::async, [&] {
    std::vector<Tensor> out;
    const absl::Status status = s.session->Run({}, {"read:0"}, {}, &out);
    return status.ok() ? out[0].scalar<float>() : -1.0f;
  });
  BOOST_TEST((run.wait_for(50ms) == std::future_status::timeout));
  gate.Open();
  BOOST_TEST(run.get() == 1.0f);
  add->Value();
}

BOOST_AUTO_TEST_CASE(an_update_that_throws_has_lost_the_variable_until_it_is_set) {
  InSession s;
  state::update_probe = [](const KernelNode&) { throw std::runtime_error("boom"); };
  const absl::Status thrown = s.session->Run({{"x", Tensor::Scalar(1.0f)}}, {}, {"held_add"}, nullptr);
  state::update_probe = nullptr;
  BOOST_TEST(absl::IsInternal(thrown), thrown);
  std::vector<Tensor> out;
  const absl::Status lost = s.session->Run({}, {"read:0"}, {}, &out);
  BOOST_TEST(absl::IsDataLoss(lost), lost);
  BOOST_TEST(lost.ToString().find("variable 'v'") != std::string::npos, lost);
  TROUPE_REQUIRE_OK(s.session->Run({{"x", Tensor::Scalar(2.0f)}}, {}, {"set"}, nullptr));
  BOOST_TEST(s.Start(0, {"read:0"})->Value() == 2.0f);
}

BOOST_AUTO_TEST_CASE(a_lost_variable_counts_as_one_without_a_value) {
  VariableSlot slot("lost", DType::kFloat, PartialTensorShape(TensorShape()));
  TROUPE_REQUIRE_OK(slot.Assign(Tensor::Scalar(1.0f)));
  BOOST_REQUIRE(slot.TryBegin());
  slot.BeginWriting();
  BOOST_TEST(slot.initialized());  // the update may still be finished
  slot.End();
  BOOST_TEST(!slot.initialized());
  BOOST_TEST(absl::IsDataLoss(slot.Read().status()));
  TROUPE_REQUIRE_OK(slot.Assign(Tensor::Scalar(2.0f)));
  BOOST_TEST(slot.initialized());
}

// Eight callers: updates of one variable and of two in both orders, reads, and steps that are cut
// off. No update is lost, none is done twice, no snapshot is torn, and nobody waits for ever.
BOOST_AUTO_TEST_CASE(eight_threads_lose_no_update_and_tear_no_read) {
  constexpr int64_t kElements = 4096;
  constexpr int kThreads = 8, kRounds = 120;
  Scope root = Scope::NewRootScope();
  const TensorShape shape({kElements});
  const NodeOut a{NewVariable(root, "a", false, shape), 0}, b{NewVariable(root, "b", false, shape), 0};
  Tensor ones(DType::kFloat, shape), zeros(DType::kFloat, shape);
  std::fill_n(ones.data<float>(), kElements, 1.0f);
  std::fill_n(zeros.data<float>(), kElements, 0.0f);
  const Output one = ops::Const(root, ones), zero = ops::Const(root, zeros), unit = ops::Const(root, 1.0f),
               nothing = ops::Const(root, 0.0f);
  Add(root, "set_a", "AssignVariableOp", {a, At(zero)});
  Add(root, "set_b", "AssignVariableOp", {b, At(zero)});
  Add(root, "add_a", "AssignAddVariableOp", {a, At(one)});
  // The second variable gains 1, the first stays.
  Add(root, "ab", "ResourceApplyMomentum", {a, b, At(nothing), At(one), At(unit)});
  Add(root, "ba", "ResourceApplyMomentum", {b, a, At(nothing), At(one), At(unit)});
  Add(root, "read_a", "ReadVariableOp", {a}, {{"dtype", DType::kFloat}});
  Add(root, "read_b", "ReadVariableOp", {b}, {{"dtype", DType::kFloat}});
  SessionOptions options;
  options.runtime_options.threads = 2;
  const auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"set_a", "set_b"}, nullptr));
  std::atomic<int> wrong{0}, added_a{0}, added_b{0}, unknown_a{0}, unknown_b{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const int what = (i * 7 + t) % 8;
        RunOptions run;
        if (i % 10 == 9) run.timeout_ms = 1;
        std::vector<Tensor> out;
        const auto count = [&](const absl::Status& s, std::atomic<int>* sure, std::atomic<int>* maybe) {
          if (s.ok()) {
            ++*sure;
          } else if (absl::IsDeadlineExceeded(s)) {
            ++*maybe;
          } else {
            ++wrong;
          }
        };
        if (what < 2) {
          count(session->Run(run, {}, {}, {"add_a"}, nullptr, nullptr), &added_a, &unknown_a);
        } else if (what < 4) {
          count(session->Run(run, {}, {}, {"ab"}, nullptr, nullptr), &added_b, &unknown_b);
        } else if (what < 6) {
          count(session->Run(run, {}, {}, {"ba"}, nullptr, nullptr), &added_a, &unknown_a);
        } else {
          const absl::Status s = session->Run(run, {}, {"read_a:0", "read_b:0"}, {}, &out, nullptr);
          if (!s.ok()) {
            wrong += !absl::IsDeadlineExceeded(s);
            continue;
          }
          for (const Tensor& snapshot : out) {
            const auto values = snapshot.flat<float>();
            wrong += std::any_of(values.begin(), values.end(), [&](float v) { return v != values[0]; });
          }
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_TEST(wrong == 0);
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {"read_a:0", "read_b:0"}, {}, &out));
  const float va = out[0].data<float>()[17], vb = out[1].data<float>()[17];
  BOOST_TEST(va >= static_cast<float>(added_a));
  BOOST_TEST(va <= static_cast<float>(added_a + unknown_a));
  BOOST_TEST(vb >= static_cast<float>(added_b));
  BOOST_TEST(vb <= static_cast<float>(added_b + unknown_b));
}

}  // namespace variables_in_steps_test
}  // namespace troupe
