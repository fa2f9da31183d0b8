// What the death of an actor costs, on real threads: what it was doing, and nothing else.
#include <fstream>
#include <future>
#include <random>
#include <set>
#include <thread>

#include <spdlog/spdlog.h>

#include "actors/messages.h"
#include "actors/runtime_impl.h"
#include "actors/session_actor.h"
#include "actors/step/blocking_step.h"
#include "tests/actors/graphs.h"
#include "tests/actors/signatures.h"
#include "troupe/actors.h"
#include "troupe/gradients.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

template <class F>
bool Soon(F f) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!f()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Kernels that wait until the test lets them go on, or their step ends.
struct Gate {
  std::mutex mu;
  std::vector<DoneFn> waiting;
  int begun = 0;
  int Begun() {
    std::lock_guard<std::mutex> lock(mu);
    return begun;
  }
  void Open() {
    std::vector<DoneFn> all;
    {
      std::lock_guard<std::mutex> lock(mu);
      all.swap(waiting);
      begun = 0;
    }
    for (const DoneFn& done : all) done(absl::OkStatus());
  }
} gate;

TROUPE_OP("DeathsGate")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it waits")
    .Doc("Hands x on when the test says so.");
class GateKernel {
 public:
  explicit GateKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.set_output(0, ctx.TakeInput(0));
    ctx.step()->cancellations.Register([done] { done(absl::CancelledError("the step ended")); });
    std::lock_guard<std::mutex> lock(gate.mu);
    gate.waiting.push_back(std::move(done));
    ++gate.begun;
  }
};
TROUPE_KERNEL("DeathsGate").Device("CPU").Class<GateKernel>();

constexpr int kDevices = 4;

RestartPolicy Quick() {
  RestartPolicy p;
  p.min_delay = p.max_delay = 1ms;
  p.max_failures = 1 << 30;
  return p;
}
RestartPolicy Slow() {
  RestartPolicy p;
  p.min_delay = p.max_delay = 1h;
  return p;
}

// On each device d of four: x<d> -> gate<d> -> out<d> = x + d; and from the second to the third:
// cross = -(gate of x1).
struct Deaths {
  Deaths() {
    for (int d = 0; d < kDevices; ++d) {
      const Scope s = root.WithDevice(Place(d));
      x.push_back(ops::Placeholder(s.WithOpName(StrCat("x", d)), DType::kFloat));
      out.push_back(ops::Add(s.WithOpName(StrCat("out", d)), GateOf(x[d], StrCat("gate", d), d),
                             ops::Const(s, static_cast<float>(d))));
    }
    const Output from = GateOf(x[1], "from", 1);
    cross = ops::Neg(root.WithDevice(Place(2)).WithOpName("cross"), from);
    plain = ops::Neg(root.WithDevice(Place(2)).WithOpName("plain"),
                     ops::Add(root.WithDevice(Place(1)).WithOpName("sum"), x[1], x[1]));
  }
  ~Deaths() {
    gate.Open();
    spdlog::set_level(before);
  }
  static std::string Place(int d) { return StrCat("/device:CPU:", d); }
  Output GateOf(const Output& in, const std::string& name, int d) {
    auto n = NodeBuilder(root.graph(), name, "DeathsGate").Input(NodeOut{in.node(), 0}).Device(Place(d)).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    return Output({*n, 0}, in.scope_state());
  }
  void Start(const CastPolicies& policies = {Quick(), Quick(), Quick(), Quick(), Quick()}, bool wire = false) {
    auto started = StartRuntime({.threads = 3, .cpu_devices = kDevices}, policies);
    BOOST_REQUIRE_MESSAGE(started.ok(), started.status());
    runtime = *std::move(started);
    options.runtime = runtime;
    options.wire_messages = wire;
    session = NewSession(root, options);
    options.runtime = nullptr;
  }
  std::string DeviceName(int d) const { return runtime->devices()[d].name; }
  caf::actor Find(const std::string& name) const {
    if (name == "supervisor") return runtime->impl()->root->actor();
    return runtime->impl()->directory->Find(name == "worker" ? WorkerName(runtime->impl()->tasks[0].name) : name);
  }
  void Kill(const caf::actor& actor) {
    BOOST_REQUIRE(!!actor);
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  }
  // Kills it, and waits for its next incarnation.
  void KillAndAwait(const std::string& name) {
    const caf::actor old = Find(name);
    Kill(old);
    BOOST_REQUIRE(Soon([&] {
      const caf::actor now = Find(name);
      return now && now != old;
    }));
  }
  void KillSessionAndAwait() {
    const caf::actor old = ActorOf(*session);
    Kill(old);
    BOOST_REQUIRE(Soon([&] {
      const caf::actor now = ActorOf(*session);
      return now && now != old;
    }));
  }

