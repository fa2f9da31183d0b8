// Short steps of several processes run in the network's threads (net/network_loop.h,
// actors/threads/loop_turns.h), and nothing else does.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>

#include "actors/threads/loop_turns.h"
#include "net/network_loop.h"
#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/op_def.h"
#include "troupe/ops.h"
#include "troupe/server.h"
#include "troupe/shape_inference.h"
#include "troupe/variable.h"

namespace troupe {
namespace network_loop_test {

using namespace std::chrono_literals;

// A server of a variable and who uses it, each with an actor system, and so a network thread, of
// its own.
struct Two {
  Two() {
    const std::string cluster = LocalCluster(1);
    for (const char* job : {"ps", "worker"}) {
      ServerOptions o;
      o.spec = {ClusterSpec::FromFlags(cluster).value(), {job, 0}};
      o.heartbeat = HeartbeatPolicy::Of(10s);
      o.runtime.threads = 1;
      (job[0] == 'p' ? ps : worker) = Server::Start(o).value();
    }
    TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
    const Scope there = root.WithDevice("/job:ps/task:0"), here = root.WithDevice("/job:worker/task:0");
    const Output x = ops::Placeholder(here.WithOpName("x"), DType::kFloat);
    v = Variable(there.WithOpName("v"), 0.0f);
    // On both sides of the other's part.
    const Output one = ops::Max(here, ops::Exp(here, x), Tensor::Vector<int32_t>({0}));
    step = v.AssignAdd(there, ops::Add(here, ops::Mul(here, ops::Identity(here, v), 0.0f), one)).name();
    const std::string init = GlobalVariablesInitializer(root).name();
    TROUPE_REQUIRE_OK(root.status());
    SessionOptions o;
    o.runtime = worker->runtime();
    session = NewSession(root, o);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  }
  // `n` numbers are fed.
  absl::Status Step(int64_t n) { return session->Run({{"x", Zeros(n)}}, {}, {step}, nullptr); }
  static Tensor Zeros(int64_t n) {
    Tensor t(DType::kFloat, TensorShape({n}));
    std::fill_n(t.data<float>(), n, 0.0f);
    return t;
  }
  // Turns that network threads took in some steps: of each, six of workers and of the server's
  // executor, and one of the other executor, if it is short. One that others kept waiting counts as
  // long: the next step is measured anew, elsewhere.
  uint64_t TurnsOf(int steps, int64_t n) {
    const uint64_t before = LoopTurns::TurnsOfAll();
    for (int i = 0; i < steps; ++i) TROUPE_REQUIRE_OK(Step(n));
    return LoopTurns::TurnsOfAll() - before;
  }
  std::unique_ptr<Server> ps, worker;
  Scope root = Scope::NewRootScope();
  Variable v;
  std::string step;
  std::unique_ptr<Session> session;
};

// Heartbeats that may be noted meanwhile.
constexpr uint64_t kBeats = 6;

// On a busy machine a short turn may take long, and the next 64 steps are not for the loop, or none
// of the session's any more: so each try has servers of its own.
template <class F>
bool Sometimes(F&& f) {
  for (int i = 0; i < 20; ++i) {
    if (f()) return true;
  }
  return false;
}

// Ops of a program: what it keeps on a device, and a kernel that ends when it is told to.
std::atomic<int> things_that_went{0}, things_that_went_on_a_network_thread{0};
class Thing : public Resource {
 public:
  ~Thing() override {
    things_that_went_on_a_network_thread += LoopTurns::Messages() > 0;
    ++things_that_went;
  }
  std::string DebugString() const override { return "thing"; }
};
TROUPE_OP("LoopTestKeep")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("of a test")
    .Doc("Keeps a thing on its device.");
class KeepKernel {
 public:
  explicit KeepKernel(KernelInit& init) : key_(init.ResourceKey(true)) {}
  absl::Status Compute(KernelContext& ctx) {
    const auto make = [] { return std::make_shared<Thing>(); };
    TROUPE_RETURN_IF_ERROR(ctx.device()->containers()->LookUpOrCreate<Thing>(key_.first, key_.second, make).status());
    ctx.set_output(0, ctx.input(0));
    return absl::OkStatus();
  }

