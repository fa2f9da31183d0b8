// Kernels that break their contract: they throw, lose or repeat their answer, or set outputs that
// are not their node's. Each fails its own step with the node's address, or is ignored; nobody else
// notices.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "actors/signature/signature.h"
#include "actors/step/blocking_step.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "tests/actors/graphs.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace misbehaved_kernels_test {

using namespace std::chrono_literals;

// What the kernels of the ops below do. Set before a step begins.
std::function<void(KernelContext&, DoneFn)> asynchronous;
std::function<absl::Status(KernelContext&)> synchronous;
std::function<void()> construction;

absl::Status LikeInput(InferenceContext& c) {
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

TROUPE_OP("MisAsync")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(LikeInput)
    .NotDifferentiable("a test's")
    .Doc("Asynchronous.");
class MisAsync {
 public:
  explicit MisAsync(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) { asynchronous(ctx, std::move(done)); }
};
TROUPE_KERNEL("MisAsync").Device("CPU").Class<MisAsync>();

absl::Status MisCompute(KernelContext& ctx) { return synchronous(ctx); }
TROUPE_OP("MisSync")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(LikeInput)
    .NotDifferentiable("a test's")
    .Doc("Synchronous.");
TROUPE_KERNEL("MisSync").Device("CPU").Function<MisCompute>();
TROUPE_OP("MisPure")
    .Input("x: float")
    .Output("y: float")
    .Shape(LikeInput)
    .NotDifferentiable("a test's")
    .Doc("May be folded.");
TROUPE_KERNEL("MisPure").Device("CPU").Function<MisCompute>();
TROUPE_OP("MisAsyncPure")
    .Input("x: float")
    .Output("y: float")
    .Shape(LikeInput)
    .NotDifferentiable("a test's")
    .Doc("Asynchronous, and may be evaluated.");
TROUPE_KERNEL("MisAsyncPure").Device("CPU").Class<MisAsync>();
// As if it were one of the library's.
TROUPE_OP("MisLibrary")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("a test's")
    .Doc("Of the library.");
[[maybe_unused]] const KernelRegistrar library =
    KernelBuilder("MisLibrary", KernelOrigin::kLibrary).Device("CPU").Function<MisCompute>();

class MisConstructed {
 public:
  explicit MisConstructed(KernelInit&) { construction(); }
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }
};
TROUPE_OP("MisConstructed")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("a test's")
    .Doc("Its constructor may throw.");
TROUPE_KERNEL("MisConstructed").Device("CPU").Class<MisConstructed>();

Output TestOp(const Scope& root, const char* op, const Output& x, std::string name = "") {
  auto n = NodeBuilder(root.graph(), name.empty() ? op : name, op).Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

bool Has(const absl::Status& s, std::string_view text) {
  return std::string(s.message()).find(text) != std::string::npos;
}
std::string Address(const char* op) {
  return StrCat("node '", op, "' (", op, ") on /job:localhost/replica:0/task:0/device:CPU:0: ");
}

struct Fixture {
  // A blocking and an asynchronous step; both in bounded time.
  absl::Status Run(Session& s, const Output& y, bool blocking) {
    RunOptions options;
    options.timeout_ms = 20000;
    outputs.clear();
    if (blocking) return s.Run(options, feeds, {y.name()}, {}, &outputs, nullptr);
    std::promise<absl::Status> done;
    auto future = done.get_future();
    s.RunAsync(
        options, feeds, {y.name()}, {},
        [&](absl::Status status, std::vector<Tensor> out) {
          outputs = std::move(out);
          done.set_value(std::move(status));
        },
        nullptr);
    BOOST_REQUIRE((future.wait_for(60s) == std::future_status::ready));
    return future.get();
  }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape(TensorShape())});
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
  std::vector<Tensor> outputs;
};

void Answer(KernelContext& ctx, const DoneFn& done) {
  ctx.set_output(0, Tensor::Scalar(ctx.input(0).scalar<float>() + 1));
  done(absl::OkStatus());
}