  // A step under way.
  struct Step {
    std::string what;
    std::set<int> devices;
    float value;
    std::future<std::pair<absl::Status, std::vector<Tensor>>> answer;
    bool over() const { return answer.wait_for(0s) == std::future_status::ready; }
  };
  using Answer = std::pair<absl::Status, std::vector<Tensor>>;
  static Feeds FeedsOf(int d) { return {{StrCat("x", d), Tensor::Scalar(10.0f * static_cast<float>(d))}}; }
  Step Async(Session& s, const std::string& fetch, int d, std::set<int> devices, float value) {
    auto answer = std::make_shared<std::promise<Answer>>();
    s.RunAsync(FeedsOf(d), {fetch}, {}, [answer](absl::Status st, std::vector<Tensor> o) {
      answer->set_value({std::move(st), std::move(o)});
    });
    return {"async " + fetch, std::move(devices), value, answer->get_future()};
  }
  Step Blocking(Session& s, const std::string& fetch, int d, std::set<int> devices, float value) {
    auto run = [&s, fetch, d] {
      Answer a;
      a.first = s.Run(FeedsOf(d), {fetch}, {}, &a.second);
      return a;
    };
    return {"blocking " + fetch, std::move(devices), value, std::async(std::launch::async, run)};
  }
  Step Partial(Session& s, const std::string& fetch, int d, std::set<int> devices, float value) {
    auto run = [&s, fetch, d] {
      Answer a;
      absl::StatusOr<std::string> handle = s.PartialRunSetup({StrCat("x", d)}, {fetch}, {});
      a.first = handle.ok() ? s.PartialRun(*handle, FeedsOf(d), {fetch}, &a.second) : handle.status();
      return a;
    };
    return {"partial " + fetch, std::move(devices), value, std::async(std::launch::async, run)};
  }

  const spdlog::level::level_enum before = [] {
    const auto level = spdlog::get_level();
    spdlog::set_level(spdlog::level::off);  // who dies here dies on purpose
    return level;
  }();
  Scope root = Scope::NewRootScope();
  std::vector<Output> x, out;
  Output cross, plain;
  std::shared_ptr<Runtime> runtime;
  SessionOptions options;
  std::unique_ptr<Session> session;
};

