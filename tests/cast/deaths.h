// A runtime of four devices whose actors are killed, and steps under way that wait at gates.
#ifndef TROUPE_TESTS_CAST_DEATHS_H_
#define TROUPE_TESTS_CAST_DEATHS_H_

#include <future>
#include <mutex>
#include <set>
#include <thread>

#include <spdlog/spdlog.h>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_master.h"
#include "tests/actors/graphs.h"
#include "tests/actors/signatures.h"
#include "troupe/actors.h"
#include "troupe/node_builder.h"
#include "troupe/troupe.h"

namespace troupe {

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
struct KernelGate {
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
};
inline KernelGate gate;

inline constexpr int kDevices = 4;

inline RestartPolicy Quick() {
  RestartPolicy p;
  p.min_delay = p.max_delay = 1ms;
  p.max_failures = 1 << 30;
  return p;
}
inline RestartPolicy Slow() {
  RestartPolicy p;
  p.min_delay = p.max_delay = 1h;
  return p;
}

// On each device d of four: x<d> -> gate<d> -> out<d> = x + d; and from the second to the third:
// cross = -(gate of x1), and without a gate plain = -(x1 + x1).
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

}  // namespace troupe

#endif  // TROUPE_TESTS_CAST_DEATHS_H_
