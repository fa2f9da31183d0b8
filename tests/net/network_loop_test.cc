// Short steps of several processes run in the network's threads (net/network_loop.h,
// actors/threads/loop_turns.h), and nothing else does.
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include "actors/threads/loop_turns.h"
#include "net/network_loop.h"
#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "troupe/ops.h"
#include "troupe/server.h"
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
      o.heartbeat = HeartbeatPolicy::Of(1000ms);
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

BOOST_AUTO_TEST_SUITE(network_loop)

BOOST_AUTO_TEST_CASE(a_short_step_runs_where_its_messages_come) {
  Two two;
  for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(1));
  const uint64_t all = two.TurnsOf(100, 1);
  BOOST_TEST(all > 450u);
  BOOST_TEST(all <= 700u);
  const absl::StatusOr<Tensor> steps = two.session->Get(two.v);
  TROUPE_REQUIRE_OK(steps.status());
  BOOST_TEST(steps->scalar<float>() == 105.0f);
}

BOOST_AUTO_TEST_CASE(a_step_that_takes_longer_keeps_no_network_thread) {
  Two two;
  constexpr int64_t kLong = 4'000'000;
  for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(kLong));
  BOOST_TEST(two.TurnsOf(20, kLong) <= 20u * 6);
  // Known to be short with small feeds, it is not with large ones.
  for (int i = 0; i < 5; ++i) TROUPE_REQUIRE_OK(two.Step(1));
  BOOST_TEST(two.TurnsOf(100, 1) > 450u);
  BOOST_TEST(two.TurnsOf(20, kLong) <= 20u * 6);
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

BOOST_AUTO_TEST_CASE(looking_for_messages_stops_when_it_does_not_pay) {
  LookScore score;
  BOOST_TEST(score.Pays());
  for (int i = 0; i < 100; ++i) score.Saw(false);
  int looks = 0;
  for (int i = 0; i < 640; ++i) looks += score.Pays();
  BOOST_TEST(looks == 10);
  // One that pays begins it anew.
  score.Saw(true);
  BOOST_TEST(score.Pays());
  for (int i = 0; i < 100; ++i) score.Saw(true);
  score.Busy();
  looks = 0;
  for (int i = 0; i < 64; ++i) looks += score.Pays();
  BOOST_TEST(looks == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace network_loop_test
}  // namespace troupe