BOOST_FIXTURE_TEST_CASE(a_death_aborts_the_steps_that_have_a_part_there_and_no_others, Deaths) {
  for (const bool wire : {false, true}) {
    for (const std::string who : {"device", "container", "worker"}) {
      BOOST_TEST_CONTEXT(who << (wire ? " with messages as bytes" : "")) {
        Start({Quick(), Quick(), Quick(), Quick()}, wire);
        options.runtime = runtime;
        auto other = NewSession(root, options);
        std::vector<Step> steps;
        for (int d = 0; d < kDevices; ++d) {
          const std::string fetch = StrCat("out", d);
          const float value = 11.0f * static_cast<float>(d);
          steps.push_back(Async(*session, fetch, d, {d}, value));
          steps.push_back(Blocking(*other, fetch, d, {d}, value));
          steps.push_back(Partial(*session, fetch, d, {d}, value));
        }
        steps.push_back(Async(*session, "cross", 1, {1, 2}, -10.0f));
        steps.push_back(Blocking(*other, "cross", 1, {1, 2}, -10.0f));
        BOOST_REQUIRE(Soon([&] { return gate.Begun() == static_cast<int>(steps.size()); }));
        const std::string name = who == "worker" ? who : StrCat(who, ":", DeviceName(1));
        const uint64_t incarnation = runtime->devices()[1].incarnation;
        KillAndAwait(name);
        const auto concerned = [&](const Step& s) { return who == "worker" || s.devices.contains(1); };
        for (Step& s : steps) {
          if (!concerned(s)) continue;
          BOOST_REQUIRE_MESSAGE(s.answer.wait_for(60s) == std::future_status::ready, s.what);
          const absl::Status status = s.answer.get().first;
          BOOST_TEST(absl::IsAborted(status), s.what << ": " << status);
          BOOST_TEST(status.message().find(name) != std::string::npos, s.what << ": " << status);
        }
        std::this_thread::sleep_for(60ms);  // longer than the grace after which a step is answered
        for (const Step& s : steps) BOOST_TEST((concerned(s) || !s.over()), s.what);
        gate.Open();
        for (Step& s : steps) {
          if (concerned(s)) continue;
          BOOST_REQUIRE_MESSAGE(s.answer.wait_for(60s) == std::future_status::ready, s.what);
          const Answer a = s.answer.get();
          BOOST_TEST(a.first.ok(), s.what << ": " << a.first);
          if (a.first.ok()) BOOST_TEST(a.second.at(0).scalar<float>() == s.value);
        }
        // Only the death of its own actor gives a device another incarnation.
        BOOST_TEST((runtime->devices()[1].incarnation != incarnation) == (who == "device"));
        BOOST_TEST(runtime->devices()[0].incarnation != runtime->devices()[1].incarnation);
        std::vector<Tensor> values;
        for (Session* s : {session.get(), other.get()}) {
          TROUPE_REQUIRE_OK(s->Run(FeedsOf(1), {"plain"}, {}, &values));
          BOOST_TEST(values.at(0).scalar<float>() == -20.0f);
        }
        other = nullptr;
        session = nullptr;
      }
    }
  }
}

// What is compiled for two devices names the sender's incarnation.
BOOST_FIXTURE_TEST_CASE(a_device_has_one_incarnation_and_who_holds_a_signature_of_the_one_before_does_not_notice,
                        Deaths) {
  for (const bool wire : {false, true}) {
    Start({Quick(), Quick(), Quick(), Quick()}, wire);
    const Callable callable = session->Prepare({"x1"}, {"plain"}, {}).value();
    const auto sender = [&](const char* fetch) {
      RunOptions with_graphs;
      with_graphs.partition_graphs = true;
      proto::RunMetadata metadata;
      std::vector<Tensor> values;
      TROUPE_REQUIRE_OK(session->Run(with_graphs, FeedsOf(1), {fetch}, {}, &values, &metadata));
      for (const auto& part : metadata.partition_graphs()) {
        for (const auto& node : part.node()) {
          if (node.op() == "_Send") return static_cast<uint64_t>(node.attr().at("send_device_incarnation").i());
        }
      }
      return uint64_t{0};
    };
    for (int i = 0; i < 3; ++i) {
      const std::vector<DeviceStatus> devices = runtime->devices();
      const uint64_t old = devices[1].incarnation;
      BOOST_TEST(sender("plain") == old);
      KillAndAwait("device:" + devices[1].name);
      BOOST_TEST(runtime->devices()[1].incarnation != old);
      for (const int d : {0, 2, 3}) BOOST_TEST(runtime->devices()[d].incarnation == devices[d].incarnation);
      caf::scoped_actor self(*runtime->impl()->system);
      uint64_t told = 0;
      self->request(DeviceActorOf(*runtime, devices[1].name), 60s, get_device_stats{})
          .receive([&](const device_stats& s) { told = s.device.incarnation; }, [](const caf::error&) {});
      BOOST_TEST(told == runtime->devices()[1].incarnation);
      const Tensor two = Tensor::Scalar(2.0f);
      std::vector<Tensor> values;
      if (i == 1) {
        std::promise<absl::Status> done;
        callable.RunAsync(absl::MakeConstSpan(&two, 1), [&](absl::Status s, std::vector<Tensor> o) {
          values = std::move(o);
          done.set_value(std::move(s));
        });
        TROUPE_REQUIRE_OK(done.get_future().get());
      } else {
        TROUPE_REQUIRE_OK(callable.Run(absl::MakeConstSpan(&two, 1), &values));
      }
      BOOST_TEST(values.at(0).scalar<float>() == -4.0f);
      BOOST_TEST(sender("plain") == runtime->devices()[1].incarnation);
    }
    session = nullptr;
  }
}

