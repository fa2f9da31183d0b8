// A step's cancellation list: what waits on behalf of a step is told when the step is to end, once,
// whatever ends it.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "actors/signature/signature.h"
#include "actors/step/blocking_step.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "kernels/state/variable_access.h"
#include "tests/actors/graphs.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace cancellation_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

template <class F>
bool Soon(F f) {
  for (const auto until = Clock::now() + 30s; Clock::now() < until; std::this_thread::sleep_for(1ms)) {
    if (f()) return true;
  }
  return false;
}

// ---- the list ----

BOOST_AUTO_TEST_CASE(each_callback_is_called_once_unless_it_was_deregistered) {
  CancellationList list;
  std::string log;
  BOOST_TEST(!list.used());
  const auto a = list.Register([&] { log += "a"; });
  const auto b = list.Register([&] { log += "b"; });
  const auto c = list.Register([&] {
    log += "c";
    throw std::runtime_error("it is dropped");
  });
  const auto d = list.Register([&] { log += "d"; });
  BOOST_TEST(list.used());
  BOOST_TEST(list.Deregister(b));
  BOOST_TEST(!list.Deregister(b));
  list.Cancel();
  list.Cancel();
  BOOST_TEST(log == "acd");
  for (const auto id : {a, c, d}) BOOST_TEST(!list.Deregister(id));
  BOOST_TEST(list.Register([&] { log += "e"; }) == 0);
  BOOST_TEST(!list.Deregister(0));
  list.Clear();
  BOOST_TEST(!list.used());
  BOOST_TEST(list.Register([&] { log += "f"; }) != 0);
  list.Clear();
  list.Cancel();
  BOOST_TEST(log == "acd");
}

BOOST_AUTO_TEST_CASE(who_deregisters_waits_for_a_callback_that_runs) {
  CancellationList list;
  std::promise<void> begun, go_on;
  std::atomic<bool> over{false};
  const auto id = list.Register([&] {
    begun.set_value();
    go_on.get_future().wait();
    over = true;
  });
  std::thread canceller([&] { list.Cancel(); });
  begun.get_future().wait();
  auto deregistered = std::async(std::launch::async, [&] {
    const bool in_time = list.Deregister(id);
    return !in_time && over;
  });
  BOOST_TEST((deregistered.wait_for(20ms) == std::future_status::timeout));
  go_on.set_value();
  BOOST_TEST(deregistered.get());
  canceller.join();
}

BOOST_AUTO_TEST_CASE(a_callback_may_deregister_itself_and_register_others) {
  CancellationList list;
  CancellationList::Id id = 0;
  bool called = false;
  id = list.Register([&] {
    called = true;
    BOOST_TEST(!list.Deregister(id));
    BOOST_TEST(list.Register([] {}) == 0);
  });
  list.Cancel();
  BOOST_TEST(called);
}

BOOST_AUTO_TEST_CASE(eight_threads_register_deregister_and_cancel) {
  for (int round = 0; round < 50; ++round) {
    CancellationList list;
    std::atomic<int> called{0}, in_time{0}, refused{0};
    constexpr int kThreads = 8, kEach = 50;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          if (t == 0 && i == kEach / 2) list.Cancel();
          const auto id = list.Register([&] { ++called; });
          if (id == 0) {
            ++refused;
          } else if (i % 2 == 0) {
            in_time += list.Deregister(id);
          }
        }
      });
    }
    for (std::thread& t : threads) t.join();
    BOOST_TEST(called + in_time + refused == kThreads * kEach);
  }
}

// ---- in steps ----

// Waits until its step is told to end; keeps `done` for as long.
std::atomic<int> waiting{0}, told{0};
class Wait {
 public:
  explicit Wait(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    const auto id = ctx.step()->cancellations.Register([done] {
      ++told;
      done(absl::CancelledError("the step ended"));
    });
    if (id == 0) return done(absl::CancelledError("the step has ended"));
    ++waiting;
  }
};
TROUPE_OP("CancelWait").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CancelWait").Device("CPU").Class<Wait>();

