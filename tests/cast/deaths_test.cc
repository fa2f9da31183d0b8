// What the death of an actor costs, on real threads: what it was doing, and nothing else.
#include <random>

#include "actors/step/blocking_step.h"
#include "tests/cast/deaths.h"
#include "troupe/kernel.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace deaths_test {

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

}  // namespace deaths_test
}  // namespace troupe