BOOST_FIXTURE_TEST_CASE(a_tensor_of_an_incarnation_that_is_over_is_refused, Deaths) {
  for (const bool wire : {false, true}) {
    Start({Quick(), Quick(), Quick(), Quick()}, wire);
    const std::shared_ptr<Signature> s = SignatureOf(*session, {"x1"}, {"plain"});
    BOOST_REQUIRE(s != nullptr);
    BOOST_TEST(s->edges.Live());
    const auto run = [&] {
      std::unique_ptr<ExecutorSet> set = s->Lease();
      const Tensor two = Tensor::Scalar(2.0f);
      std::vector<Tensor> values;
      const absl::Status status = BlockingStep(set.get()).Run({}, {}, absl::MakeConstSpan(&two, 1), &values, nullptr);
      s->Release(std::move(set));
      return status;
    };
    TROUPE_REQUIRE_OK(run());
    const uint64_t lives = s->edges[0].incarnation;
    s->edges.Renew(std::string(EdgeSender(s->edges[0].name)), lives + 1);
    BOOST_TEST(!s->edges.Live());
    const absl::Status refused = run();
    BOOST_TEST(absl::IsAborted(refused), refused);
    BOOST_TEST(refused.message().find("is refused: it comes from incarnation") != std::string::npos, refused);
    // A message that bears another incarnation than its edge.
    s->edges.Renew(std::string(EdgeSender(s->edges[0].name)), lives);
    TROUPE_REQUIRE_OK(s->edges.Refuse(tensor_to_part{1, 0, {}, false, {}, s->edges[0].incarnation}));
    BOOST_TEST(absl::IsAborted(s->edges.Refuse(tensor_to_part{1, 0, {}, false, {}, s->edges[0].incarnation + 1})));
    BOOST_TEST(absl::IsAborted(s->edges.Refuse(grant{1, 0, {}, s->edges[0].incarnation - 1})));
    TROUPE_REQUIRE_OK(run());
    session = nullptr;
  }
}

BOOST_FIXTURE_TEST_CASE(a_killed_session_actor_costs_no_step_and_no_state, Deaths) {
  for (const bool wire : {false, true}) {
    Scope more = root.WithOpName(wire ? "v_wire" : "v");
    const Variable v(more, 5.0f);
    const Operation init = v.initializer();
    Start({Quick(), Quick(), Quick(), Quick()}, wire);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
    std::vector<Step> steps;
    steps.push_back(Async(*session, "out0", 0, {0}, 0.0f));
    steps.push_back(Blocking(*session, "out1", 1, {1}, 11.0f));
    steps.push_back(Partial(*session, "out2", 2, {2}, 22.0f));
    steps.push_back(Async(*session, "cross", 1, {1, 2}, -10.0f));
    BOOST_REQUIRE(Soon([&] { return gate.Begun() == static_cast<int>(steps.size()); }));
    // And one that the actor runs for another actor: nobody would hear of its end.
    caf::scoped_actor user(*runtime->impl()->system);
    user->send(ActorOf(*session), run_request{FeedsOf(3), {"out3"}, {}, {}});
    BOOST_REQUIRE(Soon([&] { return gate.Begun() == static_cast<int>(steps.size()) + 1; }));
    BOOST_TEST(session->RunningSteps().size() >= 5u);
    const std::shared_ptr<Signature> known = SignatureOf(*session, {"x0"}, {"out0"});
    KillSessionAndAwait();
    absl::Status told;
    user->receive([&](const run_reply& r) { told = r.status; }, caf::after(60s) >> [] {});
    BOOST_TEST(absl::IsAborted(told), told);
    std::this_thread::sleep_for(60ms);
    for (const Step& s : steps) BOOST_TEST(!s.over(), s.what);
    gate.Open();
    for (Step& s : steps) {
      BOOST_REQUIRE_MESSAGE(s.answer.wait_for(60s) == std::future_status::ready, s.what);
      const Answer a = s.answer.get();
      BOOST_TEST(a.first.ok(), s.what << ": " << a.first);
      if (a.first.ok()) BOOST_TEST(a.second.at(0).scalar<float>() == s.value);
    }
    BOOST_TEST(Soon([&] { return session->RunningSteps().empty(); }));
    // The graph, the variables and what was compiled are as they were.
    BOOST_TEST((SignatureOf(*session, {"x0"}, {"out0"}) == known));
    BOOST_TEST(session->Get(v).value().scalar<float>() == 5.0f);
    std::vector<Tensor> values;
    TROUPE_REQUIRE_OK(session->Run(FeedsOf(1), {"plain"}, {}, &values));
    TROUPE_REQUIRE_OK(session->Set(v, Tensor::Scalar(6.0f)));
    BOOST_TEST(session->Get(v).value().scalar<float>() == 6.0f);
    user->request(ActorOf(*session), 60s, run_request{FeedsOf(1), {"plain"}, {}, {}})
        .receive([&](const run_reply& r) { told = r.status; }, [](const caf::error&) {});
    BOOST_TEST(told.ok(), told);
    session = nullptr;
  }
}

