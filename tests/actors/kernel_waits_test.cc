// Kernels that wait (KernelContext::WaitFor) and callbacks of a step's cancellation list, in the
// hands of a program: careless ones hurt their own step only.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/actors/graphs.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace kernel_waits_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// ---- what the kernels below do ----

enum class Care { kRight, kReturnsOk, kGoesOnTwice, kDropsGoOn, kThrows, kFails, kWhatThrows };
std::atomic<Care> care{Care::kRight};

class Wait : public KernelWait {
 public:
  ~Wait() override {
    if (thread_.joinable()) thread_.join();
  }
  void Await(std::function<void()> go_on) override {
    switch (care) {
      case Care::kDropsGoOn:
        return;
      case Care::kWhatThrows:
        kept_ = std::move(go_on);
        return;
      default:
        thread_ = std::thread([go_on = std::move(go_on)] {
          std::this_thread::sleep_for(5ms);
          go_on();
          if (care == Care::kGoesOnTwice) go_on();
        });
    }
  }
  std::string What() const override {
    if (care == Care::kWhatThrows) throw std::runtime_error("nobody knows");
    return "a guest";
  }

 private:
  std::thread thread_;
  std::function<void()> kept_;
};

TROUPE_OP("WaitsForGuest").Input("x: float").Output("y: float").Stateful().NotDifferentiable("x").Doc("x, later.");
TROUPE_OP("FoldsWithGuest").Input("x: float").Output("y: float").NotDifferentiable("x").Doc("x, later.");
absl::Status ComputeWaiting(KernelContext& c) {
  const std::unique_ptr<KernelWait> over = c.TakeWait();
  c.set_output(0, c.input(0));
  if (over != nullptr) return absl::OkStatus();
  absl::Status wait = c.WaitFor(std::make_unique<Wait>());
  switch (care) {
    case Care::kReturnsOk:
      return absl::OkStatus();
    case Care::kThrows:
      throw std::runtime_error("no guest");
    case Care::kFails:
      return absl::NotFoundError("no guest");
    default:
      return wait;
  }
}
TROUPE_KERNEL("WaitsForGuest").Device("CPU").Function<ComputeWaiting>();
TROUPE_KERNEL("FoldsWithGuest").Device("CPU").Function<ComputeWaiting>();

// Waits for the end of its step, and then does what the test says.
std::mutex told_mu;
std::function<void()> when_told;
std::atomic<int> to_be_told{0};
TROUPE_OP("WaitsToBeTold").Input("x: float").Output("y: float").Stateful().NotDifferentiable("x").Doc("Never x.");
class WaitsToBeTold {
 public:
  explicit WaitsToBeTold(KernelInit&) {}
  void ComputeAsync(KernelContext& c, DoneFn done) {
    c.step()->cancellations.Register([done] {
      std::function<void()> f;
      {
        std::lock_guard<std::mutex> lock(told_mu);
        f = when_told;
      }
      if (f) f();
      done(absl::CancelledError("told"));
    });
    ++to_be_told;
  }
};
TROUPE_KERNEL("WaitsToBeTold").Device("CPU").Class<WaitsToBeTold>();

