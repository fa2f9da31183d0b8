// Code of one program part, a resource's methods or what a kernel has registered for its step's
// end, misbehaves: nobody else is ended, kept waiting or given a wrong answer.
#include <future>
#include <stdexcept>
#include <thread>

#include "actors/messages/ask.h"
#include "tests/cast/play.h"
#include "troupe/resource_state.h"

namespace troupe {
namespace others_code_test {

BOOST_AUTO_TEST_SUITE(others_code)

constexpr std::chrono::seconds kLong{60};

enum class Fault { kDebugThrows, kVisitThrows, kSaveThrows, kSaveNever, kSaveTwice, kSaveLate };

class Odd : public Resource {
 public:
  explicit Odd(Fault fault) : fault_(fault) {}
  std::string DebugString() const override {
    if (fault_ == Fault::kDebugThrows) throw std::runtime_error("it has no words");
    return "odd";
  }
  void VisitTensors(const std::function<void(const Tensor&)>&) const override {
    if (fault_ == Fault::kVisitThrows) throw std::runtime_error("it shows nothing");
  }
  void Save(const StateVisitor& visit) const override {
    if (fault_ == Fault::kSaveThrows) throw std::runtime_error("it is not saved");
    if (fault_ == Fault::kSaveNever) return;
    if (fault_ == Fault::kSaveLate) return visitor_.set_value(visit);
    visit(ResourceState{"odd", {}});
    visit(ResourceState{"other", {}});
  }
  // kSaveLate: who waits for its state.
  StateVisitor Visitor() { return visitor_.get_future().get(); }

