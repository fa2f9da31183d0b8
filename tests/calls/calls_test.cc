// Nodes that call actors of the program's (troupe/open_cast.h).
#include <caf/io/all.hpp>
#include <atomic>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "tests/calls/house.h"
#include "troupe/gradients.h"

namespace troupe {
namespace calls_test {

using namespace std::chrono_literals;

// Of the last call of a Squarer.
std::atomic<int64_t> step{0};

caf::actor Squarer(caf::actor_system& system) {
  return system.spawn(
      [](caf::event_based_actor*, int) -> caf::behavior {
        return {[](const actor_call& c) {
          step = c.step;
          return actor_answer{{}, {Squared(c.tensors.at(0))}};
        }};
      },
      0);
}

BOOST_AUTO_TEST_CASE(edge_1_the_answer_is_the_output) {
  House h(2);
  h.Name("squarer", Squarer(h.system));
  h.Name("two", Answering(h.system, [](const actor_call& c) {
           std::string text = c.node;
           return actor_answer{{}, {Tensor::Scalar(text), Squared(c.tensors.at(1))}};
         }));
  const OutputList y = CallActor(h.root.WithOpName("call"), "squarer", {h.x}, {DType::kFloat});
  BOOST_REQUIRE(y.size() == 1u);
  const Output there = CallActor(h.root.WithDevice("/cpu:1"), "squarer", {y[0]}, {DType::kFloat})[0];
  const OutputList both = CallActor(h.root.WithOpName("both"), "two", {ops::Const(h.root, int64_t{5}), there},
                                    {DType::kString, DType::kFloat});
  TROUPE_REQUIRE_OK(h.root.status());
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(y[0], &out));
  BOOST_TEST(ValuesOf(out) == std::vector<float>({1, 4, 9}), boost::test_tools::per_element());
  TROUPE_REQUIRE_OK(h.Run(both[1], &out));
  BOOST_TEST(ValuesOf(out) == std::vector<float>({1, 256, 6561}), boost::test_tools::per_element());
  TROUPE_REQUIRE_OK(h.Run(both[0], &out));
  BOOST_TEST(out.scalar<std::string>() == "both");
  // Another actor gets the name.
  h.Name("squarer", Answering(h.system, [](const actor_call& c) { return actor_answer{{}, {c.tensors.at(0)}}; }));
  TROUPE_REQUIRE_OK(h.Run(there, &out));
  BOOST_TEST(ValuesOf(out) == std::vector<float>({1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(it_is_called_in_each_iteration_of_a_loop) {
  House h;
  std::atomic<int> calls{0};
  h.Name("add", Answering(h.system, [&](const actor_call& c) {
           ++calls;
           return actor_answer{{}, {Tensor::Scalar(c.tensors.at(0).scalar<int32_t>() + 3)}};
         }));
  const OutputList end = While(
      h.root, {ops::Const(h.root, int32_t{0})},
      [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], ops::Const(s, int32_t{30})); },
      [](const Scope& s, const OutputList& v) {
        CallActorOptions options;
        options.shapes = {PartialTensorShape(TensorShape())};
        return OutputList{CallActor(s, "add", {v[0]}, {DType::kInt32}, options)[0]};
      });
  TROUPE_REQUIRE_OK(h.root.status());
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(end[0], &out));
  BOOST_TEST(out.scalar<int32_t>() == 30);
  BOOST_TEST(calls.load() == 10);
}

// x^2 by an actor, and 2 x dy by another, against finite differences.
BOOST_AUTO_TEST_CASE(another_actor_computes_the_gradient) {
  House h;
  h.Name("squarer", Squarer(h.system));
  h.Name("slope", Answering(h.system, [](const actor_call& c) {
           // Inputs: x, n; output: y; gradient: dy.
           if (c.tensors.size() != 4) return actor_answer{absl::InternalError("wrong number"), {}};
           Tensor dx(DType::kFloat, c.tensors[0].shape());
           for (int64_t i = 0; i < dx.num_elements(); ++i)
             dx.data<float>()[i] = 2 * c.tensors[0].data<float>()[i] * c.tensors[3].data<float>()[i];
           if (ValuesOf(c.tensors[2]) != ValuesOf(Squared(c.tensors[0])))
             return actor_answer{absl::InternalError("not y"), {}};
           return actor_answer{{}, {dx}};
         }));
  CallActorOptions options;
  options.gradient_actor = "slope";
  const Output n = ops::Const(h.root, int32_t{7});
  const Output y = CallActor(h.root, "squarer", {h.x, n}, {DType::kFloat}, options)[0];
  const Output loss = ops::Sum(h.root.WithOpName("loss"), ops::Mul(h.root, y, 3.0f), 0);
  const Output dx = Gradients(h.root, {loss}, {h.x})[0];
  TROUPE_REQUIRE_OK(h.root.status());
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(dx, &out));
  const std::vector<float> slopes = ValuesOf(out);
  for (size_t i = 0; i < 3; ++i) {
    const auto loss_at = [&](float by) {
      Tensor at = Floats({1, 2, 3});
      at.data<float>()[i] += by;
      std::vector<Tensor> outs;
      TROUPE_REQUIRE_OK(h.session->Run({{"x", at}}, {"loss"}, {}, &outs));
      return outs.at(0).scalar<float>();
    };
    const float difference = (loss_at(0.01f) - loss_at(-0.01f)) / 0.02f;
    BOOST_TEST(std::abs(slopes[i] - difference) < 0.02f, slopes[i] << " is not " << difference);
  }
  // Without an actor for it there is none.
  const Output bare = CallActor(h.root, "squarer", {h.x}, {DType::kFloat})[0];
  Gradients(h.root, {ops::Sum(h.root, bare, 0)}, {h.x});
  BOOST_TEST(Says(h.root.status(), "actor 'squarer' has no gradient"), h.root.status());
}

BOOST_AUTO_TEST_CASE(edge_2_errors_and_answers_that_do_not_fit) {
  House h;
  actor_answer answer;
  h.Name("a", Answering(h.system, [&](const actor_call&) { return answer; }));
  CallActorOptions options;
  options.shapes = {PartialTensorShape(TensorShape({3}))};
  const Output y = CallActor(h.root.WithOpName("call"), "a", {h.x}, {DType::kFloat}, options)[0];
  const auto fails = [&](actor_answer a, absl::StatusCode code, const std::string& text) {
    answer = std::move(a);
    const absl::Status s = h.Fails(y);
    BOOST_TEST(s.code() == code, s);
    BOOST_TEST(Says(s, text), s);
    BOOST_TEST(Says(s, "call"), s);
    BOOST_TEST(Says(s, "'a'"), s);
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  fails({absl::DataLossError("the disk is full"), {}}, absl::StatusCode::kDataLoss, "the disk is full");
  fails({{}, {}}, invalid, "0 tensors for 1 outputs");
  fails({{}, {Floats({1, 2, 3}), Floats({1})}}, invalid, "2 tensors for 1 outputs");
  fails({{}, {Tensor::Vector<double>({1, 2, 3})}}, invalid, "float64 for output 0, which is float32");
  fails({{}, {Floats({1})}}, invalid, "shape [1] for output 0, which has [3]");
  fails({{}, {Tensor()}}, invalid, "no tensor for output 0");
  answer = {{}, {Floats({4, 5, 6})}};
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(y, &out));
  BOOST_TEST(ValuesOf(out) == std::vector<float>({4, 5, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(wrong_nodes_and_names_are_refused) {
  House h;
  BOOST_TEST(absl::IsInvalidArgument(NameActor(*h.runtime, "", Squarer(h.system))));
  BOOST_TEST(absl::IsInvalidArgument(NameActor(*h.runtime, "a", nullptr)));
  BOOST_TEST(absl::IsNotFound(UnnameActor(*h.runtime, "a")));
  {
    // Of another actor system of the process.
    caf::actor_system_config config;
    caf::actor_system other(config);
    const caf::actor stranger = Squarer(other);
    const absl::Status s = NameActor(*h.runtime, "a", stranger);
    BOOST_TEST((absl::IsInvalidArgument(s) && Says(s, "another actor system of this process")), s);
    caf::anon_send_exit(stranger, caf::exit_reason::kill);
  }
  const Output y = CallActor(h.root.WithOpName("call"), "a", {h.x}, {DType::kFloat})[0];
  absl::Status s = h.Fails(y);
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
  BOOST_TEST(Says(s, "no actor has the name 'a'"), s);
  h.Name("a", Squarer(h.system));
  TROUPE_REQUIRE_OK(h.Fails(y));
  TROUPE_REQUIRE_OK(UnnameActor(*h.runtime, "a"));
  BOOST_TEST(absl::IsFailedPrecondition(h.Fails(y)));
  Scope bad = Scope::NewRootScope();
  CallActorOptions options;
  options.timeout_ms = 0;
  CallActor(bad, "a", {ops::Const(bad, 1.0f)}, {DType::kFloat}, options);
  BOOST_TEST(Says(bad.status(), "timeout_ms"), bad.status());
  Scope shapes = Scope::NewRootScope();
  options = {};
  options.shapes.resize(2);
  CallActor(shapes, "a", {ops::Const(shapes, 1.0f)}, {DType::kFloat}, options);
  BOOST_TEST(Says(shapes.status(), "2 shapes for 1 outputs"), shapes.status());
}

BOOST_AUTO_TEST_CASE(edge_3_actors_that_do_not_understand) {
  House h;
  h.Name("deaf", h.system.spawn(
                     [](caf::event_based_actor* self, int) -> caf::behavior {
                       self->set_default_handler(caf::drop);
                       return {[](int) {}};
                     },
                     0));
  h.Name("other",
         h.system.spawn(
             [](caf::event_based_actor*, int) -> caf::behavior { return {[](const actor_call&) { return 5; }}; }, 0));
  h.Name("refuses", h.system.spawn(
                        [](caf::event_based_actor*, int) -> caf::behavior {
                          return {[](const actor_call&) -> caf::result<actor_answer> {
                            return caf::make_error(caf::sec::bad_function_call);
                          }};
                        },
                        0));
  absl::Status s = h.Fails(CallActor(h.root, "deaf", {h.x}, {DType::kFloat})[0]);
  BOOST_TEST((absl::IsFailedPrecondition(s) && Says(s, "does not take the message actor_call")), s);
  s = h.Fails(CallActor(h.root, "other", {h.x}, {DType::kFloat})[0]);
  BOOST_TEST((absl::IsFailedPrecondition(s) && Says(s, "something else than one actor_answer")), s);
  s = h.Fails(CallActor(h.root, "refuses", {h.x}, {DType::kFloat})[0]);
  BOOST_TEST((absl::IsFailedPrecondition(s) && Says(s, "bad_function_call")), s);
}

BOOST_AUTO_TEST_CASE(edge_4_a_dead_actor) {
  House h;
  const caf::actor dead = Squarer(h.system);
  h.Name("a", dead);
  const Output y = CallActor(h.root, "a", {h.x}, {DType::kFloat})[0];
  TROUPE_REQUIRE_OK(h.Fails(y));
  caf::anon_send_exit(dead, caf::exit_reason::kill);
  absl::Status s;
  for (int i = 0; i < 1000 && s.ok(); ++i) s = h.Fails(y);
  BOOST_TEST((absl::IsUnavailable(s) && Says(s, "actor 'a' is dead")), s);
  // One that dies of the call, and one that dies with the call in hand.
  h.Name("a", Answering(h.system, [](const actor_call&) -> actor_answer { throw std::runtime_error("mine"); }));
  s = h.Fails(y);
  BOOST_TEST(!s.ok());
  BOOST_TEST(Says(s, "actor 'a'"), s);
  const caf::actor holds = h.system.spawn(
      [](caf::event_based_actor* self, int) -> caf::behavior {
        return {[self](const actor_call&) {
          auto promise = self->make_response_promise<actor_answer>();
          self->quit(caf::exit_reason::kill);
          return promise;
        }};
      },
      0);
  h.Name("a", holds);
  s = h.Fails(y);
  BOOST_TEST((!s.ok() && Says(s, "actor 'a'")), s);
  // The next one with that name serves the next step.
  h.Name("a", Squarer(h.system));
  TROUPE_REQUIRE_OK(h.Fails(y));
}

BOOST_AUTO_TEST_CASE(edges_5_and_8_no_answer_in_time) {
  House h;
  Late late(h.system);
  h.Name("late", late.actor);
  CallActorOptions options;
  options.timeout_ms = 30;
  const Output y = CallActor(h.root.WithOpName("call"), "late", {h.x}, {DType::kFloat}, options)[0];
  const absl::Status s = h.Fails(y);
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
  BOOST_TEST(Says(s, "actor 'late' did not answer within 30 ms"), s);
  // Its answer comes when nobody waits.
  caf::scoped_actor self(h.system);
  self->request(late.actor, caf::infinite, 1).receive([](int) {}, [](const caf::error&) { BOOST_TEST(false); });
  h.Name("late", Squarer(h.system));
  Tensor out;
  absl::Status served = h.Run(y, &out);
  // A busy machine may need longer than 30 ms for one call.
  for (int i = 0; i < 100 && absl::IsDeadlineExceeded(served); ++i) served = h.Run(y, &out);
  TROUPE_REQUIRE_OK(served);
  BOOST_TEST(ValuesOf(out) == std::vector<float>({1, 4, 9}), boost::test_tools::per_element());
  self->send_exit(late.actor, caf::exit_reason::kill);
  self->wait_for(late.actor);
}

BOOST_AUTO_TEST_CASE(edge_6_a_step_that_ends_waits_for_nobody) {
  House h;
  Late late(h.system);
  h.Name("late", late.actor);
  const Output y = CallActor(h.root.WithOpName("call"), "late", {h.x}, {DType::kFloat})[0];
  // The step's own deadline.
  absl::Status s = h.Fails(y, 30);
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
  // A token, and Close.
  for (const bool close : {false, true}) {
    CancellationToken token;
    RunOptions options;
    options.cancellation = &token;
    std::promise<absl::Status> done;
    h.session->RunAsync(options, {{"x", Floats({1})}}, {y.name()}, {},
                        [&](absl::Status status, std::vector<Tensor>) { done.set_value(std::move(status)); });
    std::this_thread::sleep_for(10ms);
    if (close) {
      (void)h.session->Close();
    } else {
      token.Cancel();
    }
    auto answered = done.get_future();
    BOOST_REQUIRE((answered.wait_for(20s) == std::future_status::ready));
    s = answered.get();
    BOOST_TEST(absl::IsCancelled(s), s);
  }
  caf::scoped_actor self(h.system);
  self->send_exit(late.actor, caf::exit_reason::kill);
  self->wait_for(late.actor);
}

BOOST_AUTO_TEST_CASE(many_calls_at_once_and_nothing_is_left) {
  House h;
  h.Name("squarer", Squarer(h.system));
  constexpr int kCalls = 100, kSteps = 20;
  OutputList all;
  for (int i = 0; i < kCalls; ++i) all.push_back(CallActor(h.root, "squarer", {h.x}, {DType::kFloat})[0]);
  const Output sum = ops::AddN(h.root, all);
  TROUPE_REQUIRE_OK(h.root.status());
  Tensor out;
  TROUPE_REQUIRE_OK(h.Run(sum, &out));
  const auto actors = h.system.registry().running();
  std::vector<std::future<absl::Status>> steps;
  for (int i = 0; i < kSteps; ++i) {
    steps.push_back(std::async(std::launch::async, [&] {
      std::vector<Tensor> outs;
      TROUPE_RETURN_IF_ERROR(h.session->Run({{"x", Floats({1, 2, 3})}}, {sum.name()}, {}, &outs));
      return ValuesOf(outs.at(0)) == std::vector<float>({100, 400, 900}) ? absl::OkStatus()
                                                                         : absl::InternalError("wrong values");
    }));
  }
  for (auto& step : steps) {
    const absl::Status s = step.get();
    BOOST_TEST(s.ok(), s);
  }
  BOOST_TEST(h.system.registry().running() <= actors);
}

// Nor with the actor that was called: it would have a note of whoever watches it.
BOOST_AUTO_TEST_CASE(an_actor_keeps_nothing_of_the_calls_that_it_has_answered) {
  House h;
  std::vector<caf::weak_actor_ptr> callers;
  h.Name("a", h.system.spawn(
                  [&](caf::event_based_actor* self, int) -> caf::behavior {
                    return {[&callers, self](const actor_call& c) {
                      callers.emplace_back(self->current_sender().get());
                      return actor_answer{{}, {c.tensors.at(0)}};
                    }};
                  },
                  0));
  const Output y = CallActor(h.root, "a", {h.x}, {DType::kFloat})[0];
  for (int i = 0; i < 3; ++i) TROUPE_REQUIRE_OK(h.Fails(y));
  BOOST_REQUIRE(callers.size() == 3u);
  for (const caf::weak_actor_ptr& caller : callers) {
    const auto shares = [&] { return caller.get()->weak_refs.load(); };
    for (int i = 0; i < 5000 && shares() > 1; ++i) std::this_thread::sleep_for(1ms);
    BOOST_TEST(shares() == 1u);  // this one
  }
}

BOOST_AUTO_TEST_CASE(a_time_too_long_to_be_counted_is_none) {
  House h;
  h.Name("slow", Answering(h.system, [](const actor_call& c) {
           std::this_thread::sleep_for(50ms);
           return actor_answer{{}, {Squared(c.tensors.at(0))}};
         }));
  for (const int64_t ms : {int64_t{9223372036855}, std::numeric_limits<int64_t>::max()}) {
    CallActorOptions options;
    options.timeout_ms = ms;
    TROUPE_REQUIRE_OK(h.Fails(CallActor(h.root, "slow", {h.x}, {DType::kFloat}, options)[0]));
  }
}

// What passes, message by message; and who makes the calls is killed with one in hand.
BOOST_AUTO_TEST_CASE(edge_7_the_caller_is_killed) {
  Play p;
  caf::strong_actor_ptr caller;
  std::vector<caf::typed_response_promise<actor_answer>> held;
  caf::actor squarer, holder;
  p.stage.Inline([&] {
    squarer = Squarer(p.stage.system());
    holder = p.stage.system().spawn(
        [&](caf::event_based_actor* self, int) -> caf::behavior {
          return {[self, &caller, &held](const actor_call&) {
            caller = self->current_sender();
            held.push_back(self->make_response_promise<actor_answer>());
            return held.back();
          }};
        },
        0);
    TROUPE_REQUIRE_OK(NameActor(*p.runtime, "squarer", squarer));
    TROUPE_REQUIRE_OK(NameActor(*p.runtime, "holder", holder));
  });
  CallActor(p.root.WithOpName("y"), "squarer", {p.x}, {DType::kFloat});
  CallActor(p.root.WithOpName("z"), "holder", {p.x}, {DType::kFloat});
  p.Extend();
  p.Warm(p.feeds, {"y:0"});
  p.Warm(p.feeds, {"z:0"});
  p.Start({"y:0"});
  const std::string text = p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  // What a tensor is, and an answer, is not in the line.
  BOOST_TEST(text == R"(
executor <- run_step
caller <- init
scheduled_actor <- (actor_call("y", )" +
                         std::to_string(step) + R"(, [<unprintable>]))
caller <- (<unprintable>)
executor <- doorbell)");
  p.Start({"z:0"});
  p.stage.Play();
  BOOST_TEST(p.State() == "running");
  BOOST_REQUIRE(caller != nullptr);
  p.stage.Kill(caf::actor_cast<caf::actor>(std::exchange(caller, nullptr)));
  p.stage.Play();
  BOOST_TEST(p.State() == "ABORTED", p.Message());
  BOOST_TEST(p.Message().find("the actor that made the call was killed") != std::string::npos, p.Message());
  held.clear();
  p.stage.Kill(holder);
  p.stage.Kill(squarer);
  p.stage.Play();
}

struct NetConfig : caf::actor_system_config {
  NetConfig() {
    load<caf::io::middleman>();
    // [message_types]
    AddMessageTypes(this);
    AddCallMessageTypes(this);
    // [/message_types]
    set("middleman.workers", static_cast<size_t>(0));
  }
};

BOOST_AUTO_TEST_CASE(an_actor_of_another_node) {
  NetConfig config;
  caf::actor_system home(config);
  auto far_config = std::make_unique<NetConfig>();
  auto far = std::make_unique<caf::actor_system>(*far_config);
  const caf::actor served = Squarer(*far);
  const auto port = far->middleman().publish(served, 0, "127.0.0.1", false);
  BOOST_REQUIRE(!!port);
  {
    SessionOptions options;
    options.runtime = StartRuntimeIn(home, {.threads = 2}).value();
    const auto named = [&, &runtime = *options.runtime]() -> absl::Status {
      // [far_actor]
      const caf::expected<caf::actor> handle = home.middleman().remote_actor("127.0.0.1", *port);
      if (!handle) return absl::UnavailableError(home.render(handle.error()));
      TROUPE_RETURN_IF_ERROR(NameActor(runtime, "far", *handle));
      // [/far_actor]
      BOOST_TEST((handle->node() != home.node()));
      return absl::OkStatus();
    };
    TROUPE_REQUIRE_OK(named());
    const Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    const Output y = CallActor(root, "far", {x}, {DType::kFloat})[0];
    const auto session = NewSession(root, options);
    options.runtime = nullptr;
    std::vector<Tensor> outs;
    for (int i = 0; i < 50; ++i) {
      TROUPE_REQUIRE_OK(session->Run({{"x", Floats({1, 2, static_cast<float>(i)})}}, {y.name()}, {}, &outs));
      BOOST_TEST(ValuesOf(outs.at(0)) == std::vector<float>({1, 4, static_cast<float>(i * i)}),
                 boost::test_tools::per_element());
    }
    caf::anon_send_exit(served, caf::exit_reason::kill);
    absl::Status s;
    for (int i = 0; i < 1000 && s.ok(); ++i) s = session->Run({{"x", Floats({1})}}, {y.name()}, {}, &outs);
    BOOST_TEST((absl::IsUnavailable(s) && Says(s, "actor 'far' is dead, or cannot be reached")), s);
  }
  far = nullptr;
}

// What does not fit into one message to another node, or is nothing that crosses, is told with its
// reason, and the calls after it are answered. The big values' pages are not touched.
BOOST_AUTO_TEST_CASE(what_cannot_reach_another_node_is_told) {
  const auto big = [](int64_t mib) { return Tensor(DType::kFloat, TensorShape({mib << 18})); };
  NetConfig config, far_config;
  caf::actor_system home(config), far(far_config);
  const caf::actor served = Answering(far, [&](const actor_call& c) -> actor_answer {
    const float kind = c.tensors.at(0).data<float>()[0];
    if (kind == 1) return {absl::OkStatus(), {big(2048)}};
    if (kind == 2) return {absl::OkStatus(), {big(1100), big(1100)}};
    if (kind == 3) return {absl::OkStatus(), {Tensor(DType::kVariant, TensorShape({1}))}};
    return {absl::OkStatus(), {c.tensors.at(0)}};
  });
  const auto port = far.middleman().publish(served, 0, "127.0.0.1", false);
  BOOST_REQUIRE(!!port);
  const auto handle = home.middleman().remote_actor("127.0.0.1", *port);
  BOOST_REQUIRE(!!handle);
  {
    SessionOptions options;
    options.runtime = StartRuntimeIn(home, {.threads = 2}).value();
    TROUPE_REQUIRE_OK(NameActor(*options.runtime, "far", *handle));
    const Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    const Output one = CallActor(root, "far", {x}, {DType::kFloat})[0];
    const Output two = CallActor(root, "far", {x, x}, {DType::kFloat})[0];
    const auto session = NewSession(root, options);
    options.runtime = nullptr;
    const auto run = [&](const Output& y, const Tensor& value) {
      std::vector<Tensor> outs;
      return session->Run({{"x", value}}, {y.name()}, {}, &outs);
    };
    const auto told = [&](const absl::Status& s, const std::string& why) {
      BOOST_TEST((absl::IsInvalidArgument(s) && Says(s, why) && Says(s, "actor 'far'")), s);
      TROUPE_REQUIRE_OK(run(one, Floats({7})));
    };
    constexpr char kTooBig[] = "values of 2 GiB or more cannot be sent in one message";
    told(run(one, big(2048)), kTooBig);
    told(run(two, big(1100)), kTooBig);
    told(run(one, Floats({1})), kTooBig);
    told(run(one, Floats({2})), kTooBig);
    told(run(one, Floats({3})), "a value cannot be sent to another process");
  }
  caf::anon_send_exit(served, caf::exit_reason::user_shutdown);
}

}  // namespace calls_test
}  // namespace troupe