Output Node1(const Scope& root, const char* op, const Output& x) {
  auto n = NodeBuilder(root.graph(), root.graph()->UniqueName(op), op).Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

// A session with x -> op -> waits, and x -> Neg -> other.
struct Program {
  explicit Program(const char* op, SessionOptions options = {}) {
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    const Output waits = Node1(root, op, x), other = ops::Neg(root.WithOpName("other"), x);
    if (options.runtime == nullptr) options.runtime_options.threads = 2;
    session = *Session::Create(options);
    BOOST_REQUIRE(session->Extend(*root.graph()).ok());
    w = *session->Prepare({"x"}, {waits.name()}, {});
    y = *session->Prepare({"x"}, {"other"}, {});
  }
  // How a call of `w` ends; UNKNOWN when it does not within 20 s.
  absl::Status Run(RunOptions options = {}) {
    auto answer = std::make_shared<std::promise<absl::Status>>();
    auto came = answer->get_future();
    w.RunAsync(options, {Tensor::Scalar(1.f)}, [answer](absl::Status s, std::vector<Tensor>) { answer->set_value(s); });
    if (came.wait_for(20s) != std::future_status::ready) return absl::UnknownError("not answered");
    return came.get();
  }
  bool OtherRuns() {
    std::vector<Tensor> out;
    return y.Run({Tensor::Scalar(2.f)}, &out).ok() && *out[0].data<float>() == -2;
  }
  Scope root = Scope::NewRootScope();
  std::unique_ptr<Session> session;
  Callable w, y;
};

// ---- WaitFor ----

void Check(Care how, absl::StatusCode code, const std::string& text) {
  Program p("WaitsForGuest");
  care = how;
  for (int i = 0; i < 3; ++i) {
    RunOptions options;
    if (how == Care::kWhatThrows) options.timeout_ms = 50;
    const absl::Status s = p.Run(options);
    BOOST_TEST_CONTEXT(s) {
      BOOST_TEST((s.code() == code));
      BOOST_TEST(s.message().find(text) != std::string::npos);
      BOOST_TEST((code == absl::StatusCode::kOk || s.message().find("WaitsForGuest") != std::string::npos));
    }
    care = Care::kRight;
    BOOST_TEST(p.Run().ok());
    BOOST_TEST(p.OtherRuns());
    care = how;
  }
  care = Care::kRight;
}

BOOST_AUTO_TEST_CASE(a_kernel_that_waits_is_run_again) { Check(Care::kRight, absl::StatusCode::kOk, ""); }
BOOST_AUTO_TEST_CASE(a_kernel_that_returns_ok_after_wait_for_fails_its_node) {
  Check(Care::kReturnsOk, absl::StatusCode::kInternal, "it must return what WaitFor returns");
}
BOOST_AUTO_TEST_CASE(only_the_first_go_on_counts) { Check(Care::kGoesOnTwice, absl::StatusCode::kOk, ""); }
BOOST_AUTO_TEST_CASE(a_go_on_that_is_dropped_fails_its_node) {
  Check(Care::kDropsGoOn, absl::StatusCode::kInternal, "dropped `go_on`");
}
BOOST_AUTO_TEST_CASE(an_error_after_wait_for_is_the_nodes) {
  Check(Care::kThrows, absl::StatusCode::kInternal, "no guest");
  Check(Care::kFails, absl::StatusCode::kNotFound, "no guest");
}
BOOST_AUTO_TEST_CASE(a_report_survives_a_wait_that_cannot_say_what_it_is) {
  Check(Care::kWhatThrows, absl::StatusCode::kDeadlineExceeded, "nobody knows");
}

BOOST_AUTO_TEST_CASE(a_kernel_that_waits_is_not_folded) {
  Scope root = Scope::NewRootScope();
  const Output y = Node1(root, "FoldsWithGuest", ops::Const(root, 3.f));
  auto session = *Session::Create({});
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  // Nobody would end its wait while it is folded; in the step its deadline does.
  care = Care::kWhatThrows;
  RunOptions options;
  options.timeout_ms = 100;
  BOOST_TEST(
      (session->Run(options, {}, {y.name()}, {}, nullptr, nullptr).code() == absl::StatusCode::kDeadlineExceeded));
  care = Care::kRight;
  std::vector<Tensor> out;
  BOOST_TEST(session->Run({}, {y.name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() == 3);
  const auto begun = Clock::now();
  session.reset();
  BOOST_TEST((Clock::now() - begun < 4s));
}

// ---- callbacks ----

struct WhenTold {
  explicit WhenTold(std::function<void()> f) { Set(std::move(f)); }
  ~WhenTold() { Set(nullptr); }
  static void Set(std::function<void()> f) {
    std::lock_guard<std::mutex> lock(told_mu);
    when_told = std::move(f);
  }
};

// What a callback calls takes the locks under which its step was told to end.
BOOST_AUTO_TEST_CASE(a_callback_of_the_cancellation_list_may_start_steps_and_ask_its_token) {
  SessionOptions same;
  same.runtime = *Runtime::Start({.threads = 2});
  Program p("WaitsToBeTold", same), others("WaitsToBeTold", same);
  CancellationToken token;
  for (const bool by_token : {false, true}) {
    std::atomic<int> answered{0};
    WhenTold told([&] {
      (void)token.cancelled();
      RunOptions limited;
      limited.timeout_ms = 20000;
      limited.cancellation = &token;
      p.y.RunAsync(limited, {Tensor::Scalar(2.f)}, [&](absl::Status, std::vector<Tensor>) { ++answered; });
    });
    RunOptions options;
    if (by_token) {
      options.cancellation = &token;
    } else {
      options.timeout_ms = 30;
    }
    std::thread canceller([&] {
      std::this_thread::sleep_for(30ms);
      if (by_token) token.Cancel();
    });
    const absl::Status s = p.Run(options);
    BOOST_TEST((s.code() == (by_token ? absl::StatusCode::kCancelled : absl::StatusCode::kDeadlineExceeded)), s);
    canceller.join();
    for (const auto until = Clock::now() + 20s; answered == 0 && Clock::now() < until; std::this_thread::sleep_for(1ms))
      ;
    BOOST_TEST(answered == 1);
    WhenTold::Set(nullptr);
    // The deadlines of others are heard, too.
    RunOptions soon;
    soon.timeout_ms = 30;
    BOOST_TEST((others.Run(soon).code() == absl::StatusCode::kDeadlineExceeded));
  }
}

// Each hears of it, though the first one takes its time, and is answered before.
BOOST_AUTO_TEST_CASE(a_callback_is_called_after_the_answers_that_are_due) {
  Program p("WaitsToBeTold");
  std::promise<void> go_on;
  const std::shared_future<void> may = go_on.get_future().share();
  std::atomic<int> told_times{0};
  // The last one may still wait when the test has counted it.
  WhenTold told([&told_times, may] {
    ++told_times;
    may.wait();
  });
  to_be_told = 0;
  CancellationToken token;
  RunOptions options;
  options.cancellation = &token;
  std::vector<std::future<absl::Status>> answers;
  for (int i = 0; i < 3; ++i) {
    auto answer = std::make_shared<std::promise<absl::Status>>();
    answers.push_back(answer->get_future());
    p.w.RunAsync(options, {Tensor::Scalar(1.f)},
                 [answer](absl::Status s, std::vector<Tensor>) { answer->set_value(s); });
  }
  for (const auto until = Clock::now() + 20s; to_be_told < 3 && Clock::now() < until; std::this_thread::sleep_for(1ms))
    ;
  std::thread canceller([&] { token.Cancel(); });
  // Answered early: their kernels have not ended, since nobody may tell them yet.
  for (auto& a : answers) {
    BOOST_REQUIRE((a.wait_for(20s) == std::future_status::ready));
    BOOST_TEST((a.get().code() == absl::StatusCode::kCancelled));
  }
  BOOST_TEST(told_times >= 1);
  go_on.set_value();
  canceller.join();
  for (const auto until = Clock::now() + 20s; told_times < 3 && Clock::now() < until; std::this_thread::sleep_for(1ms))
    ;
  BOOST_TEST(told_times == 3);
}

}  // namespace kernel_waits_test
}  // namespace troupe
