// A call is answered in time, whatever it waits for: a signature that is still being compiled, a kernel that does not return or forgets to call back.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <limits>
#include <thread>

#include "actors/graphs.h"
#include "troupe/actors/call_wait.h"
#include "troupe/graph/ir/node_builder.h"
#include "troupe/kernels/kernel.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What the kernels of this test wait for. They give up after a minute, so that a test that fails ends.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened = promise.get_future().share();
};
std::mutex gate_mu;
std::shared_ptr<Gate> gate = std::make_shared<Gate>();
void WaitAtGate() {
  std::shared_future<void> opened;
  {
    std::lock_guard<std::mutex> lock(gate_mu);
    opened = gate->opened;
  }
  opened.wait_for(60s);
}
void OpenGate() {
  std::lock_guard<std::mutex> lock(gate_mu);
  gate->promise.set_value();
  gate = std::make_shared<Gate>();
}

// An op whose kernel takes its time to be made.
TROUPE_OP("DeadlineSlowMade").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
class SlowMade {
 public:
  explicit SlowMade(KernelInit&) { WaitAtGate(); }
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("DeadlineSlowMade").Device("CPU").Class<SlowMade>();

Output TestOp(const Scope& root, const char* op, const Output& x) {
  auto n = NodeBuilder(root.graph(), op, op).Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

struct Fixture {
  Fixture()
      : x(ops::Placeholder(root.WithOpName("x"), DType::kFloat)), twice(ops::Add(root.WithOpName("twice"), x, x)) {}
  Scope root = Scope::NewRootScope();
  Output x, twice;
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
};

BOOST_AUTO_TEST_CASE(MillisecondsBecomeATimeInOnePlaceAndEndAtForEver) {
  const SteadyTime now = Clock::now();
  BOOST_TEST((TimeAfter(now, 1500) - now == 1500ms));
  BOOST_TEST((TimeAfter(now, std::numeric_limits<int64_t>::max()) == SteadyTime::max()));
  BOOST_TEST((TimeAfter(now, int64_t{9'300'000'000'000}) == SteadyTime::max()));
  BOOST_TEST((TimeAfter(now, int64_t{1'000'000'000'000}) > now + 24h * 10000));
  BOOST_TEST((Deadline::In(0, now).at == SteadyTime::max()));
  BOOST_TEST((Deadline::In(-1, now).at == SteadyTime::max()));
}

BOOST_FIXTURE_TEST_CASE(ADeadlineForEverIsNone, Fixture) {
  auto session = NewSession(root);
  for (const int64_t ms : {int64_t{9'300'000'000'000}, std::numeric_limits<int64_t>::max()}) {
    RunOptions options;
    options.timeout_ms = ms;
    for (int i = 0; i < 20; ++i) {
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(session->Run(options, feeds, {"twice"}, {}, &out, nullptr));
      std::promise<absl::Status> done;
      session->RunAsync(options, feeds, {"twice"}, {}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(s); });
      TROUPE_REQUIRE_OK(done.get_future().get());
    }
    const auto handle = session->PartialRunSetup(options, {"x"}, {"twice"}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->PartialRun(options, *handle, feeds, {"twice"}, &out));
  }
}

BOOST_FIXTURE_TEST_CASE(ADeadlineAndATokenHoldWhileTheSignatureIsBeingCompiled, Fixture) {
  TestOp(root, "DeadlineSlowMade", x);
  auto session = NewSession(root);
  const auto begun = Clock::now();
  RunOptions options;
  options.timeout_ms = 30;
  std::vector<Tensor> out;
  absl::Status s = session->Run(options, feeds, {"DeadlineSlowMade"}, {}, &out, nullptr);
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  BOOST_TEST(s.message() == "the step's signature was not compiled within 30 ms");
  s = session->PartialRunSetup(options, {"x"}, {"DeadlineSlowMade"}, {}).status();
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  CancellationToken token;
  RunOptions cancelled;
  cancelled.cancellation = &token;
  std::thread canceller([&] {
    std::this_thread::sleep_for(30ms);
    token.Cancel();
  });
  s = session->Run(cancelled, feeds, {"DeadlineSlowMade"}, {}, &out, nullptr);
  canceller.join();
  BOOST_TEST(s.code() == absl::StatusCode::kCancelled, s);
  BOOST_TEST(session->Run(cancelled, feeds, {"DeadlineSlowMade"}, {}, &out, nullptr).code() ==
             absl::StatusCode::kCancelled);
  BOOST_TEST((Clock::now() - begun < 20s));
  OpenGate();
  TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(3.0f)}}, {"DeadlineSlowMade"}, {}, &out));
  BOOST_TEST(out.at(0).scalar<float>() == 3.0f);
}

}  // namespace
}  // namespace troupe