// While it is down for an hour.
BOOST_FIXTURE_TEST_CASE(a_session_is_closed_and_ends_while_its_actor_is_being_restarted, Deaths) {
  for (const bool close : {true, false}) {
    CastPolicies policies;
    policies.session = Slow();
    Start(policies);
    Step running = Async(*session, "out0", 0, {0}, 0.0f);
    BOOST_REQUIRE(Soon([&] { return gate.Begun() == 1; }));
    Kill(ActorOf(*session));
    BOOST_REQUIRE(Soon([&] { return !ActorOf(*session); }));
    // A known signature needs no actor, a new one waits for the next.
    Step known = Async(*session, "out0", 0, {0}, 0.0f);
    Step held = Async(*session, "plain", 1, {1, 2}, -20.0f);
    RunOptions limited;
    limited.timeout_ms = 20;
    std::vector<Tensor> values;
    const absl::Status late = session->Run(limited, FeedsOf(1), {"cross"}, {}, &values, nullptr);
    BOOST_TEST(absl::IsDeadlineExceeded(late), late);
    BOOST_REQUIRE(Soon([&] { return gate.Begun() == 2; }));
    BOOST_TEST(!held.over());
    const auto begun = std::chrono::steady_clock::now();
    if (close) TROUPE_REQUIRE_OK(session->Close());
    if (!close) session = nullptr;
    for (Step* s : {&running, &known, &held}) {
      BOOST_REQUIRE_MESSAGE(s->answer.wait_for(60s) == std::future_status::ready, s->what);
      const absl::Status status = s->answer.get().first;
      BOOST_TEST(absl::IsCancelled(status), s->what << ": " << status);
    }
    std::weak_ptr<Runtime> weak = runtime;
    if (close) BOOST_TEST(absl::IsCancelled(session->Extend(*root.graph())));
    session = nullptr;
    gate.Open();
    runtime = nullptr;
    BOOST_TEST(Soon([&] { return weak.expired(); }));
    BOOST_TEST((std::chrono::steady_clock::now() - begun < 30s));
  }
}

int Threads() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Threads:", 0) == 0) return std::stoi(line.substr(8));
  }
  return -1;
}

