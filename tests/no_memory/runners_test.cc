// A queue runner whose step ends where memory runs out, at each allocation in turn: it hears of the
// end, so that nobody waits for it for ever.
#include <atomic>
#include <chrono>
#include <future>

#include "tests/actors/graphs.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/kernel.h"
#include "troupe/queues.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/queue_runner.h"

namespace troupe {
namespace runners_test {

// Allocation so many of the thread that runs the kernel fails from there on; -1: none.
std::atomic<long> fails_behind{-1};

TROUPE_OP("NoMemoryBehind").Input("x: int32").Output("y: int32").Stateful().NotDifferentiable("a test's").Doc("");
class Behind {
 public:
  explicit Behind(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.input(0));
    const long k = fails_behind.exchange(-1);
    k >= 0 ? testing::Fail(k, 1) : testing::FailNone();
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("NoMemoryBehind").Device("CPU").Class<Behind>();

BOOST_AUTO_TEST_SUITE(runners)

BOOST_AUTO_TEST_CASE(a_runner_hears_how_its_step_ended) {
  constexpr long kTrials = 60;
  for (long k = 0; k < kTrials; ++k) {
    const Scope root = Scope::NewRootScope();
    const Queue from = Queue::Fifo(root.WithOpName("from"), {DType::kInt32}, {.shapes = {TensorShape()}});
    const Queue to = Queue::Fifo(root.WithOpName("to"), {DType::kInt32}, {.shapes = {TensorShape()}});
    const Output size = to.Size(root);
    const Operation fill = from.EnqueueMany(root, {Const(root, {1, 2, 3})}), close = from.Close(root);
    const Operation move = to.Enqueue(root, {EmitOp(root, "NoMemoryBehind", {from.Dequeue(root)[0]}).output(0)});
    AddQueueRunner(root, MakeQueueRunner(root, to, {move}));
    SessionOptions options;
    options.runtime_options.threads = 1;
    options.lend_thread_us = 0;
    const auto session = NewSession(root, options);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {fill}, nullptr));
    TROUPE_REQUIRE_OK(session->Run({}, {}, {close}, nullptr));
    // Both queues have their actors.
    std::vector<Tensor> none;
    TROUPE_REQUIRE_OK(session->Run({}, {size}, {}, &none));
    train::CoordinatorOptions grace;
    grace.grace_ms = 1000;
    train::Coordinator coordinator(*session, grace);
    fails_behind = k;
    TROUPE_REQUIRE_OK(train::StartQueueRunners(*session, coordinator, *root.graph()));
    // The end of the input, or of the memory.
    std::future<absl::Status> join = std::async(std::launch::async, [&] { return coordinator.Join(); });
    const bool heard = join.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    if (!heard) coordinator.RequestStop();
    const absl::Status joined = join.get();
    BOOST_REQUIRE_MESSAGE(heard, "allocation " << k << ": " << joined);
    BOOST_TEST((joined.ok() || absl::IsResourceExhausted(joined)), "allocation " << k << ": " << joined);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace runners_test
}  // namespace troupe