 private:
  const Fault fault_;
  mutable std::promise<StateVisitor> visitor_;
};

struct OneDevice {
  OneDevice() : runtime(Runtime::Start({.threads = 2}).value()), name(runtime->devices()[0].name) {}
  std::shared_ptr<Odd> Add(const std::string& key, Fault fault) {
    auto odd = std::make_shared<Odd>(fault);
    TROUPE_REQUIRE_OK(runtime->impl()->devices[0]->containers()->Put({{"c", key, odd}}, {}));
    return odd;
  }
  template <class Reply, class Message>
  absl::StatusOr<Reply> Ask(const caf::actor& to, Message m) {
    return troupe::Ask<Reply>(*runtime->impl()->system, to, std::move(m), false, caf::duration(kLong));
  }
  absl::StatusOr<resource_snapshot> Snapshot() {
    return Ask<resource_snapshot>(ContainerActorOf(*runtime, name), snapshot_resources{{"c"}});
  }
  std::unique_ptr<Session> NewSession(const Scope& root) {
    SessionOptions options;
    options.runtime = runtime;
    auto session = *Session::Create(options);
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    return session;
  }
  std::shared_ptr<Runtime> runtime;
  std::string name;
};

BOOST_AUTO_TEST_CASE(a_second_answer_of_a_resource_does_not_count) {
  OneDevice one;
  one.Add("a", Fault::kSaveTwice);
  const auto late = one.Add("b", Fault::kSaveLate);
  auto answer = std::async(std::launch::async, [&] { return one.Snapshot(); });
  late->Visitor()(ResourceState{"late", {{"x", Tensor::Scalar(1.5f)}}});
  const absl::StatusOr<resource_snapshot> snapshot = answer.get();
  TROUPE_REQUIRE_OK(snapshot.status());
  TROUPE_REQUIRE_OK(snapshot->status);
  BOOST_REQUIRE(snapshot->entries.size() == 2u);
  BOOST_TEST(snapshot->entries[0].kind == "odd");
  BOOST_TEST(snapshot->entries[1].kind == "late");
  BOOST_TEST(snapshot->entries[1].tensors.at(0).second.scalar<float>() == 1.5f);
}

BOOST_AUTO_TEST_CASE(a_resource_that_cannot_be_saved_is_named_and_its_container_lives) {
  for (const Fault fault : {Fault::kSaveThrows, Fault::kSaveNever}) {
    OneDevice one;
    one.Add("mine", fault);
    const caf::actor before = ContainerActorOf(*one.runtime, one.name);
    const absl::StatusOr<resource_snapshot> snapshot = one.Snapshot();
    TROUPE_REQUIRE_OK(snapshot.status());
    BOOST_TEST(absl::IsInternal(snapshot->status), snapshot->status);
    const std::string text = snapshot->status.ToString();
    BOOST_TEST(text.find("'mine'") != std::string::npos, text);
    BOOST_TEST(text.find(fault == Fault::kSaveThrows ? "it is not saved" : "without calling it") != std::string::npos,
               text);
    BOOST_TEST((ContainerActorOf(*one.runtime, one.name) == before));
  }
}

BOOST_AUTO_TEST_CASE(a_resource_that_cannot_say_what_it_is_is_listed) {
  OneDevice one;
  one.Add("mine", Fault::kDebugThrows);
  const caf::actor before = ContainerActorOf(*one.runtime, one.name);
  const auto list = one.Ask<resource_list>(before, list_resources{});
  TROUPE_REQUIRE_OK(list.status());
  BOOST_REQUIRE(list->entries.size() == 1u);
  BOOST_TEST(list->entries[0].what.find("it has no words") != std::string::npos, list->entries[0].what);
  BOOST_TEST((ContainerActorOf(*one.runtime, one.name) == before));
}

BOOST_AUTO_TEST_CASE(a_resource_that_does_not_show_its_tensors_spoils_no_report) {
  OneDevice one;
  one.Add("mine", Fault::kVisitThrows);
  const caf::actor before = DeviceActorOf(*one.runtime, one.name);
  TROUPE_REQUIRE_OK(one.Ask<device_stats>(before, get_device_stats{}).status());
  BOOST_TEST((DeviceActorOf(*one.runtime, one.name) == before));
  const Scope root = Scope::NewRootScope();
  const Output never = Never(root, Const(root, 1.0f));
  auto session = one.NewSession(root);
  RunOptions options;
  options.timeout_ms = 100;
  const absl::Status late = session->Run(options, {}, {never.name()}, {}, nullptr, nullptr);
  BOOST_TEST(absl::IsDeadlineExceeded(late), late);
  // Asking what a step waits for does not end it.
  std::promise<absl::Status> answer;
  session->RunAsync({}, {never.name()}, {},
                    [&](absl::Status s, std::vector<Tensor>) { answer.set_value(std::move(s)); });
  while (session->RunningSteps().empty()) std::this_thread::yield();
  TROUPE_REQUIRE_OK(session->Close());
  const absl::Status closed = answer.get_future().get();
  BOOST_TEST(absl::IsCancelled(closed), closed);
}

std::promise<void> registered, entered, gate;
TROUPE_OP("CastSlowCallback").Input("x: float").Output("y: float").Stateful().NotDifferentiable("it never ends");
class SlowCallbackKernel {
 public:
  explicit SlowCallbackKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.step()->cancellations.Register([done] {
      entered.set_value();
      gate.get_future().wait();
      done(absl::CancelledError("the step ended"));
    });
    registered.set_value();
  }
};
TROUPE_KERNEL("CastSlowCallback").Device("CPU").Class<SlowCallbackKernel>();

// The callback waits, which it must not: only its own step is concerned.
BOOST_AUTO_TEST_CASE(a_callback_that_waits_keeps_no_restart_and_no_compile_waiting) {
  OneDevice one;
  const Scope root = Scope::NewRootScope(), other = Scope::NewRootScope();
  const Output x = Const(root, 1.0f);
  auto slow = NodeBuilder(root.graph(), "slow", "CastSlowCallback").Input(NodeOut{x.node(), x.index()}).Build();
  TROUPE_REQUIRE_OK(slow.status());
  const Output y = ops::Add(other.WithOpName("y"), Const(other, 1.0f), Const(other, 2.0f));
  auto a = one.NewSession(root), b = one.NewSession(other);
  std::promise<absl::Status> answer;
  a->RunAsync({}, {"slow:0"}, {}, [&](absl::Status s, std::vector<Tensor>) { answer.set_value(std::move(s)); });
  BOOST_REQUIRE((registered.get_future().wait_for(kLong) == std::future_status::ready));
  const caf::actor before = DeviceActorOf(*one.runtime, one.name);
  caf::anon_send_exit(before, caf::exit_reason::kill);
  BOOST_REQUIRE((entered.get_future().wait_for(kLong) == std::future_status::ready));
  RunOptions options;
  options.timeout_ms = 60'000;
  const absl::Status first = b->Run(options, {}, {y.name()}, {}, nullptr, nullptr);
  BOOST_TEST(first.ok(), first);
  const auto limit = std::chrono::steady_clock::now() + kLong;
  caf::actor now;
  while ((now = DeviceActorOf(*one.runtime, one.name), !now || now == before) &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  BOOST_TEST((now && now != before));
  gate.set_value();
  const absl::Status died = answer.get_future().get();
  BOOST_TEST(absl::IsAborted(died), died);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace others_code_test
}  // namespace troupe
