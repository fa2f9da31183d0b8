// The check for NaN and infinities where memory runs out, at each allocation in turn.
#include <atomic>
#include <optional>
#include <string_view>
#include <thread>

#include "kernels/numerics_check.h"
#include "tests/actors/graphs.h"
#include "tests/checkpoint/held_files.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/files.h"
#include "troupe/kernel.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

using testing::AtEachAllocation;
using testing::Failing;

// From the kernel of NoMemoryFromHere on, on its thread.
long fails_at = -1;
std::optional<Failing> no_memory;
std::thread::id of_thread;

TROUPE_OP("NoMemoryFromHere").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
class FromHere {
 public:
  explicit FromHere(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.input(0));
    of_thread = std::this_thread::get_id();
    if (fails_at >= 0) no_memory.emplace(fails_at, 1);
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("NoMemoryFromHere").Device("CPU").Class<FromHere>();

BOOST_AUTO_TEST_SUITE(numerics)

// What the second of three cannot do the others do all the same.
BOOST_AUTO_TEST_CASE(one_update_that_cannot_be_taken_back_holds_up_no_other) {
  UpdateLog log;
  std::string undone;
  BOOST_TEST(log.Add([&] { undone += "a"; }));
  BOOST_TEST(log.Add([] { throw std::bad_alloc(); }));
  BOOST_TEST(log.Add([&] { undone += "c"; }));
  BOOST_CHECK_THROW(log.UndoAll(), std::bad_alloc);
  BOOST_TEST(undone == "ca");
  BOOST_TEST(!log.Add([] {}));
}

BOOST_AUTO_TEST_CASE(updates_are_taken_back_without_memory) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Variable v(root.WithOpName("v"), 1.0f), w(root.WithOpName("w"), 10.0f);
  const Output twice = v.AssignAdd(root.WithControlDependencies(v.AssignAdd(root, 1.0f)), 2.0f);
  const Output other = w.AssignAdd(root.WithControlDependencies(twice), 5.0f);
  const Output last = EmitOp(root.WithControlDependencies(other), "NoMemoryFromHere", {x}).output(0);
  const Output log = ops::Log(root.WithOpName("log"), last);
  const Operation init = GlobalVariablesInitializer(root);
  SessionOptions options;
  options.lend_thread_us = 60'000'000;
  const auto session = Session::Create(options).value();
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  RunOptions checked;
  checked.check_numerics = true;
  const Feeds feeds{{x.name(), Tensor::Scalar(-1.0f)}};
  const Names fetches{log.name()};
  std::vector<Tensor> out;
  int failed_by_check = 0;
  AtEachAllocation(
      [&](long k) {
        TROUPE_REQUIRE_OK(session->Set(v, Tensor::Scalar(1.0f)));
        TROUPE_REQUIRE_OK(session->Set(w, Tensor::Scalar(10.0f)));
        fails_at = k;
        const absl::Status s = session->Run(checked, feeds, fetches, {}, &out, nullptr);
        const long failed = Failing::failed();
        no_memory.reset();
        fails_at = -1;
        BOOST_REQUIRE((of_thread == std::this_thread::get_id()));
        // Or there was no memory to say what the check has found.
        if (!absl::IsResourceExhausted(s)) {
          BOOST_TEST(absl::IsInvalidArgument(s), "allocation " << k << ": " << s);
          BOOST_TEST(session->Get(v)->scalar<float>() == 1, "allocation " << k);
          BOOST_TEST(session->Get(w)->scalar<float>() == 10, "allocation " << k);
          failed_by_check += failed > 0;
        }
        return failed > 0;
      },
      300);
  BOOST_TEST(failed_by_check > 0);
}

// A thread of its own writes the inputs of the node, and tells how that went.
BOOST_AUTO_TEST_CASE(a_dump_without_memory_for_its_message_is_told) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Output log = ops::Log(root.WithOpName("log"), x);
  const auto session = Session::Create({}).value();
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  // From its last file on the thread has no memory, until it ends.
  static std::atomic<long> at{-1};
  struct OfThread {
    std::optional<Failing> failing;
  };
  TROUPE_REQUIRE_OK(files::RegisterFileSystem(
      "nomemory", std::make_shared<HeldFiles>([](std::string_view op, const std::string& path) {
        thread_local OfThread here;
        if (op == "OpenToWrite" && path.ends_with("replay.sh") && at >= 0) here.failing.emplace(at, 1);
      })));
  RunOptions checked;
  checked.check_numerics = true;
  checked.numerics_folder = "nomemory://dumps";
  const Feeds feeds{{x.name(), Tensor::Scalar(-1.0f)}};
  std::vector<Tensor> out;
  bool told = false;
  for (long k = 0; k < 60; ++k) {
    at = k;
    const absl::Status s = session->Run(checked, feeds, {log.name()}, {}, &out, nullptr);
    at = -1;
    BOOST_TEST((absl::IsInvalidArgument(s) || absl::IsResourceExhausted(s)), "allocation " << k << ": " << s);
    told |= absl::IsResourceExhausted(s);
  }
  BOOST_TEST(told);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
