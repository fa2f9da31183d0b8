// Training whose actors are killed a thousand times: no update is lost or applied twice, and
// nothing is left behind.
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "tests/cast/deaths.h"
#include "troupe/gradients.h"

namespace troupe {
namespace training_through_deaths_test {

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

}  // namespace training_through_deaths_test
}  // namespace troupe