// Fails when some other kernel waits.
class Fails {
 public:
  explicit Fails(KernelInit&) {}
  void ComputeAsync(KernelContext&, DoneFn done) {
    std::thread([done = std::move(done)] {
      Soon([] { return waiting > 0; });
      done(InvalidArgument("fails on purpose"));
    }).detach();
  }
};
TROUPE_OP("CancelFail").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CancelFail").Device("CPU").Class<Fails>();

// Registers, and answers by itself.
std::weak_ptr<int> registered;
class Answers {
 public:
  explicit Answers(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    const auto token = std::make_shared<int>(0);
    registered = token;
    ctx.step()->cancellations.Register([done, token] {
      ++told;
      done(absl::CancelledError("never"));
    });
    ctx.set_output(0, ctx.input(0));
    done(absl::OkStatus());
  }
};
TROUPE_OP("CancelAnswer").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CancelAnswer").Device("CPU").Class<Answers>();

// A long loop, whose first range goes on when the step is told to end.
std::atomic<int> ranges{0};
absl::Status Loop(KernelContext& ctx) {
  ctx.threads()->ParallelFor(1000, 20e6, [&](int64_t, int64_t) {
    ++ranges;
    Soon([&] { return ctx.cancelled(); });
  });
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("CancelLoop").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CancelLoop").Device("CPU").Function<Loop>();

// The same for constant folding, which nothing tells: it finds out by a loop of its own.
std::atomic<bool> waits{false}, found_out{false};
bool IsCutOff(ComputeThreads* threads) {
  try {
    threads->ParallelFor(2, 20e6, [](int64_t, int64_t) {});
  } catch (const LoopCancelled&) {
    return true;
  }
  return false;
}
absl::Status LoopOfConstant(KernelContext& ctx) {
  ctx.threads()->ParallelFor(1000, 20e6, [&](int64_t, int64_t) {
    ++ranges;
    if (waits) found_out = Soon([&] { return IsCutOff(ctx.threads()); });
  });
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("CancelFold").Input("x: float").Output("y: float").NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CancelFold").Device("CPU").Function<LoopOfConstant>();

struct Fixture {
  Fixture() { waiting = told = ranges = 0; }
  Output Op(const char* op, const Output& on, const char* device = "") {
    auto n = NodeBuilder(root.graph(), op, op).Input(NodeOut{on.node(), on.index()}).Device(device).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    return Output({*n, 0}, on.scope_state());
  }
  std::unique_ptr<Session> Start(int devices = 1) {
    SessionOptions options;
    options.lend_thread_us = 0;
    options.runtime_options.threads = 2;
    options.runtime_options.cpu_devices = devices;
    return NewSession(root, options);
  }
  std::future<absl::Status> Run(Session& session, const Names& fetches, const RunOptions& options = {}) {
    auto answer = std::make_shared<std::promise<absl::Status>>();
    session.RunAsync(options, feeds, fetches, {},
                     [answer](absl::Status s, std::vector<Tensor>) { answer->set_value(std::move(s)); });
    return answer->get_future();
  }
  static absl::Status Get(std::future<absl::Status> f) {
    return f.wait_for(30s) == std::future_status::ready ? f.get() : absl::UnknownError("no answer");
  }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
};

BOOST_FIXTURE_TEST_CASE(whatever_ends_a_step_tells_its_kernels_once, Fixture) {
  Op("CancelWait", x);
  for (const std::string by : {"deadline", "token", "close", "session"}) {
    BOOST_TEST_CONTEXT(by) {
      waiting = told = 0;
      auto session = Start();
      CancellationToken token;
      RunOptions options;
      if (by == "deadline") options.timeout_ms = 20;
      if (by == "token") options.cancellation = &token;
      // The deadline is the step's, not the compiler's.
      BOOST_TEST(session->Prepare({"x"}, {"CancelWait:0"}, {}).ok());
      auto answer = Run(*session, {"CancelWait:0"}, options);
      BOOST_TEST(Soon([] { return waiting == 1; }));
      if (by == "token") token.Cancel();
      if (by == "close") BOOST_TEST(session->Close().ok());
      if (by == "session") session = nullptr;
      const absl::Status status = Get(std::move(answer));
      BOOST_TEST((by == "deadline" ? absl::IsDeadlineExceeded(status) : absl::IsCancelled(status)), status);
      BOOST_TEST(status.ToString().find("goes on in the background") == std::string::npos, status);
      BOOST_TEST(told == 1);
    }
  }
}

// The error is that of the node that failed, not of those that were told.
BOOST_FIXTURE_TEST_CASE(an_error_in_any_part_tells_the_kernels_of_all, Fixture) {
  Op("CancelWait", x, "/cpu:0");
  Op("CancelFail", x, "/cpu:0");
  auto other = NodeBuilder(root.graph(), "other", "CancelFail").Input(NodeOut{x.node(), 0}).Device("/cpu:1").Build();
  BOOST_REQUIRE(other.ok());
  auto session = Start(2);
  for (const std::string fails : {"CancelFail:0", "other:0"}) {
    waiting = told = 0;
    const absl::Status status = Get(Run(*session, {"CancelWait:0", fails}));
    BOOST_TEST(absl::IsInvalidArgument(status), status);
    BOOST_TEST(status.ToString().find("fails on purpose") != std::string::npos, status);
    BOOST_TEST(told == 1);
  }
}

BOOST_FIXTURE_TEST_CASE(a_killed_executor_tells_the_kernels_of_its_step, Fixture) {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", size_t{2});
  caf::actor_system system(config);
  const Output wait = Op("CancelWait", ops::Const(root, 1.0f));
  auto pruned = PruneForExecution(*root.graph(), {}, {wait.name()}, {});
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  auto s = std::make_shared<Signature>();
  s->fetches = {wait.name()};
  s->parts = {CompiledPart::Compile(*pruned->graph, EvaluationDevice(1), SessionScope("test")).value()};
  s->system = &system;
  s->closed = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<ExecutorSet> set = s->Lease();
  std::thread killer([actor = set->executors()[0]->actor()] {
    Soon([] { return waiting == 1; });
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  });
  const absl::Status status = BlockingStep(set.get()).Run({}, {}, {}, nullptr, nullptr);
  killer.join();
  BOOST_TEST(absl::IsAborted(status), status);
  BOOST_TEST(told == 1);
  s->Release(std::move(set));
}

// Nothing of a step that has ended is kept, and nothing is called for it.
BOOST_FIXTURE_TEST_CASE(a_step_that_ends_well_forgets_its_list, Fixture) {
  Op("CancelAnswer", x);
  auto session = Start();
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Get(Run(*session, {"CancelAnswer:0"}));
    BOOST_TEST(status.ok(), status);
    BOOST_TEST(Soon([] { return registered.expired(); }));
  }
  BOOST_TEST(session->Close().ok());
  BOOST_TEST(told == 0);
}

// ---- loops ----

BOOST_AUTO_TEST_CASE(a_loop_looks_between_two_ranges) {
  for (const int count : {1, 3}) {
    ComputeThreads threads(count);
    std::atomic<bool> ended{false};
    std::atomic<int> run{0};
    const auto loop = [&] {
      threads.ParallelFor(1000, 20e6, [&](int64_t begin, int64_t end) {
        run += static_cast<int>(end - begin);
        ended = true;
      });
    };
    {
      const ComputeThreads::LoopCancellation cancellation(&ended);
      BOOST_CHECK_THROW(loop(), LoopCancelled);
      BOOST_TEST(run <= count);
      run = 0;
      const ComputeThreads::LoopCancellation whole(static_cast<const std::atomic<bool>*>(nullptr));
      loop();
      BOOST_TEST(run == 1000);
    }
    run = 0;
    loop();
    BOOST_TEST(run == 1000);
  }
}

BOOST_FIXTURE_TEST_CASE(a_kernel_in_a_loop_ends_with_its_step, Fixture) {
  Op("CancelLoop", x);
  auto session = Start();
  CancellationToken token;
  RunOptions options;
  options.cancellation = &token;
  auto answer = Run(*session, {"CancelLoop:0"}, options);
  BOOST_TEST(Soon([] { return ranges > 0; }));
  token.Cancel();
  const absl::Status status = Get(std::move(answer));
  BOOST_TEST(absl::IsCancelled(status), status);
  BOOST_TEST(status.ToString().find("goes on in the background") == std::string::npos, status);
  BOOST_TEST(ranges <= 2);
}

// An update is never cut off in the middle.
const CancellationToken* cancels = nullptr;
BOOST_FIXTURE_TEST_CASE(an_update_that_has_begun_is_finished, Fixture) {
  constexpr int64_t kElements = 1 << 20;
  const TensorShape shape({kElements});
  auto v = NodeBuilder(root.graph(), "v", "VarHandleOp").Attr("dtype", DType::kFloat).Attr("shape", shape).Build();
  BOOST_REQUIRE(v.ok());
  Tensor ones(DType::kFloat, shape);
  std::fill_n(ones.data<float>(), kElements, 1.0f);
  const Output one = ops::Const(root, ones);
  for (const char* op : {"AssignVariableOp", "AssignAddVariableOp"}) {
    BOOST_REQUIRE(NodeBuilder(root.graph(), op, op).Input(NodeOut{*v, 0}).Input(NodeOut{one.node(), 0}).Build().ok());
  }
  BOOST_REQUIRE(NodeBuilder(root.graph(), "read", "ReadVariableOp")
                    .Input(NodeOut{*v, 0})
                    .Attr("dtype", DType::kFloat)
                    .Build()
                    .ok());
  auto session = Start();
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"AssignVariableOp"}, nullptr));
  CancellationToken token;
  RunOptions options;
  options.cancellation = cancels = &token;
  state::update_probe = [](const KernelNode&) { const_cast<CancellationToken*>(cancels)->Cancel(); };
  const absl::Status status = session->Run(options, {}, {}, {"AssignAddVariableOp"}, nullptr, nullptr);
  state::update_probe = nullptr;
  BOOST_TEST(absl::IsCancelled(status), status);
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {"read:0"}, {}, &out));
  const auto values = out[0].flat<float>();
  BOOST_TEST(std::all_of(values.begin(), values.end(), [](float f) { return f == 2.0f; }));
}

