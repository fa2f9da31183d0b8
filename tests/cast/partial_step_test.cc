// The partial step: every numbered edge of partial_step.h.
#include <atomic>
#include <condition_variable>
#include <thread>

#include "tests/cast/play.h"

namespace troupe {
namespace partial_step_test {

using namespace std::chrono_literals;

struct Piecewise : Play {
  Piecewise() {
    y = ops::Placeholder(root.WithOpName("y"), DType::kFloat);
    sum = ops::Add(root.WithOpName("sum"), twice, y);
    Extend();
  }
  std::string SetUp(const Names& fetches, const RunOptions& options = {}) {
    std::string handle;
    stage.Inline([&] {
      auto h = session->PartialRunSetup(options, {"x", "y"}, fetches, {});
      BOOST_REQUIRE_MESSAGE(h.ok(), h.status());
      handle = *h;
    });
    return handle;
  }
  absl::Status Run(const std::string& handle, const Feeds& f, const Names& fetches, const RunOptions& options = {}) {
    absl::Status s;
    stage.Inline([&] { s = session->PartialRun(options, handle, f, fetches, &outputs); });
    return s;
  }
  std::shared_ptr<Signature> Compiled(const Names& fetches) {
    std::shared_ptr<Signature> s;
    stage.Inline([&] { s = SignatureOf(*session, {"x", "y"}, fetches); });
    return s;
  }
  // The executors that the next step would have.
  std::shared_ptr<Executor> FreeOnes(const Names& fetches) {
    const std::shared_ptr<Signature> s = Compiled(fetches);
    std::unique_ptr<ExecutorSet> set = s->Lease();
    std::shared_ptr<Executor> first = set->executors().at(0);
    s->Release(std::move(set));
    return first;
  }
  Output y, sum;
  const Names three = {"twice", "sum", "never"};
  const Feeds fx = {{"x", Tensor::Scalar(1.0f)}}, fy = {{"y", Tensor::Scalar(5.0f)}};
};

BOOST_FIXTURE_TEST_CASE(edges_1_and_3_a_step_is_fed_and_fetched_piece_by_piece, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 2.0f);
  TROUPE_REQUIRE_OK(Run(h, fy, {"sum"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 7.0f);
  BOOST_TEST(Run(h, {}, {}).code() == absl::StatusCode::kInvalidArgument);  // the handle has been used up
}

BOOST_FIXTURE_TEST_CASE(edge_2_what_is_refused_leaves_the_step_as_it_was, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  const auto refused = [&](const Feeds& f, const Names& fetches) {
    const absl::Status s = Run(h, f, fetches);
    BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument, s);
    return std::string(s.message());
  };
  BOOST_TEST(refused(fx, {"sum"}).find("depends on 'y'") != std::string::npos);
  BOOST_TEST(refused({{"z", Tensor::Scalar(1.0f)}}, {}).find("'z' is no feed") != std::string::npos);
  BOOST_TEST(refused(fx, {"never"}).find("'never' is no fetch") != std::string::npos);
  BOOST_TEST(refused({{"x", Tensor::Scalar<int32_t>(1)}}, {}).find("float32") != std::string::npos);
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
  refused(fx, {});
  refused({}, {"twice"});
  TROUPE_REQUIRE_OK(Run(h, fy, {"sum"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 7.0f);
}

BOOST_FIXTURE_TEST_CASE(edge_4_an_error_ends_the_step_and_the_handle, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  stage.Inline([&] { stage.Kill(Find("device:" + runtime->devices()[0].name)); });
  BOOST_TEST(Run(h, fx, {"twice"}).code() == absl::StatusCode::kAborted);
  BOOST_TEST(Run(h, fx, {"twice"}).code() == absl::StatusCode::kInvalidArgument);
}

BOOST_FIXTURE_TEST_CASE(what_is_asked_twice_in_one_call_or_of_nobody_is_refused, Piecewise) {
  const std::string h = SetUp({"twice", "sum"});
  BOOST_TEST(Run(h, {fx[0], {"x:0", Tensor::Scalar(2.0f)}}, {}).message() == "'x:0' has been fed already");
  BOOST_TEST(Run(h, fx, {"twice", "twice:0"}).message() == "'twice:0' has been fetched already");
  BOOST_TEST(Run(h, {{"x", Tensor::Vector<float>({1})}, {"", Tensor::Scalar(1.0f)}}, {}).code() ==
             absl::StatusCode::kInvalidArgument);
  const absl::Status unknown = Run("partial/77", fx, {});
  BOOST_TEST(unknown.code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(unknown.message() == "there is no partial run 'partial/77': it has not been set up, or is over");
  TROUPE_REQUIRE_OK(Run(h, {fx[0], fy[0]}, {"sum", "twice"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 7.0f);
  BOOST_TEST(outputs.at(1).scalar<float>() == 2.0f);
}

BOOST_FIXTURE_TEST_CASE(edge_5_a_call_that_takes_too_long_ends_the_step, Piecewise) {
  const auto only = FreeOnes(three);
  const std::string h = SetUp(three);
  BOOST_TEST(FreeOnes(three) != only);
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}, {.timeout_ms = 100000}));
  const absl::Status s = Run(h, {}, {"never"}, {.timeout_ms = 10});
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  BOOST_TEST(
      std::string(s.message()).find("the step did not end within 10 ms; it waits for:\n  node '_arg_y_0' (_Arg) on ") ==
          0u,
      s);
  BOOST_TEST(std::string(s.message()).find("\n  node 'never' (CastNever) on ") != std::string::npos, s);
  BOOST_TEST(Run(h, fy, {"sum"}).code() == absl::StatusCode::kInvalidArgument);  // the handle is over
}

BOOST_FIXTURE_TEST_CASE(edges_6_and_7_the_steps_deadline_frees_the_executors_though_nobody_calls, Piecewise) {
  const auto only = FreeOnes(three);
  const std::string h = SetUp(three, {.timeout_ms = 50});
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
  stage.Advance(50ms);
  stage.Play();
  BOOST_TEST(FreeOnes(three) == only);
  const absl::Status s = Run(h, fy, {"sum"});
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  BOOST_TEST(
      std::string(s.message()).find("within 50 ms; it waits for:\n  node '_arg_y_0' (_Arg) on ") != std::string::npos,
      s);
  BOOST_TEST(Run(h, fy, {"sum"}).code() == absl::StatusCode::kInvalidArgument);
}

BOOST_FIXTURE_TEST_CASE(edge_6_a_token_of_the_set_up_or_of_a_call_ends_the_step, Piecewise) {
  std::optional<CancellationToken> token(std::in_place);
  const auto only = FreeOnes(three);
  std::string h = SetUp(three, {.cancellation = &*token});
  TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
  token->Cancel();
  stage.Play();
  BOOST_TEST(Run(h, fy, {"sum"}).code() == absl::StatusCode::kCancelled);
  BOOST_TEST(FreeOnes(three) == only);
  h = SetUp(three);
  BOOST_TEST(Run(h, fx, {"twice"}, {.cancellation = &*token}).code() == absl::StatusCode::kCancelled);
  BOOST_TEST(FreeOnes(three) == only);
}

BOOST_FIXTURE_TEST_CASE(edge_7_executors_are_free_before_the_last_fetch_is_taken, Piecewise) {
  const auto only = FreeOnes({"twice", "sum"});
  const std::string h = SetUp({"twice", "sum"});
  TROUPE_REQUIRE_OK(Run(h, {fx[0], fy[0]}, {}));
  BOOST_TEST(FreeOnes({"twice", "sum"}) == only);
  TROUPE_REQUIRE_OK(Run(h, {}, {"sum"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 7.0f);
  TROUPE_REQUIRE_OK(Run(h, {}, {"twice"}));
  BOOST_TEST(outputs.at(0).scalar<float>() == 2.0f);
  BOOST_TEST(Run(h, {}, {}).code() == absl::StatusCode::kInvalidArgument);
}

// A kernel that never calls back: the caller has its answer, the executors are kept.
TROUPE_OP("CastDeaf").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("Waits.");
std::vector<DoneFn> deaf;
class DeafKernel {
 public:
  explicit DeafKernel(KernelInit&) {}
  void ComputeAsync(KernelContext&, DoneFn done) { deaf.push_back(std::move(done)); }
};
TROUPE_KERNEL("CastDeaf").Device("CPU").Class<DeafKernel>();

BOOST_AUTO_TEST_CASE(edge_8_a_step_that_does_not_end_is_answered) {
  Play p;
  auto n = NodeBuilder(p.root.graph(), "deaf", "CastDeaf").Input(NodeOut{p.x.node(), p.x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  p.Extend();
  std::string h;
  p.stage.Inline([&] { h = p.session->PartialRunSetup({.timeout_ms = 50}, {"x"}, {"twice", "deaf"}, {}).value(); });
  const auto run = [&](const Feeds& f, const Names& fetches) {
    absl::Status s;
    p.stage.Inline([&] { s = p.session->PartialRun(h, f, fetches, &p.outputs); });
    return s;
  };
  TROUPE_REQUIRE_OK(run(p.feeds, {"twice"}));
  p.stage.Advance(50ms);
  p.stage.Play();
  p.stage.Advance(50ms);
  const absl::Status s = run({}, {"deaf"});
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded, s);
  BOOST_TEST(std::string(s.message()).find("this has not returned, and goes on in the background:\n  node 'deaf'") !=
                 std::string::npos,
             s);
  BOOST_TEST(run({}, {"deaf"}).code() == absl::StatusCode::kInvalidArgument);  // the handle is over
  for (const DoneFn& done : std::exchange(deaf, {})) done(absl::OkStatus());
  p.stage.Play();
}

// A kernel whose end another thread tells: `told` is what is still to be told.
TROUPE_OP("CastTold").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("Waits.");
struct Told {
  std::mutex mu;
  std::condition_variable came;
  std::vector<DoneFn> waiting;
} told;
class ToldKernel {
 public:
  explicit ToldKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.set_output(0, ctx.input(0));
    std::lock_guard<std::mutex> lock(told.mu);
    told.waiting.push_back(std::move(done));
    told.came.notify_all();
  }
};
TROUPE_KERNEL("CastTold").Device("CPU").Class<ToldKernel>();

// Waits until the kernel has been called, and then as long as a call that does not wait needs.
void Tell(absl::Status status, std::atomic<bool>* ended) {
  std::unique_lock<std::mutex> lock(told.mu);
  told.came.wait(lock, [] { return !told.waiting.empty(); });
  const DoneFn done = std::move(told.waiting.back());
  told.waiting.pop_back();
  lock.unlock();
  std::this_thread::sleep_for(50ms);
  *ended = true;
  done(std::move(status));
}

BOOST_AUTO_TEST_CASE(edge_9_the_last_call_waits_for_the_targets) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = ops::Neg(root.WithOpName("y"), x);
  const Variable w(root.WithOpName("w"), 0.0f);
  auto n = NodeBuilder(root.graph(), "told", "CastTold").Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  const std::string update = w.AssignAdd(root, Output({*n, 0}, x.scope_state())).node()->name();
  Never(root, x);
  const Operation init = GlobalVariablesInitializer(root);
  TROUPE_REQUIRE_OK(root.status());
  const Feeds feed = {{"x", Tensor::Scalar(1.0f)}};
  for (const bool wire : {false, true}) {
    SessionOptions options;
    options.wire_messages = wire;
    options.runtime_options.threads = 2;
    const auto session = Session::Create(options).value();
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    float updates = 0;
    // The feed with the fetch, before it, and with no fetch at all; each twice, the second time
    // with a signature that is known.
    for (int way = 0; way < 6; ++way) {
      const Names fetches = way % 3 == 2 ? Names{} : Names{"y"};
      const auto step = [&](const std::string& target, absl::Status end, const RunOptions& last) {
        const bool tells = target == update;
        const auto handle = session->PartialRunSetup({"x"}, fetches, {target});
        BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
        std::vector<Tensor> out;
        if (way % 3 == 1) TROUPE_REQUIRE_OK(session->PartialRun(*handle, feed, {}, &out));
        std::atomic<bool> ended = false;
        std::thread other;
        if (tells) other = std::thread([&] { Tell(end, &ended); });
        const absl::Status s = session->PartialRun(last, *handle, way % 3 == 1 ? Feeds{} : feed, fetches, &out);
        BOOST_TEST(ended == tells, "way " << way);
        if (tells) other.join();
        if (s.ok() && way % 3 != 2) BOOST_TEST(out.at(0).scalar<float>() == -1.0f);
        BOOST_TEST(session->PartialRun(*handle, {}, {}, &out).code() == absl::StatusCode::kInvalidArgument);
        return s;
      };
      TROUPE_REQUIRE_OK(step(update, absl::OkStatus(), {}));
      BOOST_TEST(session->Get(w)->scalar<float>() == ++updates);
      const absl::Status failed = step(update, absl::DataLossError("the target failed"), {});
      BOOST_TEST(failed.code() == absl::StatusCode::kDataLoss, failed);
      const absl::Status late = step("never", absl::OkStatus(), {.timeout_ms = 20});
      BOOST_TEST(late.code() == absl::StatusCode::kDeadlineExceeded, late);
      BOOST_TEST(session->Get(w)->scalar<float>() == updates);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(edge_6_the_end_of_the_session_ends_what_is_open, Piecewise) {
  for (const bool close : {true, false}) {
    if (!close) {
      // A new session over the same graph, which goes without being closed.
      stage.Inline([&] {
        SessionOptions options;
        options.runtime = runtime;
        session = Session::Create(options).value();
        TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
      });
    }
    const std::weak_ptr<Executor> executor = FreeOnes(three);
    const std::string h = SetUp(three);
    TROUPE_REQUIRE_OK(Run(h, fx, {"twice"}));
    stage.Inline([&] {
      if (close) {
        TROUPE_REQUIRE_OK(session->Close());
      } else {
        session = nullptr;
      }
    });
    BOOST_TEST(executor.expired());
    if (close) BOOST_TEST(Run(h, fy, {"sum"}).code() == absl::StatusCode::kCancelled);
  }
}

}  // namespace partial_step_test
}  // namespace troupe