BOOST_FIXTURE_TEST_CASE(an_asynchronous_kernel_that_throws_fails_its_step, Fixture) {
  const Output y = ops::Neg(root, TestOp(root, "MisAsync", x));
  auto session = NewSession(root);
  for (const bool messages : {false, true}) {
    auto other = NewSession(root, {.token_messages = messages});
    for (int i = 0; i < 10; ++i) {
      asynchronous = [](KernelContext&, DoneFn) { throw std::runtime_error("boom"); };
      const absl::Status s = Run(*session, y, i % 2 == 0);
      BOOST_TEST(s.code() == absl::StatusCode::kInternal, s);
      BOOST_TEST(Has(s, Address("MisAsync") + "the kernel threw an exception: boom"), s);
      asynchronous = [](KernelContext&, DoneFn) { throw 3; };
      BOOST_TEST(Has(Run(*session, y, i % 2 == 0), "an object that is not a std::exception"));
      asynchronous = [](KernelContext&, DoneFn) { throw std::bad_alloc(); };
      BOOST_TEST(Run(*session, y, i % 2 == 0).code() == absl::StatusCode::kResourceExhausted);
      asynchronous = [](KernelContext& ctx, DoneFn done) { Answer(ctx, done); };
      TROUPE_REQUIRE_OK(Run(*session, y, i % 2 == 0));
      BOOST_TEST(outputs.at(0).scalar<float>() == -2.0f);
      TROUPE_REQUIRE_OK(Run(*other, y, i % 2 == 0));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(an_answer_that_is_dropped_fails_its_step, Fixture) {
  const Output y = ops::Neg(root, TestOp(root, "MisAsync", x));
  auto session = NewSession(root);
  std::thread dropper;
  for (int i = 0; i < 10; ++i) {
    for (const bool elsewhere : {false, true}) {
      asynchronous = [&](KernelContext&, DoneFn done) {
        if (elsewhere)
          dropper = std::thread([done = std::move(done), copy = done] { std::this_thread::sleep_for(1ms); });
      };
      const absl::Status s = Run(*session, y, i % 2 == 0);
      BOOST_TEST(s.code() == absl::StatusCode::kInternal, s);
      BOOST_TEST(Has(s, Address("MisAsync") + "the kernel forgot to answer"), s);
      if (dropper.joinable()) dropper.join();
    }
  }
  asynchronous = [](KernelContext& ctx, DoneFn done) { Answer(ctx, done); };
  TROUPE_REQUIRE_OK(Run(*session, y, true));
}

BOOST_FIXTURE_TEST_CASE(only_the_first_answer_counts, Fixture) {
  const Output y = ops::Neg(root, TestOp(root, "MisAsync", x));
  auto session = NewSession(root);
  DoneFn kept;
  const std::vector<std::function<void(KernelContext&, DoneFn)>> ways = {[](KernelContext& ctx, DoneFn done) {
                                                                           Answer(ctx, done);
                                                                           done(absl::OkStatus());
                                                                           done(absl::InternalError("too late"));
                                                                         },
                                                                         [](KernelContext& ctx, DoneFn done) {
                                                                           Answer(ctx, done);
                                                                           throw std::runtime_error("too late");
                                                                         },
                                                                         [&](KernelContext& ctx, DoneFn done) {
                                                                           kept = done;
                                                                           Answer(ctx, done);
                                                                         },
                                                                         [](KernelContext& ctx, DoneFn done) {
                                                                           std::thread([&ctx, done] {
                                                                             Answer(ctx, done);
                                                                             done(absl::InternalError("too late"));
                                                                           }).detach();
                                                                         }};
  for (int i = 0; i < 40; ++i) {
    asynchronous = ways[static_cast<size_t>(i) % ways.size()];
    TROUPE_REQUIRE_OK(Run(*session, y, i % 3 != 0));
    BOOST_TEST(outputs.at(0).scalar<float>() == -2.0f);
    if (kept) kept(absl::InternalError("after the step"));
    if (i % 2 == 0) kept = nullptr;
  }
  session = nullptr;
  if (kept) kept(absl::InternalError("after the session"));
}

BOOST_FIXTURE_TEST_CASE(an_answer_after_the_step_was_cancelled_is_dropped, Fixture) {
  const Output y = ops::Neg(root, TestOp(root, "MisAsync", x));
  auto session = NewSession(root);
  for (const bool drops : {false, true}) {
    CancellationToken token;
    std::thread late;
    asynchronous = [&](KernelContext& ctx, DoneFn done) {
      late = std::thread([&ctx, &token, drops, done = std::move(done)]() mutable {
        token.Cancel();
        std::this_thread::sleep_for(5ms);
        if (drops) return;
        Answer(ctx, done);
      });
    };
    RunOptions options;
    options.cancellation = &token;
    const absl::Status s = session->Run(options, feeds, {y.name()}, {}, &outputs, nullptr);
    BOOST_TEST(s.code() == absl::StatusCode::kCancelled, s);
    late.join();
    asynchronous = [](KernelContext& ctx, DoneFn done) { Answer(ctx, done); };
    TROUPE_REQUIRE_OK(Run(*session, y, true));
  }
}

// What a kernel does when its value comes may throw, too.
BOOST_FIXTURE_TEST_CASE(what_throws_when_its_tensor_comes_fails_its_step, Fixture) {
  const Output y = TestOp(root, "MisAsync", x);
  auto session = NewSession(root);
  // Its value never comes: the step's end is what it hears, and what it throws then is nobody's.
  asynchronous = [](KernelContext& ctx, DoneFn done) {
    ctx.exchange()->Recv("nobody", ctx.frame_iter(),
                         [done](absl::Status, Tensor, bool) { throw std::runtime_error("boom"); });
  };
  RunOptions options;
  options.timeout_ms = 30;
  const absl::Status s = session->Run(options, feeds, {y.name()}, {}, &outputs, nullptr);
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  asynchronous = [](KernelContext& ctx, DoneFn done) { Answer(ctx, done); };
  TROUPE_REQUIRE_OK(Run(*session, y, true));
}

BOOST_FIXTURE_TEST_CASE(an_answer_may_outlive_its_executor, Fixture) {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", size_t{2});
  caf::actor_system system(config);
  const Output y = TestOp(root, "MisAsync", x);
  for (const bool drops : {false, true}) {
    DoneFn kept;
    KernelContext* context = nullptr;
    std::promise<void> begun;
    asynchronous = [&](KernelContext& ctx, DoneFn done) {
      context = &ctx;
      kept = std::move(done);
      begun.set_value();
    };
    auto graph = PruneForExecution(*root.graph(), {x.name()}, {y.name()}, {});
    BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status());
    auto part = CompiledPart::Compile(*graph->graph, EvaluationDevice(1), SessionScope("test"));
    BOOST_REQUIRE_MESSAGE(part.ok(), part.status());
    auto s = std::make_shared<Signature>();
    s->feeds = {x.name()};
    s->fetches = {y.name()};
    s->parts = {*part};
    s->system = &system;
    s->closed = std::make_shared<std::atomic<bool>>(false);
    std::unique_ptr<ExecutorSet> set = s->Lease();
    const caf::actor actor = set->executors()[0]->actor();
    std::thread killer([&] {
      begun.get_future().wait();
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    });
    const std::vector<Tensor> values = {Tensor::Scalar(1.0f)};
    const absl::Status status = BlockingStep(set.get()).Run({}, {}, absl::Span<const Tensor>(values), nullptr, nullptr);
    BOOST_TEST(status.code() == absl::StatusCode::kAborted, status);
    killer.join();
    set.reset();
    s.reset();
    part = absl::InternalError("gone");
    // The executor, its part and the context are there as long as the kernel may answer.
    context->set_output(0, Tensor::Scalar(1.0f));
    if (!drops) kept(absl::OkStatus());
    kept = nullptr;
  }
}

BOOST_FIXTURE_TEST_CASE(a_constructor_that_throws_refuses_its_node_and_nobody_else, Fixture) {
  const Output bad = TestOp(root, "MisConstructed", x), held = TestOp(root, "MisAsync", x);
  auto runtime = Runtime::Start({}).value();
  SessionOptions options;
  options.runtime = runtime;
  auto one = NewSession(root, options), other = NewSession(root, options);
  std::promise<DoneFn> kept;
  KernelContext* context = nullptr;
  asynchronous = [&](KernelContext& ctx, DoneFn done) {
    context = &ctx;
    kept.set_value(std::move(done));
  };
  std::promise<absl::Status> ended;
  one->RunAsync(feeds, {held.name()}, {}, [&](absl::Status s, std::vector<Tensor>) { ended.set_value(std::move(s)); });
  DoneFn done = kept.get_future().get();
  for (int i = 0; i < 12; ++i) {
    construction = [i] {
      if (i % 2 == 0) throw std::runtime_error("model file missing");
      throw "not an exception";
    };
    const absl::Status s = Run(*other, bad, i % 3 != 0);
    BOOST_TEST(s.code() == absl::StatusCode::kInternal, s);
    BOOST_TEST(Has(s, "node 'MisConstructed' (MisConstructed)"), s);
    BOOST_TEST(Has(s, i % 2 == 0 ? "model file missing" : "not a std::exception"), s);
  }
  construction = [] {};
  TROUPE_REQUIRE_OK(Run(*other, bad, true));
  Answer(*context, done);
  auto future = ended.get_future();
  BOOST_REQUIRE((future.wait_for(20s) == std::future_status::ready));
  TROUPE_REQUIRE_OK(future.get());
}

struct Wrong {
  const char* what;
  std::function<void(KernelContext&)> set;
};
const std::vector<Wrong>& Wrongs() {
  static const std::vector<Wrong> wrongs = {
      {"the kernel did not set output 0", [](KernelContext&) {}},
      {"the kernel set output 0 to int64 [], but the node's output is float32",
       [](KernelContext& c) { c.set_output(0, Tensor::Scalar<int64_t>(1)); }},
      {"the kernel set output 0 to float32 [2], but the node's output has shape []",
       [](KernelContext& c) { c.set_output(0, Tensor(DType::kFloat, TensorShape({2}))); }}};
  return wrongs;
}

BOOST_FIXTURE_TEST_CASE(outputs_of_users_kernels_are_checked_in_every_step, Fixture) {
  const Output sync = TestOp(root, "MisSync", x), z = ops::Neg(root, sync),
               async = ops::Neg(root, TestOp(root, "MisAsync", x));
  for (const bool messages : {false, true}) {
    auto session = NewSession(root, {.token_messages = messages});
    for (int step = 0; step < 12; ++step) {
      synchronous = [](KernelContext& c) {
        c.set_output(0, c.TakeInput(0));
        return absl::OkStatus();
      };
      asynchronous = [](KernelContext& ctx, DoneFn done) { Answer(ctx, done); };
      TROUPE_REQUIRE_OK(Run(*session, z, true));
      TROUPE_REQUIRE_OK(Run(*session, async, true));
      for (const Wrong& wrong : Wrongs()) {
        synchronous = [&](KernelContext& c) {
          wrong.set(c);
          return absl::OkStatus();
        };
        absl::Status s = Run(*session, z, step % 2 == 0);
        BOOST_TEST(s.code() == absl::StatusCode::kInternal, s);
        BOOST_TEST(Has(s, Address("MisSync") + wrong.what), s);
        asynchronous = [&](KernelContext& c, DoneFn done) {
          wrong.set(c);
          done(absl::OkStatus());
        };
        s = Run(*session, async, step % 2 == 0);
        BOOST_TEST(Has(s, Address("MisAsync") + wrong.what), s);
      }
    }
  }
}

// In a loop an output without a value would be a dead token, and its absence a branch that was not
// taken.
BOOST_FIXTURE_TEST_CASE(an_output_that_is_not_set_in_a_loop_is_no_dead_token, Fixture) {
  const OutputList loop = While(
      root, {x}, [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 10.0f); },
      [](const Scope& s, const OutputList& v) -> OutputList { return {TestOp(s, "MisSync", v[0])}; },
      {.shape_invariants = {PartialTensorShape()}});
  auto session = NewSession(root);
  for (int step = 0; step < 8; ++step) {
    synchronous = [](KernelContext& c) {
      if (c.input(0).scalar<float>() < 5) c.set_output(0, Tensor::Scalar(c.input(0).scalar<float>() + 1));
      return absl::OkStatus();
    };
    const absl::Status s = Run(*session, loop[0], true);
    BOOST_TEST(Has(s, "the kernel did not set output 0"), s);
  }
}

// Slow kernels that are ready together become jobs.
BOOST_FIXTURE_TEST_CASE(outputs_of_jobs_are_checked_and_what_they_throw_is_theirs, Fixture) {
  std::vector<Output> slow;
  for (int i = 0; i < 4; ++i) slow.push_back(TestOp(root, "MisSync", x, StrCat("slow", i)));
  const Output sum = ops::AddN(root, slow);
  SessionOptions options;
  options.runtime_options.threads = 3;
  auto session = NewSession(root, options);
  const auto sleep = [] { std::this_thread::sleep_for(1ms); };
  for (int step = 0; step < 6; ++step) {
    synchronous = [&](KernelContext& c) {
      sleep();
      c.set_output(0, c.TakeInput(0));
      return absl::OkStatus();
    };
    TROUPE_REQUIRE_OK(Run(*session, sum, true));
    BOOST_TEST(outputs.at(0).scalar<float>() == 4.0f);
    for (const Wrong& wrong : Wrongs()) {
      synchronous = [&](KernelContext& c) {
        sleep();
        wrong.set(c);
        return absl::OkStatus();
      };
      const absl::Status s = Run(*session, sum, step % 2 == 0);
      BOOST_TEST(Has(s, "node 'slow"), s);
      BOOST_TEST(Has(s, wrong.what), s);
    }
    synchronous = [&](KernelContext&) -> absl::Status {
      sleep();
      throw std::runtime_error("boom");
    };
    const absl::Status s = Run(*session, sum, step % 2 == 0);
    BOOST_TEST(Has(s, "the kernel threw an exception: boom"), s);
  }
}

BOOST_FIXTURE_TEST_CASE(the_librarys_outputs_are_checked_in_first_steps_and_on_demand, Fixture) {
  const Output y = TestOp(root, "MisLibrary", x);
  for (const bool check : {false, true}) {
    auto session = NewSession(root, {.check_kernels = check});
    const auto run = [&](bool right) {
      synchronous = [right](KernelContext& c) {
        c.set_output(0, right ? Tensor::Scalar(1.0f) : Tensor::Scalar<int64_t>(1));
        return absl::OkStatus();
      };
      return Run(*session, y, true);
    };
    BOOST_TEST(!run(false).ok());
    // A step gets executors that have run before unless those are not back yet.
    bool passed = false;
    for (int round = 0; round < 20 && !passed; ++round) {
      for (int i = 0; i < 3; ++i) BOOST_TEST(run(true).ok());
      passed = run(false).ok();
    }
    BOOST_TEST(passed == !check);
  }
}

// Constant folding asks the same kernels. What fails there fails where it is run, in the step.
BOOST_FIXTURE_TEST_CASE(kernels_that_are_folded_are_checked_too, Fixture) {
  const Output c = ops::Const(root, 2.0f), y = TestOp(root, "MisPure", c);
  for (const Wrong& wrong : Wrongs()) {
    auto session = NewSession(root);
    synchronous = [&](KernelContext& k) {
      wrong.set(k);
      return absl::OkStatus();
    };
    feeds.clear();
    const absl::Status s = Run(*session, y, true);
    BOOST_TEST(s.code() == absl::StatusCode::kInternal, s);
    BOOST_TEST(Has(s, Address("MisPure")), s);
    BOOST_TEST(Has(s, wrong.what), s);
  }
  synchronous = [](KernelContext&) -> absl::Status { throw std::runtime_error("boom"); };
  auto session = NewSession(root);
  const absl::Status s = Run(*session, y, true);
  BOOST_TEST(Has(s, Address("MisPure") + "the kernel threw an exception: boom"), s);
  synchronous = [](KernelContext& k) {
    k.set_output(0, k.TakeInput(0));
    return absl::OkStatus();
  };
  TROUPE_REQUIRE_OK(Run(*session, y, true));
}

// The same contract where one node is run alone.
BOOST_AUTO_TEST_CASE(kernels_that_are_evaluated_alone_are_checked_too) {
  const std::vector<std::pair<const char*, std::function<void(KernelContext&, DoneFn)>>> ways = {
      {"threw an exception: boom", [](KernelContext&, DoneFn) { throw std::runtime_error("boom"); }},
      {"forgot to answer", [](KernelContext&, DoneFn) {}},
      {"forgot to answer", [](KernelContext&, DoneFn done) { std::thread([done = std::move(done)] {}).detach(); }},
      {"did not set output 0", [](KernelContext&, DoneFn done) { done(absl::OkStatus()); }},
      {"did not set output 0", [](KernelContext&, DoneFn done) {
         done(absl::OkStatus());
         done(absl::InternalError("too late"));
       }}};
  for (const auto& [what, way] : ways) {
    asynchronous = way;
    const auto out = EvaluateOp("MisAsyncPure", {Tensor::Scalar(1.0f)});
    BOOST_TEST(Has(out.status(), what), out.status());
  }
  for (const Wrong& wrong : Wrongs()) {
    if (std::string(wrong.what).find("shape") != std::string::npos) continue;  // of one node alone no shapes are known
    synchronous = [&](KernelContext& k) {
      wrong.set(k);
      return absl::OkStatus();
    };
    const auto out = EvaluateOp("MisPure", {Tensor::Scalar(1.0f)});
    BOOST_TEST(Has(out.status(), wrong.what), out.status());
  }
}

}  // namespace misbehaved_kernels_test
}  // namespace troupe
