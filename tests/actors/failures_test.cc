// What goes wrong in a step, and what is left afterwards.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/troupe.h"

namespace troupe {
namespace failures_test {

using namespace std::chrono_literals;

// Ops of this test: one that throws, one that never answers, one that takes its time.
TROUPE_OP("TestThrow").Input("x: float").Output("y: float").Stateful().NotDifferentiable("it fails").Doc("Throws.");
absl::Status Throw(KernelContext&) { throw std::runtime_error("boom"); }
TROUPE_KERNEL("TestThrow").Device("CPU").Function<Throw>();

TROUPE_OP("TestNever")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it never ends")
    .Doc("Waits for the step's end.");
class Never {
 public:
  explicit Never(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.step()->cancellations.Register([done] { done(absl::CancelledError("the step ended")); });
  }
};
TROUPE_KERNEL("TestNever").Device("CPU").Class<Never>();

TROUPE_OP("TestSleep")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it sleeps")
    .Doc("Sleeps 20 ms.");
absl::Status Sleep(KernelContext& ctx) {
  std::this_thread::sleep_for(20ms);
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("TestSleep").Device("CPU").Function<Sleep>();

TROUPE_OP("TestBusy")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it waits")
    .Doc("Keeps its thread until `busy_over`.");
std::promise<void> busy_over;
absl::Status Busy(KernelContext& ctx) {
  busy_over.get_future().wait_for(20s);
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("TestBusy").Device("CPU").Function<Busy>();

Output TestOp(const Scope& root, const char* op, const Output& x) {
  auto n = NodeBuilder(root.graph(), op, op).Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE(n.ok());
  return Output({*n, 0}, x.scope_state());
}

struct Fixture {
  Fixture() : x(ops::Placeholder(root.WithOpName("x"), DType::kFloat)), twice(ops::Add(root, x, x)) {}
  void StillWorks(Session& s) { BOOST_TEST(RunOne(s, {{"x", Tensor::Scalar(2.0f)}}, twice).scalar<float>() == 4.0f); }
  Scope root = Scope::NewRootScope();
  Output x, twice;
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
};

BOOST_FIXTURE_TEST_CASE(an_exception_fails_its_step_with_an_address, Fixture) {
  const Output bad = TestOp(root, "TestThrow", x);
  auto session = NewSession(root);
  std::vector<Tensor> out;
  const absl::Status s = session->Run(feeds, {bad.name()}, {}, &out);
  BOOST_TEST(s.code() == absl::StatusCode::kInternal);
  BOOST_TEST(std::string(s.message())
                 .find("node 'TestThrow' (TestThrow) on /job:localhost/replica:0/task:0/device:CPU:0: the kernel threw "
                       "an exception: boom") != std::string::npos);
  StillWorks(*session);
}

BOOST_FIXTURE_TEST_CASE(a_deadline_names_what_the_step_waits_for, Fixture) {
  const Output never = TestOp(root, "TestNever", x);
  auto session = NewSession(root);
  std::vector<Tensor> out;
  RunOptions options;
  options.timeout_ms = 300;  // compiling included
  const auto start = std::chrono::steady_clock::now();
  const absl::Status s = session->Run(options, feeds, {never.name()}, {}, &out, nullptr);
  BOOST_TEST(s.code() == absl::StatusCode::kDeadlineExceeded);
  BOOST_TEST(std::string(s.message()).find("'TestNever'") != std::string::npos, s);
  BOOST_TEST((std::chrono::steady_clock::now() - start < 5s));
  StillWorks(*session);
}

// The part cannot answer while its turn lasts; the report comes all the same, and names the kernel.
BOOST_FIXTURE_TEST_CASE(a_kernel_that_keeps_its_turn_is_reported_while_it_runs, Fixture) {
  const Output busy = TestOp(root, "TestBusy", x);
  for (const bool blocking : {true, false}) {
    busy_over = std::promise<void>();
    std::string report;
    SessionOptions options;
    options.stall_report_ms = 40;
    options.on_stall = [&](const std::string& text) {
      if (!report.empty()) return;
      report = text;
      busy_over.set_value();
    };
    auto session = NewSession(root, options);
    std::vector<Tensor> out;
    if (blocking) {
      TROUPE_REQUIRE_OK(session->Run(feeds, {busy.name()}, {}, &out));
    } else {
      std::promise<absl::Status> done;
      session->RunAsync(feeds, {busy.name()}, {}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(s); });
      TROUPE_REQUIRE_OK(done.get_future().get());
    }
    BOOST_TEST(report.find(
                   "it waits for:\n  the part on /job:localhost/replica:0/task:0/device:CPU:0 has not answered for ") !=
                   std::string::npos,
               report);
    BOOST_TEST(
        report.find("; the kernel that it called last is that of node 'TestBusy' (TestBusy)") != std::string::npos,
        report);
  }
}

BOOST_FIXTURE_TEST_CASE(a_token_cancels_a_waiting_step, Fixture) {
  const Output never = TestOp(root, "TestNever", x);
  auto session = NewSession(root);
  CancellationToken token;
  std::thread canceller([&] {
    std::this_thread::sleep_for(30ms);
    token.Cancel();
  });
  RunOptions options;
  options.cancellation = &token;
  std::vector<Tensor> out;
  const absl::Status s = session->Run(options, feeds, {never.name()}, {}, &out, nullptr);
  canceller.join();
  BOOST_TEST(s.code() == absl::StatusCode::kCancelled);
  StillWorks(*session);
}

BOOST_FIXTURE_TEST_CASE(close_cancels_what_runs, Fixture) {
  const Output never = TestOp(root, "TestNever", x);
  auto session = NewSession(root);
  std::promise<absl::Status> done;
  session->RunAsync(feeds, {never.name()}, {}, [&](absl::Status s, std::vector<Tensor>) { done.set_value(s); });
  std::this_thread::sleep_for(50ms);
  TROUPE_REQUIRE_OK(session->Close());
  TROUPE_REQUIRE_OK(session->Close());
  auto future = done.get_future();
  BOOST_REQUIRE((future.wait_for(10s) == std::future_status::ready));
  BOOST_TEST(future.get().code() == absl::StatusCode::kCancelled);
  std::vector<Tensor> out;
  BOOST_TEST(session->Run(feeds, {twice.name()}, {}, &out).code() == absl::StatusCode::kCancelled);
}

BOOST_FIXTURE_TEST_CASE(a_blocking_run_inside_an_actor_is_refused, Fixture) {
  auto session = NewSession(root);
  std::promise<absl::Status> refused;
  session->RunAsync(feeds, {twice.name()}, {}, [&](absl::Status, std::vector<Tensor>) {
    std::vector<Tensor> out;
    refused.set_value(session->Run(feeds, {twice.name()}, {}, &out));
  });
  auto future = refused.get_future();
  BOOST_REQUIRE((future.wait_for(10s) == std::future_status::ready));
  BOOST_TEST(future.get().code() == absl::StatusCode::kFailedPrecondition);
}

BOOST_FIXTURE_TEST_CASE(bad_feeds_and_fetches_say_which_and_why, Fixture) {
  auto session = NewSession(root);
  std::vector<Tensor> out;
  const auto message = [&](const Feeds& f, const Names& fetches, const Names& targets) {
    const absl::Status s = session->Run(f, fetches, targets, &out);
    BOOST_TEST(!s.ok());
    return std::string(s.message());
  };
  BOOST_TEST(message({}, {twice.name()}, {}).find("placeholder 'x'") != std::string::npos);
  BOOST_TEST(message({{"x", Tensor::Scalar<int32_t>(1)}}, {twice.name()}, {}).find("float32") != std::string::npos);
  const std::string unknown = message(feeds, {"nix"}, {"nought"});
  BOOST_TEST(unknown.find("nix") != std::string::npos);
  BOOST_TEST(unknown.find("nought") != std::string::npos);
  BOOST_TEST(!message({{"x", Tensor::Scalar(1.0f)}, {"x:0", Tensor::Scalar(1.0f)}}, {twice.name()}, {}).empty());
  // Fetched twice is fine.
  TROUPE_REQUIRE_OK(session->Run(feeds, {twice.name(), twice.name()}, {}, &out));
  BOOST_TEST(out[1].scalar<float>() == 2.0f);
}

BOOST_FIXTURE_TEST_CASE(a_killed_device_or_container_actor_comes_back_and_variables_stay, Fixture) {
  Variable v(root.WithOpName("v"), 5.0f);
  const Output add = v.AssignAdd(root, 1.0f);
  const Output again = v.Read(root.WithOpName("again"));
  const Operation init = GlobalVariablesInitializer(root);
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {Operation(add).name()}, nullptr));
  Runtime::Impl& runtime = *session->runtime()->impl();
  const std::string device = runtime.devices[0]->name();
  for (const std::string& name : {"device:" + device, "container:" + device, WorkerName(runtime.tasks[0].name)}) {
    const uint64_t before = runtime.directory->Incarnation(name);
    caf::anon_send_exit(runtime.directory->Find(name), caf::exit_reason::kill);
    for (int i = 0; i < 500 && (runtime.directory->Incarnation(name) == before || !runtime.directory->Find(name));
         ++i) {
      std::this_thread::sleep_for(10ms);
    }
    BOOST_TEST(runtime.directory->Incarnation(name) == before + 1);
    BOOST_TEST(!!runtime.directory->Find(name));
  }
  BOOST_TEST(RunOne(*session, {}, again).scalar<float>() == 6.0f);
}

BOOST_FIXTURE_TEST_CASE(an_actor_runs_steps_by_messages, Fixture) {
  auto session = NewSession(root);
  caf::scoped_actor self(*session->runtime()->impl()->system);
  for (int i = 0; i < 3; ++i) {
    float value = 0;
    self->request(ActorOf(*session), 10s, run_request{{{"x", Tensor::Scalar(1.0f * i)}}, {twice.name()}, {}})
        .receive([&](const run_reply& r) { value = r.outputs.at(0).scalar<float>(); }, [](caf::error&) {});
    BOOST_TEST(value == 2.0f * i);
  }
  absl::Status status;
  self->request(ActorOf(*session), 10s, run_request{{}, {"nix"}, {}})
      .receive([&](const run_reply& r) { status = r.status; }, [](caf::error&) {});
  BOOST_TEST(status.code() == absl::StatusCode::kNotFound);
}

BOOST_FIXTURE_TEST_CASE(status_names_what_a_running_step_waits_for, Fixture) {
  const Output never = TestOp(root, "TestNever", x);
  auto session = NewSession(root);
  CancellationToken token;
  std::thread runner([&] {
    RunOptions options;
    options.cancellation = &token;
    std::vector<Tensor> out;
    BOOST_TEST(!session->Run(options, feeds, {never.name()}, {}, &out, nullptr).ok());
  });
  std::vector<std::string> lines;
  for (int i = 0; i < 5000 && lines.empty(); ++i) {
    std::this_thread::sleep_for(1ms);
    lines = session->RunningSteps();
  }
  token.Cancel();
  runner.join();
  BOOST_REQUIRE(!lines.empty());
  BOOST_TEST(lines[0].find("'TestNever'") != std::string::npos);
  StillWorks(*session);
}

BOOST_FIXTURE_TEST_CASE(blocking_and_asynchronous_runs_mix, Fixture) {
  auto session = NewSession(root);
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const Feeds f = {{"x", Tensor::Scalar(1.0f * i)}};
        if ((i + t) % 2 == 0) {
          session->RunAsync(f, {twice.name()}, {}, [&, i](absl::Status s, std::vector<Tensor> out) {
            if (!s.ok() || out[0].scalar<float>() != 2.0f * i) ++wrong;
            ++answered;
          });
        } else {
          std::vector<Tensor> out;
          if (!session->Run(f, {twice.name()}, {}, &out).ok() || out[0].scalar<float>() != 2.0f * i) ++wrong;
          ++answered;
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  for (int i = 0; i < 1000 && answered < 1200; ++i) std::this_thread::sleep_for(10ms);
  BOOST_TEST(answered == 1200);
  BOOST_TEST(wrong == 0);
}

BOOST_FIXTURE_TEST_CASE(a_partial_run_is_fed_and_fetched_piece_by_piece, Fixture) {
  const Output y = ops::Placeholder(root.WithOpName("y"), DType::kFloat), sum = ops::Add(root, twice, y);
  for (const bool messages : {false, true}) {
    SessionOptions options;
    options.token_messages = messages;
    auto session = NewSession(root, options);
    for (int i = 0; i < 3; ++i) {
      const auto handle = session->PartialRunSetup({"x", "y"}, {twice.name(), sum.name()}, {});
      BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
      std::vector<Tensor> out;
      const absl::Status early = session->PartialRun(*handle, {{"x", Tensor::Scalar(1.0f)}}, {sum.name()}, &out);
      BOOST_TEST(std::string(early.message()).find("depends on 'y'") != std::string::npos, early);
      TROUPE_REQUIRE_OK(session->PartialRun(*handle, {{"x", Tensor::Scalar(1.0f)}}, {twice.name()}, &out));
      BOOST_TEST(out.at(0).scalar<float>() == 2.0f);
      BOOST_TEST(!session->PartialRun(*handle, {{"x", Tensor::Scalar(1.0f)}}, {}, &out).ok());
      if (i == 1) continue;  // given up: the session ends it
      TROUPE_REQUIRE_OK(session->PartialRun(*handle, {{"y", Tensor::Scalar(5.0f)}}, {sum.name()}, &out));
      BOOST_TEST(out.at(0).scalar<float>() == 7.0f);
    }
    BOOST_TEST(!session->PartialRun("nix", {}, {}, nullptr).ok());
  }
}

BOOST_FIXTURE_TEST_CASE(stats_name_every_node, Fixture) {
  const Output slow = TestOp(root, "TestSleep", x);
  auto session = NewSession(root);
  RunOptions options;
  options.collect_stats = options.partition_graphs = true;
  proto::RunMetadata metadata;
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run(options, feeds, {slow.name()}, {}, &out, &metadata));
  BOOST_REQUIRE_EQUAL(metadata.step_stats().dev_stats_size(), 1);
  bool found = false;
  for (const auto& n : metadata.step_stats().dev_stats(0).node_stats()) {
    if (n.node_name() == "TestSleep") found = n.all_end_rel_micros() >= 19000;
  }
  BOOST_TEST(found);
  BOOST_TEST(metadata.partition_graphs_size() == 1);
}

}  // namespace failures_test
}  // namespace troupe
