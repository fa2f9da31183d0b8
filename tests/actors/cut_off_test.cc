// What a step does after its caller was answered: nothing. And whom a kernel that does not return
// keeps from working: nobody but its own step.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/troupe.h"

namespace troupe {
namespace cut_off_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What the kernels of this test wait for while it is closed. They give up after a minute, so that a
// test that fails ends.
class Door {
 public:
  void Close() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = false;
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mu_);
    opened_.wait_for(lock, 60s, [&] { return open_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable opened_;
  bool open_ = true;
};
Door door;
struct CloseDoor {
  CloseDoor() { door.Close(); }
  ~CloseDoor() { door.Open(); }
};
std::atomic<int> begun{0};  // kernels, since it was set
std::atomic<int> slow_us{0};
std::mutex where_mu;
std::thread::id where;  // the last kernel ran

absl::Status PassDoor(KernelContext& ctx) {
  {
    std::lock_guard<std::mutex> lock(where_mu);
    where = std::this_thread::get_id();
  }
  ++begun;
  if (slow_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(slow_us));
  door.Pass();
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("CutDoor").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CutDoor").Device("CPU").Function<PassDoor>();
// As if it were one of the library's.
TROUPE_OP("CutLibraryDoor").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
[[maybe_unused]] const KernelRegistrar library_door =
    KernelBuilder("CutLibraryDoor", KernelOrigin::kLibrary).Device("CPU").Function<PassDoor>();

// Answers at once, or never.
std::mutex kept_mu;
std::vector<DoneFn> kept;
std::atomic<bool> keep{false};
class Asynchronous {
 public:
  explicit Asynchronous(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ++begun;
    if (keep) {
      std::lock_guard<std::mutex> lock(kept_mu);
      kept.push_back(std::move(done));
      return;
    }
    ctx.set_output(0, ctx.input(0));
    done(absl::OkStatus());
  }
};
TROUPE_OP("CutAsync").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CutAsync").Device("CPU").Class<Asynchronous>();

template <class F>
bool Soon(F f) {
  for (const auto until = Clock::now() + 30s; Clock::now() < until; std::this_thread::sleep_for(1ms)) {
    if (f()) return true;
  }
  return false;
}

Output TestOp(const Scope& root, const char* op, const Output& x, std::string name = "") {
  auto n = NodeBuilder(root.graph(), name.empty() ? root.graph()->UniqueName(op) : name, op)
               .Input(NodeOut{x.node(), x.index()})
               .Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

int Threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Threads:", 0) == 0) return std::stoi(line.substr(8));
  }
  return -1;
}

struct Fixture {
  Fixture() {
    door.Open();
    keep = false;
    slow_us = 0;
    begun = 0;
  }
  std::unique_ptr<Session> Start(int threads) {
    SessionOptions options;
    options.lend_thread_us = 0;
    options.runtime_options.threads = threads;
    return NewSession(root, options);
  }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  Tensor one = Tensor::Scalar(1.0f);
  Feeds feeds() const { return {{"x", one}}; }
};

enum class By { kDeadline, kToken, kClose };

// Begins the step, ends it when its first kernel is in the door, and opens that after the answer.
void CutOff(Session& session, const Feeds& feeds, const Names& targets, By by) {
  CloseDoor closed;
  begun = 0;
  CancellationToken token;
  RunOptions options;
  if (by == By::kDeadline) options.timeout_ms = 200;
  if (by == By::kToken) options.cancellation = &token;
  std::promise<absl::Status> done;
  auto answer = done.get_future();
  session.RunAsync(options, feeds, {}, targets,
                   [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
  BOOST_REQUIRE(Soon([] { return begun > 0; }));
  if (by == By::kToken) token.Cancel();
  if (by == By::kClose) TROUPE_REQUIRE_OK(session.Close());
  BOOST_REQUIRE(answer.wait_for(30s) == std::future_status::ready);
  const absl::Status s = answer.get();
  BOOST_TEST((s.code() == (by == By::kDeadline ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled)),
             s);
}

// The step keeps what it was fed until it is over.
void AwaitEnd(const Tensor& fed) {
  BOOST_TEST(Soon([&] { return fed.BufferUnique(); }));
}

BOOST_FIXTURE_TEST_CASE(a_step_that_was_answered_updates_nothing_afterwards, Fixture) {
  for (const char* op : {"CutDoor", "CutLibraryDoor"}) {
    Scope s = Scope::NewRootScope();
    Output y = ops::Placeholder(s.WithOpName("x"), DType::kFloat);
    Variable w(s.WithOpName("w"), ops::Const(s, 0.0f));
    Names updates;
    for (int i = 0; i < 4; ++i) {
      y = TestOp(s, op, y);
      updates.push_back(w.AssignAdd(s, y).node()->name());
    }
    updates.push_back(TestOp(s, "CutAsync", y).node()->name());
    const Output read = w.Read(s);
    for (const By by : {By::kDeadline, By::kToken, By::kClose}) {
      SessionOptions options;
      options.lend_thread_us = 0;
      auto session = NewSession(s, options);
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(session->Run({}, {}, {w.initializer().node()->name()}, nullptr));
      // In the first steps kernels are timed, and later they are not.
      for (const int before : {0, 5}) {
        BOOST_TEST_CONTEXT(op << ", ended by " << static_cast<int>(by) << " after " << before) {
          if (before != 0 && by == By::kClose) continue;
          for (int i = 0; i < before; ++i) TROUPE_REQUIRE_OK(session->Run({{"x", one}}, {}, updates, nullptr));
          TROUPE_REQUIRE_OK(session->Run({}, {read.name()}, {}, &out));
          const float was = out.at(0).scalar<float>();
          CutOff(*session, {{"x", one}}, updates, by);
          AwaitEnd(one);
          BOOST_TEST(begun == 1);
          if (by == By::kClose) continue;
          TROUPE_REQUIRE_OK(session->Run({}, {read.name()}, {}, &out));
          BOOST_TEST(out.at(0).scalar<float>() == was);
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_loop_that_was_answered_goes_round_no_more, Fixture) {
  const auto loop = While(
      root, {x}, [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], ops::Const(s, 100.0f)); },
      [](const Scope& s, const OutputList& v) {
        return OutputList{ops::Add(s, TestOp(s, "CutDoor", v[0]), ops::Const(s, 1.0f))};
      });
  const auto session = Start(2);
  for (const By by : {By::kDeadline, By::kToken}) {
    CutOff(*session, feeds(), {loop[0].node()->name()}, by);
    AwaitEnd(one);
    BOOST_TEST(begun == 1);
  }
}

// Kernels that run side by side and do not return, more of them than there are threads: those that
// had none when the step ended never begin, and other steps have as many threads as before.
BOOST_FIXTURE_TEST_CASE(jobs_of_a_step_that_ended_do_not_begin, Fixture) {
  constexpr int kThreads = 4, kKernels = 12;
  Names doors;
  for (int i = 0; i < kKernels; ++i) doors.push_back(TestOp(root, "CutDoor", x).node()->name());
  ops::Neg(root.WithOpName("neg"), x);
  const auto session = Start(kThreads);
  // They are worth a thread of their own, and known to be.
  slow_us = 2000;
  for (int i = 0; i < 3; ++i) TROUPE_REQUIRE_OK(session->Run(feeds(), {}, doors, nullptr));
  slow_us = 0;
  const Tensor other = Tensor::Scalar(3.0f);
  for (int round = 0; round < 2; ++round) {
    begun = 0;
    CloseDoor closed;
    std::promise<absl::Status> done;
    auto answer = done.get_future();
    session->RunAsync({.timeout_ms = 20}, feeds(), {}, doors,
                      [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
    BOOST_REQUIRE(answer.wait_for(30s) == std::future_status::ready);
    BOOST_TEST(absl::IsDeadlineExceeded(answer.get()));
    BOOST_TEST(begun <= kThreads);
    for (int i = 0; i < 3; ++i) {
      auto next = std::make_shared<std::promise<absl::Status>>();
      auto its = next->get_future();
      session->RunAsync({{"x", other}}, {"neg"}, {},
                        [next](absl::Status s, std::vector<Tensor>) { next->set_value(std::move(s)); });
      BOOST_REQUIRE(its.wait_for(10s) == std::future_status::ready);
      TROUPE_REQUIRE_OK(its.get());
    }
    door.Open();
    AwaitEnd(one);
    BOOST_TEST(begun <= kThreads);
  }
}

// A kernel that answers later keeps no thread, so none takes its place.
BOOST_FIXTURE_TEST_CASE(an_asynchronous_kernel_that_does_not_answer_costs_no_thread, Fixture) {
  const Names never = {TestOp(root, "CutAsync", x).node()->name()};
  const auto session = Start(2);
  keep = true;
  const auto stuck = [&](int steps) {
    std::atomic<int> answers{0};
    for (int i = 0; i < steps; ++i) {
      session->RunAsync({.timeout_ms = 1}, feeds(), {}, never, [&](absl::Status s, std::vector<Tensor>) {
        BOOST_TEST(absl::IsDeadlineExceeded(s));
        ++answers;
      });
    }
    BOOST_REQUIRE(Soon([&] { return answers == steps; }));
  };
  stuck(1);  // starts the clock's thread
  const int before = Threads();
  stuck(20);
  BOOST_TEST(Threads() < before + 10);  // some may belong to what ends or begins beside
  std::vector<DoneFn> all;
  {
    std::lock_guard<std::mutex> lock(kept_mu);
    all.swap(kept);
  }
  for (const DoneFn& done : all) done(absl::OkStatus());
  all.clear();
  AwaitEnd(one);
}

// A step that has not had a thread says so, and blames no node.
BOOST_FIXTURE_TEST_CASE(a_step_that_has_no_thread_blames_no_node, Fixture) {
  const Names doors = {TestOp(root, "CutDoor", x).node()->name()};
  ops::Neg(root.WithOpName("neg"), x);
  const auto session = Start(1);
  TROUPE_REQUIRE_OK(session->Run(feeds(), {"neg"}, {}, nullptr));
  CloseDoor closed;
  begun = 0;
  std::promise<void> over;
  session->RunAsync(feeds(), {}, doors, [&](absl::Status, std::vector<Tensor>) { over.set_value(); });
  BOOST_REQUIRE(Soon([] { return begun == 1; }));
  std::promise<absl::Status> late;
  auto answer = late.get_future();
  session->RunAsync({.timeout_ms = 10}, {{"x", Tensor::Scalar(2.0f)}}, {"neg"}, {},
                    [&](absl::Status s, std::vector<Tensor>) { late.set_value(std::move(s)); });
  BOOST_REQUIRE(answer.wait_for(30s) == std::future_status::ready);
  const std::string text(answer.get().message());
  BOOST_TEST(text.find("it has not begun") != std::string::npos, text);
  BOOST_TEST(text.find("'neg'") == std::string::npos, text);
  door.Open();
  BOOST_TEST((over.get_future().wait_for(30s) == std::future_status::ready));
}

// A kernel that calls a blocking Run: refused wherever the kernel, or a range of its loop, runs.
const Callable* inner = nullptr;
std::atomic<int> refused{0}, other_answers{0};
void RunInner() {
  RunOptions options;
  options.timeout_ms = 10000;
  std::vector<Tensor> out;
  const absl::Status s = inner->Run(options, {Tensor::Scalar(1.0f)}, &out);
  ++(absl::IsFailedPrecondition(s) ? refused : other_answers);
}
absl::Status Nested(KernelContext& ctx) {
  RunInner();
  std::this_thread::sleep_for(1ms);
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("CutNested").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CutNested").Device("CPU").Function<Nested>();
constexpr int kRanges = 8;
absl::Status NestedInRanges(KernelContext& ctx) {
  ctx.threads()->ParallelRanges(kRanges, kRanges, [](int64_t, int64_t) {
    RunInner();
    std::this_thread::sleep_for(1ms);
  });
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("CutNestedRanges").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
TROUPE_KERNEL("CutNestedRanges").Device("CPU").Function<NestedInRanges>();

BOOST_FIXTURE_TEST_CASE(a_blocking_run_in_a_kernel_is_refused_wherever_that_runs, Fixture) {
  constexpr int kKernels = 16;
  Names nested;
  for (int i = 0; i < kKernels; ++i) nested.push_back(TestOp(root, "CutNested", x).node()->name());
  const Names ranges = {TestOp(root, "CutNestedRanges", x).node()->name()};
  const Output y = TestOp(root, "CutDoor", x);
  const auto session = Start(4);
  const auto c = session->Prepare({"x"}, {y.name()}, {});
  BOOST_REQUIRE_MESSAGE(c.ok(), c.status());
  inner = &*c;
  for (const Names& targets : {nested, ranges}) {
    for (int i = 0; i < 5; ++i) {
      for (const bool blocking : {false, true}) {
        refused = other_answers = 0;
        if (blocking) {
          TROUPE_REQUIRE_OK(session->Run(feeds(), {}, targets, nullptr));
        } else {
          std::promise<absl::Status> done;
          auto answer = done.get_future();
          session->RunAsync(feeds(), {}, targets,
                            [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
          BOOST_REQUIRE(answer.wait_for(60s) == std::future_status::ready);
          TROUPE_REQUIRE_OK(answer.get());
        }
        BOOST_TEST(other_answers == 0);
        BOOST_TEST(refused == (targets.size() == 1 ? kRanges : kKernels));
      }
    }
  }
}

}  // namespace cut_off_test
}  // namespace troupe
