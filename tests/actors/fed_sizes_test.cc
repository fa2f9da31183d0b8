// A caller's thread is given to a step that gives it back in time: one that was quick with feeds as
// big as these. A bigger feed, or a step that turned out long, goes elsewhere, so that a deadline
// and a token hold and RunAsync comes back.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
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
namespace fed_sizes_test {

using namespace std::chrono_literals;

// What the kernel does: it is as if it were one of the library's, and its cost depended on what it
// is fed.
std::mutex mu;
std::condition_variable opened;
bool open = true;
std::thread::id where;  // the last one ran
int64_t most_rows = 0;  // with more, or longer strings, it waits until the door is open
std::atomic<int> sleep_ms{0};

absl::Status Sized(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(sleep_ms));
  std::unique_lock<std::mutex> lock(mu);
  where = std::this_thread::get_id();
  int64_t rows = x.rank() == 0 ? 1 : x.dim(0);
  if (x.dtype() == DType::kString) rows = static_cast<int64_t>(x.data<std::string>()->size());
  if (rows > most_rows) opened.wait_for(lock, 60s, [] { return open; });
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("FedSized").Input("x: T").Output("y: T").Attr("T: type").Stateful().NotDifferentiable("a test's").Doc("");
[[maybe_unused]] const KernelRegistrar sized =
    KernelBuilder("FedSized", KernelOrigin::kLibrary).Device("CPU").Function<Sized>();

void Open(bool is) {
  std::lock_guard<std::mutex> lock(mu);
  open = is;
  opened.notify_all();
}
bool RanHere() {
  std::lock_guard<std::mutex> lock(mu);
  return where == std::this_thread::get_id();
}

struct Fixture {
  Fixture() {
    Open(true);
    sleep_ms = 0;
    most_rows = 4;
  }
  ~Fixture() { Open(true); }
  Callable Start(DType type, int64_t lend_us = 0) {
    const Output x = ops::Placeholder(root.WithOpName("x"), type);
    auto n = NodeBuilder(root.graph(), "y", "FedSized").Input(NodeOut{x.node(), x.index()}).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    SessionOptions options;
    options.runtime_options.threads = 2;
    options.lend_thread_us = lend_us;
    session = NewSession(root, options);
    auto c = session->Prepare({"x"}, {"y"}, {});
    BOOST_REQUIRE_MESSAGE(c.ok(), c.status());
    return *c;
  }
  static Tensor Rows(int64_t rows, int64_t columns) { return Tensor(DType::kFloat, TensorShape({rows, columns})); }
  Scope root = Scope::NewRootScope();
  std::unique_ptr<Session> session;
  CancellationToken token;
};

// Runs until the caller's thread has the step.
void RunUntilHere(const Callable& step, const RunOptions& options, const Tensor& feed) {
  for (int i = 0; i < 1000; ++i) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(step.Run(options, {feed}, &out));
    if (RanHere()) return;
  }
  BOOST_FAIL("the caller's thread never had the step");
}
bool RunsHere(const Callable& step, const RunOptions& options, const Tensor& feed) {
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(step.Run(options, {feed}, &out));
  return RanHere();
}
// The answer of a Run whose kernel does not return.
absl::Status RunStuck(const Callable& step, const RunOptions& options, const Tensor& feed) {
  Open(false);
  auto done = std::async(std::launch::async, [&] {
    std::vector<Tensor> out;
    return step.Run(options, {feed}, &out);
  });
  if (options.cancellation != nullptr && options.timeout_ms == 0) {
    std::this_thread::sleep_for(20ms);
    const_cast<CancellationToken*>(options.cancellation)->Cancel();
  }
  const bool answered = done.wait_for(20s) == std::future_status::ready;
  Open(true);
  BOOST_TEST(answered);
  return done.get();
}

