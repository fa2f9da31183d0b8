// The check for NaN and infinities where memory runs out, at each allocation in turn.
#include <atomic>
#include <optional>
#include <string_view>

#include "kernels/numerics_check.h"
#include "tests/actors/graphs.h"
#include "tests/checkpoint/held_files.h"
#include "tests/no_memory/failing.h"
#include "troupe/files.h"
#include "troupe/kernel.h"
#include "troupe/troupe.h"

namespace troupe {
namespace numerics_test {

using testing::Failing;

// The allocation that fails from the kernel of NoMemoryFromHere on, on the only thread that runs
// kernels; and how many had failed there when it ran again.
std::atomic<long> fails_at{-1}, failed_before{0};

TROUPE_OP("NoMemoryFromHere").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
class FromHere {
 public:
  explicit FromHere(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.input(0));
    failed_before = testing::Failed();
    const long k = fails_at;
    k >= 0 ? testing::Fail(k, 1) : testing::FailNone();
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
  options.runtime_options.threads = 1;
  options.lend_thread_us = 0;
  const auto session = Session::Create(options).value();
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  RunOptions checked;
  checked.check_numerics = true;
  const Feeds feeds{{x.name(), Tensor::Scalar(-1.0f)}};
  const Names fetches{log.name()};
  std::vector<Tensor> out;
  constexpr long kTrials = 150;
  int failed_by_check = 0;
  bool by_check = false;  // the trial before
  for (long k = 0; k <= kTrials; ++k) {
    TROUPE_REQUIRE_OK(session->Set(v, Tensor::Scalar(1.0f)));
    TROUPE_REQUIRE_OK(session->Set(w, Tensor::Scalar(10.0f)));
    fails_at = k;
    const absl::Status s = session->Run(checked, feeds, fetches, {}, &out, nullptr);
    failed_by_check += by_check && failed_before > 0;
    by_check = absl::IsInvalidArgument(s);
    fails_at = -1;
    // That there is no memory to say what the check has found is an error like any other.
    BOOST_TEST((by_check || absl::IsResourceExhausted(s)), "allocation " << k << ": " << s);
    if (!by_check) continue;
    BOOST_TEST(session->Get(v)->scalar<float>() == 1, "allocation " << k);
    BOOST_TEST(session->Get(w)->scalar<float>() == 10, "allocation " << k);
  }
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
        if (op == "Renamed" && path.ends_with("replay.sh") && at >= 0) here.failing.emplace(at, 1);
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

}  // namespace numerics_test
}  // namespace troupe
