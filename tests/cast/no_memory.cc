// Steps that begin, end, or are told to end where memory runs out: each allocation of the calling
// thread fails in turn, then each of the thread that answers for a kernel. The call is answered
// once, with RESOURCE_EXHAUSTED or as if nothing had happened, and the next one works.
//
//   no_memory run | fresh | deadline | async | lent | cancel | partial | answer | report [MS]
//
// `fresh`: the step is the first one of its executors. `report`: those of the thread that runs the
// step's nodes, while its deadline passes and it is asked what it waits for. MS: all allocations of
// the thread fail from the first one on for so many milliseconds.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/no_memory/failing.h"
#include "troupe/kernel.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using testing::Failed;
using testing::FailNone;

int out_ms = 0;

// The calling thread's allocation k fails; from it on all do, for out_ms if that was given.
void FailAt(long k) {
  if (k < 0) return FailNone();
  out_ms > 0 ? testing::FailFor(k, std::chrono::milliseconds(out_ms)) : testing::Fail(k, 1);
}

std::atomic<long> of_kernel{-1};  // what the thread that answers for the kernel may allocate
std::atomic<long> of_turn{-1};    // what the thread that runs NoMemoryTurn may from there on
std::atomic<int> kernel_ms{5};

TROUPE_OP("NoMemoryAsync").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
class Async {
 public:
  explicit Async(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.set_output(0, ctx.input(0));
    std::thread([done = std::move(done)]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(kernel_ms.load()));
      FailAt(of_kernel);
      done(absl::OkStatus());
      FailNone();
    }).detach();
  }
};
TROUPE_KERNEL("NoMemoryAsync").Device("CPU").Class<Async>();

