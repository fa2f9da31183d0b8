// Who starts a short asynchronous step lends it the thread: where `done` is called, what is handed
// on, and that nothing else differs from a step under the scheduler.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/troupe.h"

namespace troupe {
namespace lending_test {

using namespace std::chrono_literals;

constexpr int64_t kAlways = 1'000'000'000;  // any step is short

// Passes x on; when it is negative, not before OpenGates.
TROUPE_OP("LendGate").Input("x: float").Output("y: float").Stateful().NotDifferentiable("it waits").Doc("Waits.");
std::mutex gates_mu;
std::vector<std::function<void()>> gates;
class Gate {
 public:
  explicit Gate(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    auto pass = [&ctx, done] {
      ctx.set_output(0, ctx.input(0));
      done(absl::OkStatus());
    };
    if (*ctx.input(0).data<float>() >= 0) return pass();
    std::lock_guard<std::mutex> lock(gates_mu);
    gates.push_back(pass);
  }
};
// They vouch for themselves, as the library's do: threads are not lent to kernels of which nothing
// is known.
const KernelRegistrar gate = KernelBuilder("LendGate", KernelOrigin::kLibrary).Device("CPU").Class<Gate>();
size_t OpenGates() {
  std::vector<std::function<void()>> open;
  {
    std::lock_guard<std::mutex> lock(gates_mu);
    open.swap(gates);
  }
  for (const auto& g : open) g();
  return open.size();
}

// Passes x on; when it is negative, waits for the step's end.
TROUPE_OP("LendNever").Input("x: float").Output("y: float").Stateful().NotDifferentiable("it waits").Doc("Waits.");
class NeverIfNegative {
 public:
  explicit NeverIfNegative(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    if (*ctx.input(0).data<float>() < 0) {
      ctx.step()->cancellations.Register([done] { done(absl::CancelledError("the step ended")); });
      return;
    }
    ctx.set_output(0, ctx.input(0));
    done(absl::OkStatus());
  }
};
const KernelRegistrar never = KernelBuilder("LendNever", KernelOrigin::kLibrary).Device("CPU").Class<NeverIfNegative>();

Output TestOp(const Scope& root, const char* op, const Output& x) {
  auto n = NodeBuilder(root.graph(), op, op).Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

// What `done` was told, and where.
struct Answer {
  absl::Status status;
  std::vector<Tensor> outputs;
  std::thread::id thread;
  bool before_return = false;
};

Answer RunAsyncAndWait(const Callable& step, std::vector<Tensor> feeds, const RunOptions& options = {},
                       proto::RunMetadata* metadata = nullptr, const std::function<void()>& returned = nullptr) {
  std::promise<void> called;
  Answer a;
  std::atomic<bool> back{false};
  step.RunAsync(
      options, feeds,
      [&](absl::Status s, std::vector<Tensor> out) {
        a = {std::move(s), std::move(out), std::this_thread::get_id(), !back};
        called.set_value();
      },
      metadata);
  back = true;
  if (returned) returned();
  BOOST_REQUIRE(called.get_future().wait_for(60s) == std::future_status::ready);
  return a;
}

// Runs the step until the starter did it: its set of executors may still be busy with the end of a
// step that the scheduler had.
void RunUntilLent(const Callable& step, const std::vector<Tensor>& feeds) {
  for (int i = 0; i < 10000; ++i) {
    const Answer a = RunAsyncAndWait(step, feeds);
    TROUPE_REQUIRE_OK(a.status);
    if (a.before_return && a.thread == std::this_thread::get_id()) return;
  }
  BOOST_FAIL("no step was lent");
}

Callable Prepare(Session& session, const Names& feeds, const Names& fetches) {
  auto c = session.Prepare(feeds, fetches, {});
  BOOST_REQUIRE_MESSAGE(c.ok(), c.status());
  return *c;
}

struct Fixture {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), twice = ops::Add(root.WithOpName("twice"), x, x);
  Output gate = TestOp(root, "LendGate", x), behind_gate = ops::Neg(root.WithOpName("behind_gate"), gate);
  Output never = TestOp(root, "LendNever", x);
  std::unique_ptr<Session> session;

  Session& Start(int64_t lend_us, int threads = 2, int devices = 1) {
    SessionOptions options;
    options.runtime_options = {.threads = threads, .cpu_devices = devices};
    options.lend_thread_us = lend_us;
    session = NewSession(root, options);
    return *session;
  }
  static std::vector<Tensor> X(float value) { return {Tensor::Scalar(value)}; }
};

BOOST_FIXTURE_TEST_CASE(after_the_first_step_the_starter_does_the_work, Fixture) {
  const Callable step = Prepare(Start(kAlways), {"x"}, {"twice"});
  BOOST_TEST((RunAsyncAndWait(step, X(1)).thread != std::this_thread::get_id()));
  RunUntilLent(step, X(1));
  for (int i = 0; i < 50; ++i) {
    const Answer a = RunAsyncAndWait(step, X(static_cast<float>(i)));
    TROUPE_REQUIRE_OK(a.status);
    BOOST_TEST(a.outputs.at(0).scalar<float>() == 2.0f * static_cast<float>(i));
    BOOST_TEST((a.thread == std::this_thread::get_id()));
    BOOST_TEST(a.before_return);
  }
  // By name, too.
  std::thread::id thread;
  session->RunAsync({{"x", Tensor::Scalar(1.0f)}}, {"twice"}, {},
                    [&](absl::Status, std::vector<Tensor>) { thread = std::this_thread::get_id(); });
  BOOST_TEST((thread == std::this_thread::get_id()));
}

BOOST_FIXTURE_TEST_CASE(without_lending_done_is_never_called_by_the_starter, Fixture) {
  const Callable step = Prepare(Start(0), {"x"}, {"twice"});
  for (int i = 0; i < 50; ++i) {
    const Answer a = RunAsyncAndWait(step, X(1));
    TROUPE_REQUIRE_OK(a.status);
    BOOST_TEST((a.thread != std::this_thread::get_id()));
  }
}

BOOST_FIXTURE_TEST_CASE(a_step_that_waits_goes_on_elsewhere, Fixture) {
  const Callable step = Prepare(Start(kAlways), {"x"}, {"behind_gate"});
  for (int i = 0; i < 30; ++i) {
    RunUntilLent(step, X(1));
    size_t opened = 0;
    const Answer a = RunAsyncAndWait(step, X(-3), {}, nullptr, [&] { opened = OpenGates(); });
    BOOST_TEST(opened == 1);  // RunAsync came back while the kernel waited
    TROUPE_REQUIRE_OK(a.status);
    BOOST_TEST(!a.before_return);
    BOOST_TEST(a.outputs.at(0).scalar<float>() == 3.0f);
  }
}

BOOST_FIXTURE_TEST_CASE(a_long_step_is_not_lent_and_one_that_turns_out_long_is_handed_on, Fixture) {
  const Output n = ops::Placeholder(root.WithOpName("n"), DType::kInt32);
  const auto loop = While(
      root, {ops::Const(root, 0)}, [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n); },
      [](const Scope& s, const OutputList& v) { return OutputList{ops::Add(s, v[0], 1)}; });
  const Callable step = Prepare(Start(20), {"n"}, {loop[0].name()});
  const auto run = [&](int32_t trips) {
    const Answer a = RunAsyncAndWait(step, {Tensor::Scalar<int32_t>(trips)});
    TROUPE_REQUIRE_OK(a.status);
    BOOST_TEST(a.outputs.at(0).scalar<int32_t>() == trips);
    return a;
  };
  for (int i = 0; i < 20; ++i) BOOST_TEST((run(50000).thread != std::this_thread::get_id()));
  // Steps that were short until now: RunAsync is back long before this one ends.
  const Callable other = Prepare(Start(1000), {"n"}, {loop[0].name()});
  RunUntilLent(other, {Tensor::Scalar<int32_t>(1)});
  const Answer a = RunAsyncAndWait(other, {Tensor::Scalar<int32_t>(300000)});
  TROUPE_REQUIRE_OK(a.status);
  BOOST_TEST((a.thread != std::this_thread::get_id()));
  BOOST_TEST(a.outputs.at(0).scalar<int32_t>() == 300000);
}

// Each step is started by the end of the one before.
struct Chain {
  Callable step;
  int64_t left;
  std::promise<float> over;
  float sum = 0;
  uintptr_t lowest = UINTPTR_MAX, highest = 0;  // places on the stacks where `done` ran
  std::thread::id thread;
  std::atomic<bool> stop{false};
  void Go() {
    step.RunAsync(Fixture::X(1), [this](absl::Status s, std::vector<Tensor> out) {
      // Not a local's address: AddressSanitizer keeps locals elsewhere.
      const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
      if (thread == std::this_thread::get_id()) {
        lowest = std::min(lowest, here);
        highest = std::max(highest, here);
      }
      if (s.ok()) sum += out.at(0).scalar<float>();
      if (--left > 0 && s.ok() && !stop) return Go();
      over.set_value(sum);
    });
  }
};

BOOST_FIXTURE_TEST_CASE(a_hundred_thousand_steps_in_a_chain_do_not_grow_the_stack, Fixture) {
  for (const int64_t lend_us : {int64_t{0}, int64_t{20}, kAlways}) {
    Chain chain{.step = Prepare(Start(lend_us), {"x"}, {"twice"}),
                .left = 100000,
                .over = {},
                .thread = std::this_thread::get_id()};
    if (lend_us == kAlways) RunUntilLent(chain.step, X(1));
    chain.Go();
    auto over = chain.over.get_future();
    BOOST_REQUIRE(over.wait_for(120s) == std::future_status::ready);
    BOOST_TEST(over.get() == 200000.0f);
    if (chain.highest != 0) BOOST_TEST(chain.highest - chain.lowest < 16 * 1024u);
    if (lend_us == kAlways) BOOST_TEST(chain.highest != 0u);
  }
}

BOOST_FIXTURE_TEST_CASE(an_endless_chain_gives_the_thread_back, Fixture) {
  Chain chain{.step = Prepare(Start(20), {"x"}, {"twice"}),
              .left = INT64_MAX,
              .over = {},
              .thread = std::this_thread::get_id()};
  for (int i = 0; i < 40; ++i) TROUPE_REQUIRE_OK(RunAsyncAndWait(chain.step, X(1)).status);
  for (int i = 0; i < 20; ++i) {
    chain.stop = false;
    chain.over = {};
    chain.Go();  // comes back
    chain.stop = true;
    BOOST_REQUIRE(chain.over.get_future().wait_for(60s) == std::future_status::ready);
  }
}

BOOST_FIXTURE_TEST_CASE(what_a_run_takes_a_lent_step_takes_too, Fixture) {
  const Callable step = Prepare(Start(kAlways), {"x"}, {never.name()});
  RunUntilLent(step, X(1));
  Answer a = RunAsyncAndWait(step, X(-1), {.timeout_ms = 30});
  BOOST_TEST(a.status.code() == absl::StatusCode::kDeadlineExceeded, a.status);
  BOOST_TEST(std::string(a.status.message()).find("LendNever") != std::string::npos, a.status);

  CancellationToken token;
  RunUntilLent(step, X(1));
  a = RunAsyncAndWait(step, X(-1), {.cancellation = &token}, nullptr, [&] { token.Cancel(); });
  BOOST_TEST(a.status.code() == absl::StatusCode::kCancelled, a.status);
  RunUntilLent(step, X(1));
  a = RunAsyncAndWait(step, X(1), {.cancellation = &token});  // cancelled already
  BOOST_TEST(a.status.code() == absl::StatusCode::kCancelled, a.status);
  BOOST_TEST(a.before_return);

  proto::RunMetadata metadata;
  a = RunAsyncAndWait(step, X(1), {.collect_stats = true}, &metadata);
  TROUPE_REQUIRE_OK(a.status);
  BOOST_TEST(a.before_return);
  BOOST_TEST(metadata.step_stats().dev_stats_size() == 1);

  a = RunAsyncAndWait(step, {Tensor::Scalar<int32_t>(1)});
  BOOST_TEST(a.status.code() == absl::StatusCode::kInvalidArgument, a.status);

  std::promise<absl::Status> closed;
  step.RunAsync(X(-1), [&](absl::Status s, std::vector<Tensor>) { closed.set_value(std::move(s)); });
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST((closed.get_future().get().code() == absl::StatusCode::kCancelled));
}

BOOST_FIXTURE_TEST_CASE(a_kernels_error_ends_a_lent_step_on_both_devices, Fixture) {
  const Output there = ops::Neg(root.WithOpName("there").WithDevice("/device:CPU:1"), twice);
  const Output reshaped =
      ops::Reshape(root.WithOpName("bad").WithDevice("/device:CPU:1"), there, ops::Const(root, {-1, 2}));
  Session& s = Start(kAlways, 2, 2);
  const Callable step = Prepare(s, {"x"}, {"bad"}), good = Prepare(s, {"x"}, {"there"});
  // The biggest feeds first: a thread is lent to steps whose feeds are not bigger than before.
  RunUntilLent(step, {Tensor::Of<float>({1, 2, 3, 4}, TensorShape({4}))});
  const Tensor pair = Tensor::Of<float>({1, 2}, TensorShape({2})), odd = Tensor::Of<float>({1, 2, 3}, TensorShape({3}));
  for (int i = 0; i < 20; ++i) {
    Answer a = RunAsyncAndWait(step, {pair});
    TROUPE_REQUIRE_OK(a.status);
    BOOST_TEST(a.outputs.at(0).DebugString() == "float32 [1,2] [-2 -4]");
    BOOST_TEST(a.before_return);
    a = RunAsyncAndWait(step, {odd});
    BOOST_TEST(a.before_return);
    BOOST_TEST(a.status.code() == absl::StatusCode::kInvalidArgument, a.status);
    BOOST_TEST(std::string(a.status.message()).find("node 'bad'") != std::string::npos, a.status);
    a = RunAsyncAndWait(good, {odd});
    TROUPE_REQUIRE_OK(a.status);
    BOOST_TEST(a.outputs.at(0).DebugString() == "float32 [3] [-2 -4 -6]");
  }
}

// A user's actor: a number starts a step of each kind, whose ends are messages to the actor; when
// all have come, it says how many were wrong.
struct Driver {
  std::vector<Callable> steps;
  std::vector<std::vector<Tensor>> feeds;
  std::vector<double> sums;  // of the fetch, as they should be
  Session* session = nullptr;
  int64_t left = 0, wrong = 0, refused = 0;
  std::promise<int64_t>* answer = nullptr;
};
// With an argument: CAF 0.17 binds a reference to those that are not there, which UBSan minds.
caf::behavior Drive(caf::stateful_actor<Driver>* self, int) {
  const auto start = [self](size_t k) {
    self->state.steps[k].RunAsync(self->state.feeds[k],
                                  [me = caf::actor_cast<caf::actor>(self), k](absl::Status s, std::vector<Tensor> out) {
                                    double value = 0;
                                    for (const Tensor& t : out) {
                                      for (const float v : t.flat<float>()) value += v;
                                    }
                                    caf::anon_send(me, static_cast<int64_t>(k), s.ok(), value);
                                  });
  };
  return {
      [self, start](int64_t rounds) {
        Driver& d = self->state;
        d.left = rounds * static_cast<int64_t>(d.steps.size());
        // A handler must not wait for a step, whatever its thread has been lent to.
        std::vector<Tensor> out;
        d.refused += d.steps[0].Run(d.feeds[0], &out).code() == absl::StatusCode::kFailedPrecondition;
        for (size_t k = 0; k < d.steps.size(); ++k) start(k);
      },
      [self, start](int64_t k, bool ok, double value) {
        Driver& d = self->state;
        d.wrong += !ok || value != d.sums[static_cast<size_t>(k)];
        if (--d.left == 0) return d.answer->set_value(d.wrong);
        if (d.left >= static_cast<int64_t>(d.steps.size())) start(static_cast<size_t>(k));
      },
  };
}

BOOST_FIXTURE_TEST_CASE(an_actors_steps_of_all_kinds, Fixture) {
  const Output there = ops::Neg(root.WithOpName("there").WithDevice("/device:CPU:1"), twice);  // two parts
  const Output m = ops::Placeholder(root.WithOpName("m"), DType::kFloat);
  const Output left = ops::MatMul(root, m, m), right = ops::MatMul(root, ops::Neg(root, m), m);  // two heavy kernels
  const Output product = ops::Sub(root.WithOpName("product"), left, right);
  for (const int64_t lend_us : {int64_t{0}, int64_t{20}, kAlways}) {
    caf::actor_system_config config;
    caf::actor_system system(config);
    SessionOptions options;
    options.runtime = StartRuntimeIn(system, {.threads = 2, .cpu_devices = 2}).value();
    options.lend_thread_us = lend_us;
    session = NewSession(root, options);
    std::promise<int64_t> answer;
    const caf::actor driver = system.spawn(Drive, 0);
    auto* self = caf::actor_cast<caf::stateful_actor<Driver>*>(caf::actor_cast<caf::abstract_actor*>(driver));
    Driver& d = self->state;
    Tensor ones(DType::kFloat, TensorShape({192, 192}));
    for (float& v : ones.flat<float>()) v = 1;
    d.steps = {Prepare(*session, {"x"}, {"twice"}), Prepare(*session, {"x"}, {"there"}),
               Prepare(*session, {"x"}, {"behind_gate"}), Prepare(*session, {"m"}, {"product"})};
    d.feeds = {X(1), X(1), X(-1), {ones}};
    d.sums = {2, -2, 1, 2.0 * 192 * 192 * 192};
    d.answer = &answer;
    caf::anon_send(driver, int64_t{60});
    auto over = answer.get_future();
    for (int i = 0; i < 60000 && over.wait_for(1ms) != std::future_status::ready; ++i) OpenGates();
    BOOST_REQUIRE(over.wait_for(0s) == std::future_status::ready);
    BOOST_TEST(over.get() == 0);
    BOOST_TEST(d.refused == 1);
    caf::anon_send_exit(driver, caf::exit_reason::user_shutdown);
    session = nullptr;
    options.runtime = nullptr;
  }
}

// The message to the session's actor has the same end, lent or not.
BOOST_FIXTURE_TEST_CASE(a_run_message_is_answered_for_lent_steps, Fixture) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  SessionOptions options;
  options.runtime = StartRuntimeIn(system, {.threads = 2}).value();
  session = NewSession(root, options);
  {
    caf::scoped_actor user(system);
    int good = 0;
    for (int i = 0; i < 300; ++i) {
      user->request(ActorOf(*session), 60s,
                    run_request{{{"x", Tensor::Scalar(static_cast<float>(i))}}, {"twice"}, {}, {}})
          .receive(
              [&](const run_reply& r) {
                good += r.status.ok() && r.outputs.at(0).scalar<float>() == 2.0f * static_cast<float>(i);
              },
              [&](const caf::error& e) { BOOST_ERROR(system.render(e)); });
    }
    BOOST_TEST(good == 300);
  }
  session = nullptr;
  options.runtime = nullptr;
}

}  // namespace lending_test
}  // namespace troupe
