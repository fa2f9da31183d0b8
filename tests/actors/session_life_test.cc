// A session's life: its graph grows, signatures are compiled aside and kept within bounds, and its
// end is the end of all that it does.
#include <malloc.h>

#include <condition_variable>
#include <future>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_master.h"
#include "tests/actors/graphs.h"
#include "tests/sanitizers/sanitized.h"
#include "troupe/actors.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/shape_inference.h"
#include "troupe/troupe.h"

namespace troupe {
namespace session_life_test {

using namespace std::chrono_literals;

// Constructors of TestSlowToMake wait until the gate is open; how many have been begun is counted.
struct Gate {
  std::mutex mu;
  std::condition_variable changed;
  bool open = true;
  int begun = 0;
  void Set(bool to) {
    std::lock_guard<std::mutex> lock(mu);
    open = to;
    begun = 0;
    changed.notify_all();
  }
  void Pass() {
    std::unique_lock<std::mutex> lock(mu);
    ++begun;
    changed.notify_all();
    changed.wait_for(lock, 60s, [&] { return open; });
  }
  bool AwaitBegun(int n) {
    std::unique_lock<std::mutex> lock(mu);
    return changed.wait_for(lock, 60s, [&] { return begun >= n; });
  }
  int Begun() {
    std::lock_guard<std::mutex> lock(mu);
    return begun;
  }
} gate;

#define TROUPE_LIFE_OP(name) \
  TROUPE_OP(name).Input("x: float").Output("y: float").Stateful().NotDifferentiable("it is a test's")

TROUPE_LIFE_OP("TestSlowToMake").Doc("Its kernel's constructor waits.");
class SlowToMake {
 public:
  explicit SlowToMake(KernelInit&) { gate.Pass(); }
  absl::Status Compute(KernelContext& c) {
    c.set_output(0, c.TakeInput(0));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("TestSlowToMake").Device("CPU").Class<SlowToMake>();

TROUPE_LIFE_OP("TestThrowsWhenMade").Doc("Its kernel's constructor throws.");
class ThrowsWhenMade {
 public:
  explicit ThrowsWhenMade(KernelInit&) { throw std::runtime_error("the model file is missing"); }
  absl::Status Compute(KernelContext&) { return absl::OkStatus(); }
};
TROUPE_KERNEL("TestThrowsWhenMade").Device("CPU").Class<ThrowsWhenMade>();

std::atomic<bool> shapes_throw{false};
TROUPE_LIFE_OP("TestShapeThrows")
    .Shape([](InferenceContext& c) -> absl::Status {
      if (shapes_throw) throw std::runtime_error("no shape today");
      c.set_output(0, c.input(0));
      return absl::OkStatus();
    })
    .Doc("Its shape function throws when it is told to.");
TROUPE_KERNEL("TestShapeThrows").Device("CPU").Class<SlowToMake>();

// Waits for the step's end.
TROUPE_LIFE_OP("TestWaitsForTheEnd").Doc("Waits for what nobody sends.");
class WaitsForTheEnd {
 public:
  explicit WaitsForTheEnd(KernelInit&) {}
  void ComputeAsync(KernelContext& c, DoneFn done) {
    c.step()->cancellations.Register([done] { done(absl::CancelledError("the step ended")); });
  }
};
TROUPE_KERNEL("TestWaitsForTheEnd").Device("CPU").Class<WaitsForTheEnd>();

struct Life {
  Output Op(const char* op, const char* name) {
    auto n = NodeBuilder(root.graph(), name, op).Input(NodeOut{x.node(), x.index()}).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    return Output({*n, 0}, x.scope_state());
  }
  // The answer of an asynchronous step.
  std::future<absl::Status> Start(Session& s, const Names& fetches, const RunOptions& options = {}) {
    auto answer = std::make_shared<std::promise<absl::Status>>();
    s.RunAsync(options, feeds, fetches, {}, [answer](absl::Status st, std::vector<Tensor>) { answer->set_value(st); });
    return answer->get_future();
  }
  static absl::Status Get(std::future<absl::Status> f) {
    if (f.wait_for(60s) != std::future_status::ready) return absl::UnknownError("no answer");
    return f.get();
  }
  ~Life() { gate.Set(true); }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), twice = ops::Add(root.WithOpName("twice"), x, x);
  Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
};

BOOST_FIXTURE_TEST_CASE(many_who_ask_for_the_same_signature_get_one, Life) {
  Op("TestSlowToMake", "slow");
  auto session = NewSession(root);
  gate.Set(false);
  std::vector<std::future<absl::Status>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(Start(*session, {"slow"}));
  std::vector<std::thread> blocked;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    blocked.emplace_back([&] {
      std::vector<Tensor> out;
      good += session->Run(feeds, {"slow"}, {}, &out).ok();
    });
  }
  BOOST_REQUIRE(gate.AwaitBegun(1));
  {
    std::lock_guard<std::mutex> lock(gate.mu);
    gate.open = true;
    gate.changed.notify_all();
  }
  for (auto& a : answers) TROUPE_REQUIRE_OK(Get(std::move(a)));
  for (auto& t : blocked) t.join();
  BOOST_TEST(good == 4);
  BOOST_TEST(gate.Begun() == 1);
}

BOOST_FIXTURE_TEST_CASE(a_session_answers_while_it_compiles, Life) {
  Op("TestSlowToMake", "slow");
  Op("TestWaitsForTheEnd", "never");
  SessionOptions in;
  in.runtime = Runtime::Start({.threads = 1}).value();
  auto session = NewSession(root, in), other = NewSession(root, in);
  TROUPE_REQUIRE_OK(session->Prepare({"x"}, {"twice"}, {}).status());
  auto running = Start(*session, {"never"});
  for (int i = 0; i < 60000 && session->RunningSteps().empty(); ++i) std::this_thread::sleep_for(1ms);
  gate.Set(false);
  auto slow = Start(*session, {"slow"});
  BOOST_REQUIRE(gate.AwaitBegun(1));
  // Known signatures by the actor's message, reports, and other sessions of the runtime.
  {
    caf::scoped_actor self(*in.runtime->impl()->system);
    float value = 0;
    self->request(ActorOf(*session), 60s, run_request{feeds, {"twice"}, {}, {}})
        .receive([&](const run_reply& r) { value = r.outputs.at(0).scalar<float>(); }, [](caf::error&) {});
    BOOST_TEST(value == 2.0f);
  }
  BOOST_TEST(!session->RunningSteps().empty());
  TROUPE_REQUIRE_OK(other->Prepare({"x"}, {"twice"}, {}).status());
  // Close ends the compile for its caller, and the step that runs; work that is queued behind it,
  // too.
  auto behind = Start(*session, {"x", "twice"});
  std::promise<absl::Status> extended;
  std::thread extender([&] { extended.set_value(session->Extend(*root.graph())); });
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST((Get(std::move(slow)).code() == absl::StatusCode::kCancelled));
  BOOST_TEST((Get(std::move(behind)).code() == absl::StatusCode::kCancelled));
  BOOST_TEST((Get(std::move(running)).code() == absl::StatusCode::kCancelled));
  BOOST_TEST((Get(extended.get_future()).code() == absl::StatusCode::kCancelled));
  extender.join();
  gate.Set(true);
}

BOOST_FIXTURE_TEST_CASE(a_compile_that_nobody_waits_for_ends_before_its_next_pass, Life) {
  Op("TestSlowToMake", "slow");
  Op("TestSlowToMake", "second");
  auto session = NewSession(root);
  gate.Set(false);
  auto first = Start(*session, {"slow"});
  BOOST_REQUIRE(gate.AwaitBegun(1));
  std::vector<Tensor> out;
  const absl::Status late = session->Run({.timeout_ms = 1}, feeds, {"second"}, {}, &out, nullptr);
  BOOST_TEST((late.code() == absl::StatusCode::kDeadlineExceeded), late);
  gate.Set(true);
  TROUPE_REQUIRE_OK(Get(std::move(first)));
  // Its turn comes before that of the next, which shows that it is over; its kernel was never made.
  gate.Set(true);
  TROUPE_REQUIRE_OK(session->Run(feeds, {"twice"}, {}, &out));
  BOOST_TEST(gate.Begun() == 0);
  TROUPE_REQUIRE_OK(session->Run(feeds, {"second"}, {}, &out));
  BOOST_TEST(gate.Begun() == 1);
}

BOOST_FIXTURE_TEST_CASE(an_exception_while_compiling_is_that_calls_error, Life) {
  Op("TestThrowsWhenMade", "throws");
  Op("TestShapeThrows", "shape");
  Op("TestWaitsForTheEnd", "never");
  SessionOptions in;
  in.runtime = Runtime::Start({.threads = 2}).value();
  auto session = NewSession(root, in), innocent = NewSession(root, in);
  auto running = Start(*innocent, {"never"});
  std::vector<Tensor> out;
  const auto fails = [&](const char* fetch, const char* part) {
    const absl::Status s = session->Run(feeds, {fetch}, {}, &out);
    BOOST_TEST((s.code() == absl::StatusCode::kInternal), s);
    BOOST_TEST(s.ToString().find(part) != std::string::npos, s);
  };
  for (int i = 0; i < 12; ++i) fails("throws", "the model file is missing");
  shapes_throw = true;
  {
    // What runs the shape functions is the pass that places by cost.
    SessionOptions by_cost = in;
    by_cost.use_cost_model = true;
    auto s = NewSession(root, by_cost);
    const absl::Status status = s->Run(feeds, {"shape"}, {}, &out);
    BOOST_TEST((status.ok() || status.ToString().find("no shape today") != std::string::npos), status);
  }
  shapes_throw = false;
  // A callback that throws is its own affair.
  std::promise<void> thrown;
  session->RunAsync(feeds, {"nix"}, {}, [&](absl::Status, std::vector<Tensor>) {
    thrown.set_value();
    throw std::runtime_error("a callback's");
  });
  BOOST_REQUIRE(thrown.get_future().wait_for(60s) == std::future_status::ready);
  TROUPE_REQUIRE_OK(session->Run(feeds, {"twice"}, {}, &out));
  TROUPE_REQUIRE_OK(innocent->Run(feeds, {"twice"}, {}, &out));
  BOOST_TEST((running.wait_for(0s) == std::future_status::timeout));
  BOOST_TEST(in.runtime->impl()->directory->Incarnation(WorkerName(in.runtime->impl()->tasks[0].name)) == 1u);
  innocent = nullptr;
  BOOST_TEST((Get(std::move(running)).code() == absl::StatusCode::kCancelled));
}

BOOST_FIXTURE_TEST_CASE(parts_graphs_are_made_for_who_asks, Life) {
  auto session = NewSession(root);
  std::vector<Tensor> out;
  for (int i = 0; i < 2; ++i) {
    proto::RunMetadata metadata;
    TROUPE_REQUIRE_OK(session->Run({.partition_graphs = true}, feeds, {"twice"}, {}, &out, &metadata));
    BOOST_TEST(metadata.partition_graphs_size() == 1);
    BOOST_TEST(out.at(0).scalar<float>() == 2.0f);
  }
}

BOOST_FIXTURE_TEST_CASE(extend_skips_equal_nodes_and_refuses_others_all_or_nothing, Life) {
  auto session = NewSession(root);
  std::vector<Tensor> out;
  // The graph grew.
  ops::Neg(root.WithOpName("minus"), twice);
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  TROUPE_REQUIRE_OK(session->Run(feeds, {"minus"}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == -2.0f);
  const auto refused = [&](const Scope& other, const std::vector<std::string>& parts) {
    BOOST_REQUIRE_MESSAGE(other.ok(), other.status());
    const absl::Status s = session->Extend(*other.graph());
    BOOST_TEST((s.code() == absl::StatusCode::kAlreadyExists), s);
    for (const std::string& part : parts) BOOST_TEST(s.ToString().find(part) != std::string::npos, s);
    // Nothing of it has come.
    BOOST_TEST((session->Run(feeds, {"fresh"}, {}, &out).code() == absl::StatusCode::kNotFound));
  };
  const auto with_x = [](DType dtype) {
    Scope s = Scope::NewRootScope();
    ops::Neg(s.WithOpName("fresh"), ops::Placeholder(s.WithOpName("x"), dtype));
    return s;
  };
  {
    Scope s = with_x(DType::kFloat);
    ops::Neg(s.WithOpName("twice"), ops::Neg(s, 1.0f));
    refused(s, {"'twice'", "op", "Add", "Neg"});
  }
  refused(with_x(DType::kInt32), {"'x'", "'dtype'", "float32", "int32"});
  {
    Scope s = with_x(DType::kFloat);
    const Output y = ops::Placeholder(s.WithOpName("y"), DType::kFloat);
    ops::Add(s.WithOpName("twice"), y, y);
    refused(s, {"'twice'", "input 0", "'x:0'", "'y:0'"});
  }
  {
    Scope s = Scope::NewRootScope();
    const Output fresh = ops::Neg(s.WithOpName("fresh"), 1.0f);
    ops::Placeholder(s.WithOpName("x").WithControlDependencies(fresh), DType::kFloat);
    refused(s, {"'x'", "control inputs", "fresh"});
  }
  {
    Scope s = Scope::NewRootScope();
    ops::Neg(s.WithOpName("fresh"), 1.0f);
    ops::Placeholder(s.WithOpName("x").WithDevice("/device:CPU:0"), DType::kFloat);
    refused(s, {"'x'", "device", "/device:CPU:0"});
  }
  // Another graph whose nodes of these names are equal is none the worse for not being the same.
  Scope equal = with_x(DType::kFloat);
  TROUPE_REQUIRE_OK(session->Extend(*equal.graph()));
  TROUPE_REQUIRE_OK(session->Run(feeds, {"fresh", "minus"}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == -1.0f);
}

BOOST_FIXTURE_TEST_CASE(signatures_are_bounded_and_the_one_used_least_recently_goes_first, Life) {
  for (const char* name : {"a", "b", "c", "d"}) Op("TestSlowToMake", name);
  gate.Set(true);
  SessionOptions options;
  options.max_signatures = 2;
  auto session = NewSession(root, options);
  std::vector<Tensor> out;
  const auto run = [&](const char* name) {
    TROUPE_REQUIRE_OK(session->Run(feeds, {name}, {}, &out));
    return gate.Begun();
  };
  BOOST_TEST(run("a") == 1);
  BOOST_TEST(run("b") == 2);
  BOOST_TEST(run("a") == 2);
  BOOST_TEST(run("c") == 3);  // b goes
  BOOST_TEST(run("a") == 3);
  BOOST_TEST(run("b") == 4);  // c goes
  BOOST_TEST(run("a") == 4);
  // A Callable keeps its own, and Close ends what runs by it.
  const Callable kept = session->Prepare({"x"}, {"d"}, {}).value();
  for (const char* name : {"a", "b", "c"}) run(name);
  const int before = gate.Begun();
  TROUPE_REQUIRE_OK(kept.Run({feeds[0].second}, &out));
  BOOST_TEST(gate.Begun() == before);
  for (int i = 0; i < 100; ++i) run(i % 2 == 0 ? "c" : "d");
  options.max_signatures = -1;
  BOOST_TEST((Session::Create(options).status().code() == absl::StatusCode::kInvalidArgument));
}

BOOST_FIXTURE_TEST_CASE(a_step_of_a_signature_that_went_ends_with_the_session, Life) {
  Op("TestWaitsForTheEnd", "never");
  SessionOptions options;
  options.max_signatures = 1;
  auto session = NewSession(root, options);
  auto running = Start(*session, {"never"});
  for (int i = 0; i < 60000 && session->RunningSteps().empty(); ++i) std::this_thread::sleep_for(1ms);
  TROUPE_REQUIRE_OK(session->Prepare({"x"}, {"twice"}, {}).status());
  BOOST_TEST(!session->RunningSteps().empty());  // it is still known
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST((Get(std::move(running)).code() == absl::StatusCode::kCancelled));
}

BOOST_FIXTURE_TEST_CASE(the_end_of_a_session_in_a_handler_ends_its_steps, Life) {
  Op("TestWaitsForTheEnd", "never");
  for (const bool killed : {true, false}) {  // while its actor is being restarted, too
    std::weak_ptr<Runtime> runtime;
    {
      SessionOptions in;
      in.runtime = Runtime::Start({.threads = 2}).value();
      runtime = in.runtime;
      auto session = NewSession(root, in);
      const Callable never = session->Prepare({"x"}, {"never"}, {}).value();
      auto one = Start(*session, {"never"}), two = Start(*session, {"never"}, {.timeout_ms = 100000});
      for (int i = 0; i < 60000 && session->RunningSteps().size() < 2; ++i) std::this_thread::sleep_for(1ms);
      if (killed) caf::anon_send_exit(ActorOf(*session), caf::exit_reason::kill);
      auto owned = std::make_shared<std::unique_ptr<Session>>(std::move(session));
      caf::scoped_actor self(*in.runtime->impl()->system);
      // CAF 0.17 binds a reference to an actor's arguments, to nothing where there are none.
      const auto behavior = [owned](caf::event_based_actor*, int) -> caf::behavior {
        return {[owned](int) { *owned = nullptr; }};
      };
      const caf::actor a = self->spawn(behavior, 0);
      self->request(a, 60s, 1).receive([] {}, [](caf::error&) {});
      self->send_exit(a, caf::exit_reason::user_shutdown);
      BOOST_TEST((Get(std::move(one)).code() == absl::StatusCode::kCancelled));
      BOOST_TEST((Get(std::move(two)).code() == absl::StatusCode::kCancelled));
      std::vector<Tensor> out;
      BOOST_TEST((never.Run({feeds[0].second}, &out).code() == absl::StatusCode::kCancelled));
    }
    for (int i = 0; i < 60000 && !runtime.expired(); ++i) std::this_thread::sleep_for(1ms);
    BOOST_TEST(runtime.expired());
  }
}

BOOST_FIXTURE_TEST_CASE(partial_runs_can_be_given_up_and_are_bounded, Life) {
  Op("TestWaitsForTheEnd", "never");
  SessionOptions options;
  options.max_partial_runs = 3;
  auto session = NewSession(root, options);
  const auto set_up = [&](int64_t timeout_ms = 0) {
    return session->PartialRunSetup({.timeout_ms = timeout_ms}, {"x"}, {"twice", "never"}, {});
  };
  const std::string a = set_up().value(), b = set_up().value(), c = set_up(1).value();
  // One whose deadline ended it makes room; its error is told once.
  absl::StatusOr<std::string> d = set_up();
  for (int i = 0; i < 60000 && !d.ok(); ++i) {
    BOOST_TEST((d.status().code() == absl::StatusCode::kResourceExhausted), d.status());
    std::this_thread::sleep_for(1ms);
    d = set_up();
  }
  TROUPE_REQUIRE_OK(d.status());
  std::vector<Tensor> out;
  BOOST_TEST((session->PartialRun(c, feeds, {"twice"}, &out).code() == absl::StatusCode::kDeadlineExceeded));
  BOOST_TEST((session->PartialRun(c, feeds, {"twice"}, &out).code() == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((set_up().status().code() == absl::StatusCode::kResourceExhausted));
  // Giving up makes room at once, and ends a call that waits.
  TROUPE_REQUIRE_OK(session->PartialRunCancel(a));
  BOOST_TEST((session->PartialRunCancel(a).code() == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((session->PartialRun(a, feeds, {"twice"}, &out).code() == absl::StatusCode::kInvalidArgument));
  TROUPE_REQUIRE_OK(set_up().status());
  std::promise<absl::Status> ended;
  std::thread waits([&] {
    std::vector<Tensor> mine;
    ended.set_value(session->PartialRun(b, feeds, {"never"}, &mine));
  });
  for (int i = 0; i < 60000; ++i) {
    const std::vector<std::string> lines = session->RunningSteps();
    if (std::any_of(lines.begin(), lines.end(),
                    [](const std::string& l) { return l.find("'never'") != std::string::npos; }))
      break;
    std::this_thread::sleep_for(1ms);
  }
  TROUPE_REQUIRE_OK(session->PartialRunCancel(b));
  BOOST_TEST((Get(ended.get_future()).code() == absl::StatusCode::kCancelled));
  waits.join();
}

// Nobody ever asks for the rest of a partial run that fetches nothing: it makes room when its step
// has ended.
BOOST_FIXTURE_TEST_CASE(partial_runs_of_targets_alone_make_room_when_they_have_ended, Life) {
  ops::NoOp(root.WithOpName("done"));
  Op("TestWaitsForTheEnd", "never");
  SessionOptions options;
  options.max_partial_runs = 2;
  auto session = NewSession(root, options);
  const std::string open = session->PartialRunSetup({"x"}, {"never"}, {}).value();
  for (int run = 0; run < 20; ++run) {
    absl::StatusOr<std::string> handle = session->PartialRunSetup({}, {}, {"done"});
    for (int i = 0; i < 60000 && !handle.ok(); ++i) {
      BOOST_REQUIRE_MESSAGE(handle.status().code() == absl::StatusCode::kResourceExhausted, handle.status());
      std::this_thread::sleep_for(1ms);
      handle = session->PartialRunSetup({}, {}, {"done"});
    }
    TROUPE_REQUIRE_OK(handle.status());
  }
  // One that still has a fetch to give is kept.
  TROUPE_REQUIRE_OK(session->PartialRunCancel(open));
}

// Nobody could be told how such a step ends: it does not begin, whether its signature is there
// already or not.
BOOST_FIXTURE_TEST_CASE(a_step_without_a_callback_is_not_run, Life) {
  const Variable w(root.WithOpName("w"), 0.0f);
  const Output up = w.AssignAdd(root.WithOpName("up"), 1.0f);
  auto session = NewSession(root);
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {}, {w.initializer().name()}, nullptr));
  session->RunAsync({}, {up.name()}, {}, nullptr);
  TROUPE_REQUIRE_OK(session->Run({}, {up.name()}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 1.0f);
  session->RunAsync({}, {up.name()}, {}, nullptr);
  const Callable callable = session->Prepare({}, {up.name()}, {}).value();
  callable.RunAsync({}, RunCallback());
  Callable().RunAsync({}, RunCallback());
  TROUPE_REQUIRE_OK(callable.Run({}, &out));
  BOOST_TEST(out[0].scalar<float>() == 2.0f);
}

BOOST_FIXTURE_TEST_CASE(an_empty_callable_says_so, Life) {
  Callable empty;
  std::vector<Tensor> out;
  BOOST_TEST((empty.Run({}, &out).code() == absl::StatusCode::kFailedPrecondition));
  BOOST_TEST((empty.Run({}, {}, &out).code() == absl::StatusCode::kFailedPrecondition));
  absl::Status status;
  empty.RunAsync({}, [&](absl::Status s, std::vector<Tensor>) { status = s; });
  BOOST_TEST((status.code() == absl::StatusCode::kFailedPrecondition), status);
  auto session = NewSession(root);
  Callable c = session->Prepare({"x"}, {"twice"}, {}).value();
  const Callable moved = std::move(c);
  TROUPE_REQUIRE_OK(moved.Run({feeds[0].second}, &out));
  BOOST_TEST((c.Run({feeds[0].second}, &out).code() == absl::StatusCode::kFailedPrecondition));
}

#if !TROUPE_TEST_ASAN  // which has its own malloc
BOOST_FIXTURE_TEST_CASE(a_session_that_has_ended_leaves_no_memory_behind, Life) {
  SessionOptions options;
  options.runtime = *Runtime::Start({.threads = 1});
  const auto run = [&](int sessions) {
    for (int i = 0; i < sessions; ++i) {
      auto session = NewSession(root, options);
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(session->Run(feeds, {"twice"}, {}, &out));
    }
    return static_cast<int64_t>(mallinfo2().uordblks);
  };
  const int64_t before = run(300);
  constexpr int kMore = 600;
  const int64_t each = (run(kMore) - before) / kMore;
  BOOST_TEST(each < 200);
}
#endif

}  // namespace session_life_test
}  // namespace troupe