 private:
  const std::pair<std::string, std::string> key_;
};
TROUPE_KERNEL("LoopTestKeep").Device("CPU").Class<KeepKernel>();

TROUPE_OP("LoopTestUntilTold")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("of a test")
    .Doc("Runs until its step is told to end, ten seconds at most.");
std::atomic<bool> has_begun{false}, was_told{false};
absl::Status UntilTold(KernelContext& ctx) {
  const auto end = std::chrono::steady_clock::now() + 10s;
  has_begun = true;
  while (!ctx.cancelled() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  was_told = ctx.cancelled();
  ctx.set_output(0, ctx.input(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("LoopTestUntilTold").Device("CPU").Function<UntilTold>();

TROUPE_OP("LoopTestWhenThatRuns")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("of a test")
    .Doc("Waits until a LoopTestUntilTold has begun.");
absl::Status WhenThatRuns(KernelContext& ctx) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!has_begun && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  ctx.set_output(0, ctx.input(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("LoopTestWhenThatRuns").Device("CPU").Function<WhenThatRuns>();

BOOST_AUTO_TEST_SUITE(network_loop)

BOOST_AUTO_TEST_CASE(a_short_step_runs_where_its_messages_come) {
  BOOST_TEST(Sometimes([] {
    Two two;
    for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(1));
    const uint64_t turns = two.TurnsOf(100, 1);
    BOOST_TEST(turns <= 700u + kBeats);
    const absl::StatusOr<Tensor> steps = two.session->Get(two.v);
    TROUPE_REQUIRE_OK(steps.status());
    BOOST_TEST(steps->scalar<float>() == 105.0f);
    return turns > 450u;
  }));
}

BOOST_AUTO_TEST_CASE(a_step_that_takes_longer_keeps_no_network_thread) {
  constexpr int64_t kLong = 4'000'000;
  BOOST_TEST(Sometimes([] {
    Two two;
    for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(kLong));
    BOOST_TEST(two.TurnsOf(20, kLong) <= 20u * 6 + kBeats);
    // Known to be short with small feeds, it is not with large ones.
    for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(1));
    const bool short_ones = two.TurnsOf(100, 1) > 450u;
    BOOST_TEST(two.TurnsOf(20, kLong) <= 20u * 6 + kBeats);
    return short_ones;
  }));
}

BOOST_AUTO_TEST_CASE(the_programs_callbacks_are_called_by_other_threads) {
  Two two;
  for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(1));
  for (int i = 0; i < 20; ++i) {
    std::promise<uint64_t> messages;
    two.session->RunAsync({}, {{"x", Two::Zeros(1)}}, {}, {two.step},
                          [&](const absl::Status& s, const std::vector<Tensor>&) {
                            BOOST_TEST(s.ok(), s);
                            messages.set_value(LoopTurns::Messages());
                          });
    // It handles none: it is no thread of the network's.
    BOOST_TEST(messages.get_future().get() == 0u);
  }
}

// A session of its own on the same two servers.
struct Other {
  explicit Other(const Two& two) { options.runtime = two.worker->runtime(); }
  void Open() {
    TROUPE_REQUIRE_OK(root.status());
    session = NewSession(root, options);
  }
  Scope root = Scope::NewRootScope();
  const Scope there = root.WithDevice("/job:ps/task:0"), here = root.WithDevice("/job:worker/task:0");
  SessionOptions options;
  std::unique_ptr<Session> session;
};

// The cost of what ps does comes with what it is sent, of which its feeds say nothing.
BOOST_AUTO_TEST_CASE(a_bigger_tensor_of_another_process_is_for_the_compute_threads) {
  BOOST_TEST(Sometimes([] {
    Two two;
    Other other(two);
    const Output x = ops::Placeholder(other.here.WithOpName("x"), DType::kFloat);
    const Output y = ops::Identity(other.here, ops::Neg(other.here, x));
    ops::Sum(other.there.WithOpName("sum"), ops::MatMul(other.there, y, y), Tensor::Vector<int32_t>({0, 1}));
    other.Open();
    const auto turns_of = [&](int steps, int64_t n) {
      Tensor t(DType::kFloat, TensorShape({n, n}));
      std::fill_n(t.data<float>(), n * n, 1.0f);
      const uint64_t before = LoopTurns::TurnsOfAll();
      for (int i = 0; i < steps; ++i) {
        std::vector<Tensor> sum;
        TROUPE_REQUIRE_OK(other.session->Run({{"x", t}}, {"sum"}, {}, &sum));
        BOOST_TEST(sum.at(0).scalar<float>() == static_cast<float>(n * n * n));
      }
      return LoopTurns::TurnsOfAll() - before;
    };
    turns_of(5, 4);
    // Of each step three of workers; and the executor there begins, and hears of the tensor. The
    // big ones take some 300 us there.
    const bool short_ones = turns_of(100, 4) > 350u;
    for (int i = 0; i < 3; ++i) {
      BOOST_TEST(turns_of(10, 250) <= 10u * 4 + kBeats);
      turns_of(5, 4);
    }
    return short_ones;
  }));
}

// All compute threads have kernels that run: the news reaches them all the same.
BOOST_AUTO_TEST_CASE(a_failure_elsewhere_ends_a_kernel_that_has_the_only_compute_thread) {
  Two two;
  Other other(two);
  const Output x = ops::Placeholder(other.there.WithOpName("x"), DType::kFloat);
  const absl::StatusOr<Node*> runs = NodeBuilder(other.root.graph(), "runs", "LoopTestWhenThatRuns")
                                         .Input(x.node(), 0)
                                         .Device("/job:ps/task:0")
                                         .Build();
  TROUPE_REQUIRE_OK(runs.status());
  ops::CheckNumerics(other.there.WithOpName("bad"), Output({*runs, 0}), "it is not finite");
  const Output z = ops::Placeholder(other.here.WithOpName("z"), DType::kFloat);
  TROUPE_REQUIRE_OK(NodeBuilder(other.root.graph(), "until", "LoopTestUntilTold")
                        .Input(z.node(), 0)
                        .Device("/job:worker/task:0")
                        .Build()
                        .status());
  other.Open();
  for (int i = 0; i < 3; ++i) {
    has_begun = was_told = false;
    std::vector<Tensor> out;
    const absl::Status s = other.session->Run({{"x", Tensor::Scalar(std::nanf(""))}, {"z", Tensor::Scalar(1.0f)}},
                                              {"bad", "until"}, {}, &out);
    BOOST_TEST(absl::IsInvalidArgument(s), s);
    BOOST_TEST(Await([] { return was_told.load(); }));
  }
}

BOOST_AUTO_TEST_CASE(who_hears_of_a_stall_hears_it_from_another_thread) {
  Two two;
  Other other(two);
  const Output q = ops::FIFOQueueV2(other.there.WithOpName("q"), {DType::kFloat});
  ops::QueueEnqueueV2(other.there.WithOpName("put"), q, {ops::Const(other.there, 1.0f)});
  const Output got = ops::QueueDequeueV2(other.there.WithOpName("got"), q, {DType::kFloat})[0];
  ops::Neg(other.here.WithOpName("taken"), got);
  std::atomic<int> calls{0}, on_a_network_thread{0};
  other.options.stall_report_ms = 50;
  other.options.on_stall = [&](const std::string&) {
    on_a_network_thread += LoopTurns::Messages() > 0;
    ++calls;
  };
  other.Open();
  std::vector<Tensor> out;
  for (int i = 0; i < 11; ++i) TROUPE_REQUIRE_OK(other.session->Run({}, {}, {"put"}, nullptr));
  for (int i = 0; i < 11; ++i) TROUPE_REQUIRE_OK(other.session->Run({}, {"taken"}, {}, &out));
  auto waits = std::async(std::launch::async, [&] {
    std::vector<Tensor> last;
    return other.session->Run({}, {"taken"}, {}, &last);
  });
  BOOST_TEST(Await([&] { return calls >= 2; }));
  TROUPE_REQUIRE_OK(other.session->Run({}, {}, {"put"}, nullptr));
  TROUPE_REQUIRE_OK(waits.get());
  BOOST_TEST(on_a_network_thread == 0);
}

BOOST_AUTO_TEST_CASE(what_the_program_keeps_is_destroyed_by_another_thread) {
  Two two;
  for (int i = 1; i <= 3; ++i) {
    Other other(two);
    const Output x = ops::Placeholder(other.here.WithOpName("x"), DType::kFloat);
    const Output there = ops::Identity(other.there, x);
    TROUPE_REQUIRE_OK(NodeBuilder(other.root.graph(), "keep", "LoopTestKeep")
                          .Input(there.node(), 0)
                          .Device("/job:ps/task:0")
                          .Build()
                          .status());
    other.Open();
    for (int k = 0; k < 3; ++k)
      TROUPE_REQUIRE_OK(other.session->Run({{"x", Tensor::Scalar(1.0f)}}, {}, {"keep"}, nullptr));
    other.session = nullptr;
    BOOST_TEST(Await([&] { return things_that_went == i; }));
  }
  BOOST_TEST(things_that_went_on_a_network_thread == 0);
}

// A variable that is fetched is copied for whoever fetched it.
BOOST_AUTO_TEST_CASE(a_big_result_is_right_however_the_step_ends) {
  Two two;
  Other other(two);
  const Output one = ops::Fill(other.here, Tensor::Vector<int32_t>({200'000}), 1.0f);
  const Variable v(other.here.WithOpName("v"), one), w(other.there.WithOpName("w"), 2.0f);
  const std::string init = GlobalVariablesInitializer(other.root).name();
  ops::Identity(other.here.WithOpName("big"), v);
  ops::Neg(other.here.WithOpName("small"), ops::Identity(other.there, w));
  other.Open();
  TROUPE_REQUIRE_OK(other.session->Run({}, {}, {init}, nullptr));
  for (int i = 0; i < 20; ++i) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(other.session->Run({}, {"big", "small"}, {}, &out));
    BOOST_TEST(out.at(0).num_elements() == 200'000);
    BOOST_TEST(out.at(0).BufferUnique());
    BOOST_TEST(out.at(0).data<float>()[199'999] == 1.0f);
    out.at(0).data<float>()[199'999] = 0;  // the caller's own
    BOOST_TEST(out.at(1).scalar<float>() == -2.0f);
  }
}

BOOST_AUTO_TEST_CASE(looking_for_messages_stops_when_they_come_late) {
  LookScore score;
  BOOST_TEST(score.Pays());
  for (int i = 0; i < 8; ++i) score.Saw(6ms);
  int looks = 0;
  for (int i = 0; i < 640; ++i) looks += score.Pays();
  BOOST_TEST(looks == 10);
  // Two sides that sleep wake each other in less than this.
  score.Saw(200us);
  BOOST_TEST(score.Pays());
  // Where one of three comes late it does not pay.
  for (int i = 0; i < 90; ++i) score.Saw(i % 3 == 2 ? 6ms : std::chrono::nanoseconds(30us));
  BOOST_TEST(!score.Pays());
  for (int i = 0; i < 90; ++i) score.Saw(i % 5 == 0 ? 6ms : std::chrono::nanoseconds(30us));
  BOOST_TEST(score.Pays());
  score.Busy();
  looks = 0;
  for (int i = 0; i < 64; ++i) looks += score.Pays();
  BOOST_TEST(looks == 1);
  BOOST_TEST(score.Pays());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace network_loop_test
}  // namespace troupe