// Two variables on two devices, which learn from features that a third device computes from what is
// fed. The last element of each counts its updates. One assignment writes both, and only if the
// count is that of the step: so a step that was aborted may be run again, and the count tells
// whether an update was lost or applied twice.
struct Training {
  static constexpr int kSize = 9;
  Training() {
    const Scope third = root.WithDevice(Deaths::Place(2));
    step = ops::Placeholder(third.WithOpName("step"), DType::kFloat);
    const Output features = ops::Sin(third, ops::Mul(third, ops::Const(third, Ramp()), step));
    Tensor weights(DType::kFloat, TensorShape({kSize})), count(DType::kFloat, TensorShape({kSize})),
        zeros(DType::kFloat, TensorShape({kSize}));
    for (int i = 0; i < kSize; ++i) {
      zeros.data<float>()[i] = 0.0f;
      weights.data<float>()[i] = i + 1 < kSize ? 1.0f : 0.0f;
      count.data<float>()[i] = i + 1 < kSize ? 0.0f : 1.0f;
    }
    std::vector<Output> losses;
    for (int d = 0; d < 2; ++d) {
      const Scope s = root.WithDevice(Deaths::Place(d));
      const Output w = ops::Const(s, weights), c = ops::Const(s, count);
      variables.emplace_back(s.WithOpName(StrCat("w", d)), ops::Const(s, zeros));
      const Variable& v = variables.back();
      const Output off = ops::Mul(s, ops::Sub(s, v, features), w);
      losses.push_back(ops::Sum(s, ops::Square(s, off), ops::Const(s, {0})));
      const Output slope = Gradients(s, {losses.back()}, {v})[0];
      const Output counted = ops::Sum(s, ops::Mul(s, v, c), ops::Const(s, {0}));
      const Output due = ops::Cast(s, ops::Equal(s, counted, step), DType::kFloat);
      const Output change = ops::Sub(s, ops::Mul(s, ops::Const(s, 0.05f), slope), c);
      updates.push_back(v.Assign(s.WithOpName(StrCat("update", d)), ops::Sub(s, v, ops::Mul(s, due, change))));
    }
    loss = ops::Add(root.WithDevice(Deaths::Place(0)).WithOpName("loss"), losses[0], losses[1]);
    init = GlobalVariablesInitializer(root);
  }
  static Tensor Ramp() {
    Tensor t(DType::kFloat, TensorShape({kSize}));
    for (int i = 0; i < kSize; ++i) t.data<float>()[i] = 0.01f * static_cast<float>(i + 1);
    return t;
  }
  Feeds FeedsOf(int t) const { return {{"step", Tensor::Scalar(static_cast<float>(t))}}; }
  Names targets() const { return {updates[0].node()->name(), updates[1].node()->name()}; }

  Scope root = Scope::NewRootScope();
  Output step, loss;
  std::vector<Variable> variables;
  std::vector<Output> updates;
  Operation init;
};

// One step of training in one of the ways in which it can be asked for.
absl::Status RunStep(Session& session, const Training& t, const Callable& callable, int number, int way) {
  const Feeds feeds = t.FeedsOf(number);
  switch (way % 5) {
    case 0:
      return session.Run(feeds, {}, t.targets(), nullptr);
    case 1: {
      std::vector<Tensor> none;
      return callable.Run(absl::MakeConstSpan(&feeds[0].second, 1), &none);
    }
    case 2: {
      auto done = std::make_shared<std::promise<absl::Status>>();
      session.RunAsync(feeds, {}, t.targets(), [done](absl::Status s, std::vector<Tensor>) { done->set_value(s); });
      return done->get_future().get();
    }
    case 3: {
      TROUPE_ASSIGN_OR_RETURN(const std::string handle,
                              session.PartialRunSetup({"step"}, {t.updates[0].name(), t.updates[1].name()}, {}));
      std::vector<Tensor> values;
      return session.PartialRun(handle, feeds, {t.updates[0].name(), t.updates[1].name()}, &values);
    }
    default: {
      const caf::actor actor = ActorOf(session);
      if (!actor) return absl::UnavailableError("there is no actor now");
      absl::Status status = absl::AbortedError("the actor was dead");
      caf::scoped_actor self(*session.runtime()->impl()->system);
      self->request(actor, 60s, run_request{feeds, {}, t.targets(), {}})
          .receive([&](const run_reply& r) { status = r.status; },
                   [&](const caf::error& e) {
                     if (e != caf::sec::request_receiver_down) status = absl::UnknownError("no answer");
                   });
      return status;
    }
  }
}

