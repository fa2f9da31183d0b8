// What is still under way when a session or its runtime ends, and what a call leaves behind that
// was answered early.
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_master.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/troupe.h"

namespace troupe {
namespace ends_test {

using namespace std::chrono_literals;

template <class F>
bool Soon(F&& f) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!f()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

#define TROUPE_ENDS_OP(name) \
  TROUPE_OP(name).Input("x: float").Output("y: float").Stateful().NotDifferentiable("it is a test's").Doc("")

// Answers, and keeps what it answers with.
std::mutex kept_mu;
std::vector<DoneFn> kept;
TROUPE_ENDS_OP("EndsAgain");
class AnswersAgain {
 public:
  explicit AnswersAgain(KernelInit&) {}
  void ComputeAsync(KernelContext& c, DoneFn done) {
    c.set_output(0, c.TakeInput(0));
    {
      std::lock_guard<std::mutex> lock(kept_mu);
      kept.push_back(done);
    }
    done(absl::OkStatus());
  }
};
TROUPE_KERNEL("EndsAgain").Device("CPU").Class<AnswersAgain>();

// Waits for the step's end.
TROUPE_ENDS_OP("EndsWaits");
class Waits {
 public:
  explicit Waits(KernelInit&) {}
  void ComputeAsync(KernelContext& c, DoneFn done) {
    c.step()->cancellations.Register([done] { done(absl::CancelledError("the step ended")); });
  }
};
TROUPE_KERNEL("EndsWaits").Device("CPU").Class<Waits>();

// Its constructor waits until it may go on.
std::atomic<bool> may_make{true};
std::atomic<int> being_made{0};
TROUPE_ENDS_OP("EndsSlowMade");
class SlowMade {
 public:
  explicit SlowMade(KernelInit&) {
    ++being_made;
    (void)Soon([] { return may_make.load(); });
    --being_made;
  }
  absl::Status Compute(KernelContext& c) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("EndsSlowMade").Device("CPU").Class<SlowMade>();

struct Ends {
  void Op(const char* op, const std::string& name) {
    auto n = NodeBuilder(root.graph(), name, op).Input(NodeOut{x.node(), x.index()}).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  }
  ~Ends() { may_make = true; }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), twice = ops::Add(root.WithOpName("twice"), x, x);
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
};

BOOST_FIXTURE_TEST_CASE(a_kernel_that_answers_again_after_the_runtimes_end_finds_its_device, Ends) {
  Op("EndsAgain", "again");
  for (const int64_t limit : {int64_t{0}, int64_t{1} << 20}) {
    auto session = NewSession(root, {.runtime_options = {.threads = 2, .memory_limit = limit}});
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run(feeds, {"again"}, {}, &out));
    const std::weak_ptr<Device> device = session->runtime()->impl()->devices[0];
    const std::weak_ptr<Allocator> memory = session->runtime()->impl()->allocator;
    session = nullptr;
    std::vector<DoneFn> mine;
    {
      std::lock_guard<std::mutex> lock(kept_mu);
      mine.swap(kept);
    }
    BOOST_TEST(mine.size() == 1u);
    BOOST_TEST(!device.expired());
    BOOST_TEST(memory.expired() == (limit == 0));
    for (const DoneFn& done : mine) done(absl::OkStatus());
    mine.clear();
    // The executor's actor may hold its part for as long as its end takes.
    BOOST_TEST(Soon([&] { return device.expired() && memory.expired(); }));
  }
}

BOOST_FIXTURE_TEST_CASE(the_end_of_a_session_waits_for_a_report_and_none_comes_afterwards, Ends) {
  Op("EndsWaits", "waits");
  struct Shared {
    std::promise<void> begun, gone;
    std::atomic<int> reports{0};
    std::atomic<bool> session_gone_meanwhile{false};
  };
  auto shared = std::make_shared<Shared>();
  SessionOptions options;
  options.runtime = *Runtime::Start({.threads = 2});
  options.stall_report_ms = 2;
  options.on_stall = [shared](const std::string&) {
    if (shared->reports++ > 0) return;
    shared->begun.set_value();
    shared->session_gone_meanwhile = shared->gone.get_future().wait_for(200ms) == std::future_status::ready;
  };
  auto session = NewSession(root, options);
  session->RunAsync(feeds, {"waits"}, {}, [](absl::Status, std::vector<Tensor>) {});
  BOOST_REQUIRE((shared->begun.get_future().wait_for(60s) == std::future_status::ready));
  session = nullptr;
  const int reports = shared->reports;
  shared->gone.set_value();
  BOOST_TEST(!shared->session_gone_meanwhile);
  std::this_thread::sleep_for(20ms);
  BOOST_TEST(shared->reports == reports);
}

BOOST_FIXTURE_TEST_CASE(a_session_may_end_within_its_own_report, Ends) {
  Op("EndsWaits", "waits");
  auto session = std::make_shared<std::unique_ptr<Session>>();
  auto ended = std::make_shared<std::promise<void>>();
  auto ready = std::make_shared<std::promise<void>>();
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.stall_report_ms = 2;
  options.on_stall = [session, ended, ready, first = std::make_shared<std::atomic<bool>>(true)](const std::string&) {
    if (!first->exchange(false)) return;
    ready->get_future().wait();
    *session = nullptr;
    ended->set_value();
  };
  *session = NewSession(root, options);
  (*session)->RunAsync(feeds, {"waits"}, {}, [](absl::Status, std::vector<Tensor>) {});
  ready->set_value();
  BOOST_TEST((ended->get_future().wait_for(60s) == std::future_status::ready));
}

// While a constructor does not return, calls come, are answered by their deadlines, and go.
BOOST_FIXTURE_TEST_CASE(an_answered_call_leaves_nothing_behind_while_a_signature_is_being_compiled, Ends) {
  Op("EndsSlowMade", "slow");
  constexpr int kCalls = 400;
  for (int i = 0; i < kCalls; ++i) ops::Neg(root.WithOpName(StrCat("neg", i)), x);
  auto session = NewSession(root);
  may_make = false;
  RunOptions options;
  options.timeout_ms = 1;
  // One who waits has the constructor begun.
  std::promise<absl::Status> first;
  session->RunAsync(feeds, {"slow"}, {}, [&](absl::Status s, std::vector<Tensor>) { first.set_value(std::move(s)); });
  BOOST_TEST(Soon([] { return being_made == 1; }));
  const Tensor value = Tensor::Scalar(1.0f);
  // The same signature again and again, and a new one each time.
  for (const bool same : {true, false}) {
    for (int i = 0; i < kCalls; ++i) {
      std::promise<absl::Status> done;
      session->RunAsync(options, {{"x", value}}, {same ? "slow" : StrCat("neg", i)}, {},
                        [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
      auto answer = done.get_future();
      BOOST_REQUIRE((answer.wait_for(60s) == std::future_status::ready));
      BOOST_TEST(answer.get().code() == absl::StatusCode::kDeadlineExceeded);
      BOOST_TEST(value.BufferUnique());
    }
  }
  {
    caf::scoped_actor self(ActorOf(*session)->home_system());
    self->request(ActorOf(*session), 60s, get_session_stats{})
        .receive([](const session_stats& s) { BOOST_TEST(s.calls_waiting <= 70u); },
                 [](const caf::error& e) { BOOST_ERROR(caf::to_string(e)); });
  }
  may_make = true;
  // Who has given up does not spoil the signature for others.
  auto answer = first.get_future();
  BOOST_REQUIRE((answer.wait_for(60s) == std::future_status::ready));
  TROUPE_REQUIRE_OK(answer.get());
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run(feeds, {"slow"}, {}, &out));
  TROUPE_REQUIRE_OK(session->Run(feeds, {"neg7"}, {}, &out));
}

// Though the worker outlives the session: the kernel may be the user's, and know of the session's
// end.
BOOST_FIXTURE_TEST_CASE(a_sessions_end_waits_for_a_kernel_that_a_worker_makes, Ends) {
  Op("EndsSlowMade", "slow");
  SessionOptions options;
  options.runtime = Runtime::Start({.threads = 1}).value();
  auto session = NewSession(root, options);
  may_make = false;
  std::promise<absl::Status> done;
  session->RunAsync(feeds, {"slow"}, {}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(std::move(s)); });
  BOOST_TEST(Soon([] { return being_made == 1; }));
  auto ended = std::async(std::launch::async, [&] { session = nullptr; });
  BOOST_TEST((done.get_future().get().code() == absl::StatusCode::kCancelled));
  BOOST_TEST((ended.wait_for(100ms) == std::future_status::timeout));
  may_make = true;
  ended.get();
  BOOST_TEST(being_made == 0);
}

BOOST_FIXTURE_TEST_CASE(a_requests_deadline_holds_while_its_signature_is_being_compiled, Ends) {
  Op("EndsSlowMade", "slow");
  auto session = NewSession(root);
  may_make = false;
  {
    caf::scoped_actor self(ActorOf(*session)->home_system());
    run_request request;
    request.feeds = feeds;
    request.fetches = {"slow"};
    request.options.timeout_ms = 5;
    absl::Status answer;
    self->request(ActorOf(*session), caf::timespan(20s), request)
        .receive([&](run_reply& r) { answer = r.status; },
                 [&](caf::error& e) { answer = absl::UnknownError(caf::to_string(e)); });
    BOOST_TEST(answer.code() == absl::StatusCode::kDeadlineExceeded, answer);
  }
  may_make = true;
}

BOOST_FIXTURE_TEST_CASE(what_need_not_wait_may_be_called_in_a_callback, Ends) {
  auto session = NewSession(root, {.lend_thread_us = 0});  // on a thread of the runtime
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run(feeds, {"twice"}, {}, &out));
  std::promise<std::vector<absl::Status>> done;
  session->RunAsync(feeds, {"twice"}, {}, [&](absl::Status s, std::vector<Tensor>) {
    std::vector<absl::Status> all = {s};
    // May be called.
    all.push_back(Session::Create().status());
    all.push_back(session->Prepare({"x"}, {"twice"}, {}).status());
    auto handle = session->PartialRunSetup({"x"}, {"twice"}, {});
    all.push_back(handle.status());
    if (handle.ok()) all.push_back(session->PartialRunCancel(*handle));
    // Has to wait.
    all.push_back(session->Prepare({"x"}, {"x"}, {}).status());
    all.push_back(session->PartialRunSetup({"x"}, {"x"}, {}).status());
    all.push_back(session->PartialRun("partial/1", feeds, {"twice"}, nullptr));
    all.push_back(session->Extend(*root.graph()));
    all.push_back(session->Reset({""}));
    all.push_back(session->Run(feeds, {"twice"}, {}, nullptr));
    done.set_value(std::move(all));
  });
  auto answer = done.get_future();
  BOOST_REQUIRE((answer.wait_for(60s) == std::future_status::ready));
  const std::vector<absl::Status> all = answer.get();
  BOOST_REQUIRE(all.size() == 11u);
  for (size_t i = 0; i < 5; ++i) BOOST_TEST(all[i].ok(), i << ": " << all[i]);
  for (size_t i = 5; i < 11; ++i)
    BOOST_TEST(all[i].code() == absl::StatusCode::kFailedPrecondition, i << ": " << all[i]);
}

}  // namespace ends_test
}  // namespace troupe