BOOST_FIXTURE_TEST_CASE(a_deadline_holds_for_a_feed_that_is_bigger_than_before, Fixture) {
  const Callable step = Start(DType::kFloat);
  const RunOptions limited{.timeout_ms = 20000}, soon{.timeout_ms = 20};
  RunUntilHere(step, limited, Rows(4, 8));
  // As big, or smaller: here.
  int here = 0;
  for (int i = 0; i < 20; ++i) {
    here += RunsHere(step, limited, Rows(4, 8));
    here += RunsHere(step, limited, Rows(2, 3));
  }
  BOOST_TEST(here >= 10);  // but for those that a busy machine held up
  // More elements, and as many in another shape.
  RunUntilHere(step, limited, Rows(4, 8));
  absl::Status s = RunStuck(step, soon, Rows(1000, 8));
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
  RunUntilHere(step, limited, Rows(4, 8));
  s = RunStuck(step, soon, Rows(8, 4));
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
}

BOOST_FIXTURE_TEST_CASE(a_token_holds_for_a_feed_that_is_bigger_than_before, Fixture) {
  const Callable step = Start(DType::kFloat);
  RunUntilHere(step, {.cancellation = &token}, Rows(4, 8));
  const absl::Status s = RunStuck(step, {.cancellation = &token}, Rows(5, 8));
  BOOST_TEST(absl::IsCancelled(s), s);
}

BOOST_FIXTURE_TEST_CASE(a_string_that_is_longer_is_a_bigger_feed, Fixture) {
  const Callable step = Start(DType::kString);
  RunUntilHere(step, {.timeout_ms = 20000}, Tensor::Scalar(std::string("abcd")));
  const absl::Status s = RunStuck(step, {.timeout_ms = 20}, Tensor::Scalar(std::string("abcde")));
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
}

BOOST_FIXTURE_TEST_CASE(run_async_comes_back_for_a_feed_that_is_bigger_than_before, Fixture) {
  const Callable step = Start(DType::kFloat, 1'000'000);
  const auto lent = [&](const Tensor& feed) {
    std::promise<absl::Status> done;
    step.RunAsync({feed}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
    TROUPE_REQUIRE_OK(done.get_future().get());
    return RanHere();
  };
  for (int i = 0; i < 1000 && !lent(Rows(4, 8)); ++i) {
  }
  BOOST_REQUIRE(lent(Rows(3, 8)));
  Open(false);
  std::promise<absl::Status> done;
  auto answer = done.get_future();
  auto caller = std::async(std::launch::async, [&] {
    step.RunAsync({Rows(5, 8)}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
  });
  const bool back = caller.wait_for(20s) == std::future_status::ready;
  Open(true);
  BOOST_TEST(back);
  caller.get();
  TROUPE_REQUIRE_OK(answer.get());
}

// What only the values of a feed tell is seen when it has happened, and for one step.
BOOST_FIXTURE_TEST_CASE(a_step_that_turned_out_long_is_elsewhere_the_next_time, Fixture) {
  const Callable step = Start(DType::kFloat, 1000);
  const RunOptions limited{.timeout_ms = 20000};
  for (int round = 0; round < 3; ++round) {
    sleep_ms = 0;
    RunUntilHere(step, limited, Rows(4, 8));
    sleep_ms = 30;
    int here = 0;
    for (int i = 0; i < 4; ++i) here += RunsHere(step, limited, Rows(4, 8));
    BOOST_TEST(here <= 1);
  }
  const auto lent = [&] {
    std::promise<absl::Status> done;
    step.RunAsync({Rows(4, 8)}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
    TROUPE_REQUIRE_OK(done.get_future().get());
    return RanHere();
  };
  sleep_ms = 0;
  bool once = false;
  for (int i = 0; i < 1000 && !once; ++i) once = lent();
  BOOST_REQUIRE(once);
  sleep_ms = 30;
  int here = 0;
  for (int i = 0; i < 4; ++i) here += lent();
  BOOST_TEST(here <= 1);
}

}  // namespace fed_sizes_test
}  // namespace troupe