BOOST_FIXTURE_TEST_CASE(training_goes_on_through_a_thousand_deaths, Deaths) {
  constexpr int kKills = 1000;
  const int threads_before = Threads();
  std::vector<float> curve;
  int aborted = 0;
  std::map<std::string, int> died;
  {
    const Training t;
    Start();
    options.runtime = runtime;
    session = NewSession(t.root, options);
    options.runtime = nullptr;
    TROUPE_REQUIRE_OK(session->Run({}, {}, {t.init.name()}, nullptr));
    const Callable callable = session->Prepare({"step"}, {}, t.targets()).value();
    std::atomic<int> kills{0};
    std::thread killer([&] {
      std::mt19937 random(20);
      std::vector<std::string> names = {"worker",   "worker",  "executor", "executor",
                                        "executor", "session", "session",  "supervisor"};
      for (int d = 0; d < kDevices; ++d) {
        for (const char* kind : {"device:", "container:"}) names.push_back(kind + DeviceName(d));
      }
      while (kills < kKills) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
        const std::string& name = names[random() % names.size()];
        caf::actor actor = name == "session" ? ActorOf(*session) : Find(name);
        if (name == "executor") {
          const std::shared_ptr<Signature> s = SignatureOf(*session, {"step"}, {}, t.targets());
          const std::vector<caf::actor> running = s == nullptr ? std::vector<caf::actor>() : s->RunningExecutors();
          if (!running.empty()) actor = running[random() % running.size()];
        }
        if (!actor) continue;
        caf::anon_send_exit(actor, caf::exit_reason::kill);
        ++died[name.substr(0, name.find(':'))];
        ++kills;
      }
    });
    const auto again = [&](auto&& call) {
      for (;;) {
        const absl::Status s = call();
        if (s.ok()) return;
        const bool of_a_death = absl::IsAborted(s) || absl::IsUnavailable(s);
        BOOST_REQUIRE_MESSAGE(of_a_death, s);
        aborted += absl::IsAborted(s);
        // Of a step that was aborted a kernel may still run.
        BOOST_REQUIRE(Soon([&] { return session->RunningSteps().empty(); }));
        if (absl::IsUnavailable(s)) std::this_thread::sleep_for(1ms);
      }
    };
    for (int number = 0; kills < kKills; ++number) {
      again([&] { return RunStep(*session, t, callable, number, number); });
      again([&] {
        std::vector<Tensor> values;
        const absl::Status s = session->Run(t.FeedsOf(number), {t.loss.name()}, {}, &values);
        if (s.ok()) curve.push_back(values.at(0).scalar<float>());
        return s;
      });
    }
    killer.join();
    for (const Variable& v : t.variables) {
      absl::StatusOr<Tensor> value;
      again([&] { return (value = session->Get(v)).status(); });
      BOOST_TEST(value->data<float>()[Training::kSize - 1] == static_cast<float>(curve.size()));
    }
    // All are back.
    BOOST_TEST(Soon([&] {
      bool all = Find("worker") && ActorOf(*session);
      for (int d = 0; d < kDevices; ++d) all &= Find("device:" + DeviceName(d)) && Find("container:" + DeviceName(d));
      return all;
    }));
    BOOST_TEST(session->RunningSteps().empty());
    BOOST_TEST(Soon([&] { return runtime->impl()->directory->size() == 2u + 2u * kDevices; }));  // and worker, session
    BOOST_TEST(runtime->impl()->tasks[0].children->size() == 2u * kDevices);
    session = nullptr;
    runtime = nullptr;
  }
  BOOST_TEST(Soon([&] { return Threads() <= threads_before; }));
  // The same, undisturbed.
  const Training t;
  Start();
  options.runtime = runtime;
  session = NewSession(t.root, options);
  options.runtime = nullptr;
  TROUPE_REQUIRE_OK(session->Run({}, {}, {t.init.name()}, nullptr));
  const Callable callable = session->Prepare({"step"}, {}, t.targets()).value();
  int different = 0;
  for (size_t i = 0; i < curve.size(); ++i) {
    const int number = static_cast<int>(i);
    TROUPE_REQUIRE_OK(RunStep(*session, t, callable, number, 0));
    std::vector<Tensor> values;
    TROUPE_REQUIRE_OK(session->Run(t.FeedsOf(number), {t.loss.name()}, {}, &values));
    different += values.at(0).scalar<float>() != curve[i];
  }
  BOOST_TEST(different == 0);
  BOOST_TEST(aborted >= 20);
  for (const char* kind : {"device", "container", "worker", "session", "executor", "supervisor"})
    BOOST_TEST(died[kind] > 0, kind);
  BOOST_TEST_MESSAGE(curve.size() << " steps, " << aborted << " aborted");
}

}  // namespace
}  // namespace troupe