TROUPE_OP("NoMemoryTurn").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
class Turn {
 public:
  explicit Turn(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, ctx.input(0));
    FailAt(of_turn);
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("NoMemoryTurn").Device("CPU").Class<Turn>();

// Says how the call ended if that is wrong.
bool Right(const char* how, long k, const absl::Status& status, bool cancelled = false) {
  if (status.ok() || status.code() == absl::StatusCode::kResourceExhausted) return true;
  if (cancelled && status.code() == absl::StatusCode::kCancelled) return true;
  std::printf("%s, allocation %ld fails: %s\n", how, k, status.ToString().c_str());
  return false;
}

struct Answer {
  std::promise<absl::Status> promise;
  std::atomic<int> calls{0};
};

// One call in which allocation k fails. `more`: it got as far as that.
bool Trial(const std::string& how, long k, Session& session, const Callable& step, bool* more) {
  const Tensor one = Tensor::Scalar(1.0f);
  std::vector<Tensor> out;
  RunOptions options;
  CancellationToken token;
  if (how == "deadline") options.timeout_ms = 60000;
  if (how == "cancel") options.cancellation = &token;
  const auto answer = std::make_shared<Answer>();
  std::future<absl::Status> answered = answer->promise.get_future();
  RunCallback done = [answer](absl::Status s, std::vector<Tensor>) {
    if (++answer->calls == 1) answer->promise.set_value(std::move(s));
  };
  const std::vector<Tensor> feeds{one};
  absl::Status status;
  const bool async = how == "async" || how == "lent" || how == "cancel";
  try {
    if (how == "run" || how == "fresh" || how == "deadline") {
      FailAt(k);
      status = step.Run(options, feeds, &out);
    } else if (how == "cancel") {
      step.RunAsync(options, feeds, std::move(done));
      FailAt(k);
      token.Cancel();
    } else if (async) {
      FailAt(k);
      step.RunAsync(options, feeds, std::move(done));
    } else {
      const auto handle = session.PartialRunSetup({"x"}, {"z"}, {});
      if (!handle.ok()) return Right("PartialRunSetup", -1, handle.status());
      const Feeds named{{"x", one}};
      const Names fetches{"z"};
      FailAt(k);
      // The list of names may be lacking, too, which is the program's.
      try {
        const FeedList list(named);
        const NameList names(fetches);
        FailAt(k);
        status = session.PartialRun(*handle, list, names, &out);
      } catch (const std::bad_alloc&) {
        FailNone();
        std::printf("PartialRun threw at allocation %ld\n", k);
        return false;
      }
    }
  } catch (const std::bad_alloc&) {
    FailNone();
    std::printf("%s threw at allocation %ld\n", how.c_str(), k);
    return false;
  }
  FailNone();
  *more = Failed() > 0;
  if (async) {
    if (answered.wait_for(30s) != std::future_status::ready) {
      std::printf("%s, allocation %ld fails: not answered\n", how.c_str(), k);
      return false;
    }
    status = answered.get();
    std::this_thread::sleep_for(1ms);
    if (answer->calls != 1) {
      std::printf("%s, allocation %ld fails: answered %d times\n", how.c_str(), k, answer->calls.load());
      return false;
    }
  }
  return Right(how.c_str(), k, status, how == "cancel");
}

// A step whose deadline passes while a kernel waits, so that its only thread is asked what the step
// waits for. Allocation k of that thread fails, from the step's first node on.
int RunReports() {
  constexpr long kTrials = 80;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output turn = EmitOp(root, "NoMemoryTurn", {x}).output(0);
  ops::Neg(root.WithOpName("z"), EmitOp(root, "NoMemoryAsync", {turn}).output(0));
  SessionOptions options;
  options.runtime_options.threads = 1;
  options.lend_thread_us = 0;
  const auto session = Session::Create(options).value();
  if (!session->Extend(*root.graph()).ok()) return 2;
  const Callable step = session->Prepare({"x"}, {"z"}, {}).value();
  const auto run = [&](int64_t timeout_ms, int takes_ms) -> absl::Status {
    kernel_ms = takes_ms;
    const auto answer = std::make_shared<Answer>();
    step.RunAsync({.timeout_ms = timeout_ms}, {Tensor::Scalar(1.0f)}, [answer](absl::Status s, std::vector<Tensor>) {
      if (++answer->calls == 1) answer->promise.set_value(std::move(s));
    });
    auto answered = answer->promise.get_future();
    if (answered.wait_for(30s) != std::future_status::ready) return absl::InternalError("not answered");
    return answered.get();
  };
  for (long k = 0; k < kTrials; ++k) {
    of_turn = k;
    const absl::Status s = run(10, 40);
    if (s.code() != absl::StatusCode::kDeadlineExceeded && !Right("report", k, s)) return 1;
    of_turn = -1;
    if (const absl::Status after = run(30000, 0); !after.ok()) {
      std::printf("report, after allocation %ld: %s\n", k, after.ToString().c_str());
      return 1;
    }
  }
  std::printf("report: %ld trials\n", kTrials);
  return 0;
}

int Run(const std::string& how) {
  Scope root = Scope::NewRootScope();
  const Scope second = root.WithDevice("/device:CPU:1");
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  Output y = ops::Exp(second, ops::Neg(root, x));
  if (how == "answer" || how == "cancel") y = EmitOp(root, "NoMemoryAsync", {y}).output(0);
  ops::Neg(root.WithOpName("z"), y);
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.cpu_devices = 2;
  options.lend_thread_us = how == "lent" ? 1000000 : 0;
  const auto session = Session::Create(options).value();
  if (absl::Status s = session->Extend(*root.graph()); !s.ok()) {
    std::printf("%s\n", s.ToString().c_str());
    return 2;
  }
  const Callable step = session->Prepare({"x"}, {"z"}, {}).value();
  const std::vector<Tensor> feeds{Tensor::Scalar(1.0f)};
  std::vector<Tensor> out;
  for (int i = 0; i < 10; ++i) {
    if (!step.Run(feeds, &out).ok()) return 3;
  }
  long k = 0;
  for (bool more = true; more && k < 200; ++k) {
    if (how == "answer") {
      of_kernel = k;
      const absl::Status s = step.Run({.timeout_ms = 60000}, feeds, &out);
      of_kernel = -1;
      if (!Right("answer", k, s)) return 1;
      more = k < 8;
    } else if (how == "fresh") {
      const auto another = Session::Create(options).value();
      if (!another->Extend(*root.graph()).ok()) return 5;
      const Callable first = another->Prepare({"x"}, {"z"}, {}).value();
      if (!Trial(how, k, *another, first, &more)) return 1;
      if (absl::Status s = first.Run(feeds, &out); !s.ok()) {
        std::printf("fresh, after allocation %ld: %s\n", k, s.ToString().c_str());
        return 1;
      }
    } else if (!Trial(how, k, *session, step, &more)) {
      return 1;
    }
    if (absl::Status s = step.Run(feeds, &out); !s.ok()) {
      std::printf("%s, after allocation %ld: %s\n", how.c_str(), k, s.ToString().c_str());
      return 1;
    }
  }
  std::printf("%s: %ld trials\n", how.c_str(), k);
  return k > 1 && k < 200 ? 0 : 4;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  if (argc > 2) troupe::out_ms = std::atoi(argv[2]);
  if (std::strcmp(argv[1], "report") == 0) return troupe::RunReports();
  return troupe::Run(argv[1]);
}