// Nobody waits for the compile any more: the evaluation of a constant ends at its next range.
BOOST_FIXTURE_TEST_CASE(constant_folding_ends_when_nobody_waits_for_it, Fixture) {
  const Output c = ops::Const(root, 1.0f);
  ops::Neg(root.WithOpName("other"), x);
  ops::Add(root.WithOpName("sum"), Op("CancelFold", c), x);
  auto session = Start();
  waits = true;
  found_out = false;
  RunOptions options;
  options.timeout_ms = 30;
  std::vector<Tensor> out;
  const absl::Status status = session->Run(options, feeds, {"sum"}, {}, &out, nullptr);
  BOOST_TEST(absl::IsDeadlineExceeded(status), status);
  BOOST_TEST(ranges == 1);
  // The word that nobody waits goes by the session's actor to the worker's.
  BOOST_TEST(Soon([] { return found_out.load(); }));
  waits = false;
  // A compile begins when the one before it is over.
  TROUPE_REQUIRE_OK(session->Run(feeds, {"other"}, {}, &out));
  BOOST_TEST(ranges == 1);
  // Who asks again has it from the beginning.
  TROUPE_REQUIRE_OK(session->Run(feeds, {"sum"}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 2.0f);
}

}  // namespace cancellation_test
}  // namespace troupe
