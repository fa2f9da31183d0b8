// Requests that are put together (troupe/serving.h).
#include <caf/io/all.hpp>
#include <limits>
#include <numeric>

#include "tests/calls/house.h"
#include "troupe/serving.h"
#include "troupe/troupe.h"

namespace troupe {
namespace batcher_test {

using namespace std::chrono_literals;

Tensor Rows(std::initializer_list<float> values) {
  return Tensor::Of<float>(values, TensorShape({static_cast<int64_t>(values.size()) / 2, 2}));
}

// y: each element of x, of two columns, with itself, by an actor that notes how many rows a step
// has, and refuses negative elements. z: x with a matrix. total: of all rows.
struct Served : House {
  Served() {
    const OutputList call = CallActor(root.WithOpName("y"), "model", {x}, {DType::kFloat});
    ops::MatMul(root.WithOpName("z"), x, ops::Const(root, Tensor::Of<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3}))));
    ops::Sum(root.WithOpName("total"), x, ops::Const(root, Tensor::Vector<int32_t>({0, 1})));
    Name("model", Answering(system, [this](const actor_call& c) {
           const Tensor& in = c.tensors.at(0);
           sizes.push_back(in.dim(0));
           for (const float v : in.flat<float>()) {
             if (v < 0) return actor_answer{absl::OutOfRangeError("a negative element"), {}};
           }
           return actor_answer{{}, {Squared(in)}};
         }));
    SessionOptions session_options;
    session_options.runtime = runtime;
    shared = NewSession(root, session_options);
    options.feeds = {"x"};
    options.fetches = {"y", "z"};
  }
  ~Served() {
    if (batcher) {
      self->send_exit(batcher, caf::exit_reason::user_shutdown);
      self->wait_for(batcher);
    }
  }
  void Spawn() {
    auto made = SpawnBatcher(system, shared, options);
    BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
    batcher = *made;
  }
  static run_request Asked(const Tensor& x, const Names& fetches = {"y"}, int64_t timeout_ms = 0) {
    run_request r;
    r.feeds = {{"x", x}};
    r.fetches = fetches;
    if (timeout_ms > 0) r.options.timeout_ms = timeout_ms;
    return r;
  }
  auto Send(const run_request& r, caf::duration at_most = caf::infinite) { return self->request(batcher, at_most, r); }
  template <class Handle>
  run_reply Answer(Handle&& handle) {
    run_reply reply;
    handle.receive([&](const run_reply& r) { reply = r; },
                   [&](const caf::error& e) { reply.status = absl::UnknownError(system.render(e)); });
    return reply;
  }
  run_reply Ask(const run_request& r) { return Answer(Send(r)); }

  std::vector<int64_t> sizes;  // of the steps so far
  std::shared_ptr<Session> shared;
  BatcherOptions options;
  caf::actor batcher;
  caf::scoped_actor self{system};
};

BOOST_AUTO_TEST_CASE(edges_2_3_and_5_requests_are_put_together) {
  Served s;
  s.options.max_batch = 4;
  s.options.max_delay_us = 300000;
  s.Spawn();
  std::vector<decltype(s.Send({}))> asked;
  for (int i = 0; i < 10; ++i)
    asked.push_back(s.Send(Served::Asked(Rows({static_cast<float>(i), 1}), {i % 2 == 0 ? "y" : "z:0"})));
  for (int i = 0; i < 10; ++i) {
    const run_reply reply = s.Answer(asked[static_cast<size_t>(i)]);
    TROUPE_REQUIRE_OK(reply.status);
    BOOST_REQUIRE(reply.outputs.size() == 1u);
    const auto f = static_cast<float>(i);
    const std::vector<float> wanted =
        i % 2 == 0 ? std::vector<float>{f * f, 1} : std::vector<float>{f + 4, 2 * f + 5, 3 * f + 6};
    BOOST_TEST(ValuesOf(reply.outputs[0]) == wanted, boost::test_tools::per_element());
    BOOST_TEST(reply.outputs[0].dim(0) == 1);
  }
  BOOST_TEST(s.sizes == std::vector<int64_t>({4, 4, 2}), boost::test_tools::per_element());
}

// Several rows; more than a step has; and columns that do not fit below the others.
BOOST_AUTO_TEST_CASE(requests_keep_their_order_and_their_shapes) {
  Served s;
  s.options.fetches = {"y"};
  s.options.max_batch = 4;
  s.options.max_delay_us = 300000;
  s.Spawn();
  std::vector<decltype(s.Send({}))> asked;
  const std::vector<Tensor> xs = {Rows({1, 2, 3, 4}), Rows({5, 6, 7, 8, 9, 10}), Rows({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}),
                                  Tensor::Of<float>({1, 2, 3}, TensorShape({1, 3})), Rows({0, 3})};
  for (const Tensor& x : xs) asked.push_back(s.Send(Served::Asked(x)));
  for (size_t i = 0; i < xs.size(); ++i) {
    const run_reply reply = s.Answer(asked[i]);
    TROUPE_REQUIRE_OK(reply.status);
    BOOST_TEST(reply.outputs.at(0).SameShape(xs[i]));
    BOOST_TEST(ValuesOf(reply.outputs[0]) == ValuesOf(Squared(xs[i])), boost::test_tools::per_element());
  }
  BOOST_TEST(s.sizes == std::vector<int64_t>({2, 3, 5, 1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(steps_are_filled_up_to_allowed_sizes) {
  Served s;
  s.options.max_batch = 8;
  s.options.allowed_batch_sizes = {2, 4, 8};
  s.options.max_delay_us = 300000;
  s.Spawn();
  const auto ask = [&](const std::vector<Tensor>& xs) {
    std::vector<decltype(s.Send({}))> asked;
    for (const Tensor& x : xs) asked.push_back(s.Send(Served::Asked(x)));
    for (size_t i = 0; i < xs.size(); ++i) {
      const run_reply reply = s.Answer(asked[i]);
      TROUPE_REQUIRE_OK(reply.status);
      BOOST_TEST(reply.outputs.at(0).SameShape(xs[i]));
      BOOST_TEST(ValuesOf(reply.outputs[0]) == ValuesOf(Squared(xs[i])), boost::test_tools::per_element());
    }
  };
  ask({Rows({3, 4})});
  ask({Rows({1, 2}), Rows({3, 4, 5, 6})});
  ask({Rows({1, 2, 3, 4}), Rows({5, 6, 7, 8})});
  ask({Rows({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})});
  ask({Rows({1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9})});
  BOOST_TEST(s.sizes == std::vector<int64_t>({2, 4, 4, 8, 9}), boost::test_tools::per_element());
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{4}, {8, 8}, {0, 8}, {4, 2, 8}}) {
    s.options.allowed_batch_sizes = wrong;
    BOOST_TEST(absl::IsInvalidArgument(SpawnBatcher(s.system, s.shared, s.options).status()));
  }
}

// A text, too, is copied to fill a step.
BOOST_AUTO_TEST_CASE(what_fills_a_step_reaches_nobody) {
  House h;
  const Output text = ops::Placeholder(h.root.WithOpName("t"), DType::kString);
  ops::Identity(h.root.WithOpName("same"), text);
  SessionOptions session_options;
  session_options.runtime = h.runtime;
  const std::shared_ptr<Session> session = NewSession(h.root, session_options);
  BatcherOptions options;
  options.feeds = {"t"};
  options.fetches = {"same"};
  options.max_batch = 4;
  options.allowed_batch_sizes = {4};
  options.max_delay_us = 0;
  const caf::actor batcher = SpawnBatcher(h.system, session, options).value();
  caf::scoped_actor self(h.system);
  run_request r;
  r.feeds = {{"t", Tensor::Of<std::string>({"a", "b", "c"}, TensorShape({3}))}};
  r.fetches = {"same"};
  run_reply reply;
  self->request(batcher, caf::infinite, r).receive([&](const run_reply& a) { reply = a; }, [](const caf::error&) {});
  TROUPE_REQUIRE_OK(reply.status);
  BOOST_REQUIRE(reply.outputs.at(0).num_elements() == 3);
  BOOST_TEST(reply.outputs[0].data<std::string>()[2] == "c");
  self->send_exit(batcher, caf::exit_reason::user_shutdown);
  self->wait_for(batcher);
}

BOOST_AUTO_TEST_CASE(edge_10_who_is_gone_is_not_computed) {
  Served s;
  s.options.max_batch = 4;
  s.options.max_delay_us = 300000;
  s.Spawn();
  const caf::actor gone = s.system.spawn(
      [](caf::event_based_actor* self, const caf::actor& batcher, const run_request& r) {
        self->request(batcher, caf::infinite, r).then([](const run_reply&) {});
        self->request(batcher, caf::infinite, r).then([](const run_reply&) {});
        self->quit(caf::exit_reason::kill);
      },
      s.batcher, Served::Asked(Rows({7, 7})));
  // It has asked; and goes.
  s.self->wait_for(gone);
  auto handle = s.Send(Served::Asked(Rows({1, 2})));
  const run_reply reply = s.Answer(handle);
  TROUPE_REQUIRE_OK(reply.status);
  BOOST_TEST(s.sizes == std::vector<int64_t>({1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(many_askers_get_their_own_rows) {
  Served s;
  s.options.max_batch = 16;
  s.options.max_steps = 2;
  s.options.max_delay_us = 500;
  s.Spawn();
  std::vector<std::thread> askers;
  std::atomic<int> wrong{0};
  for (int a = 0; a < 8; ++a) {
    askers.emplace_back([&, a] {
      caf::scoped_actor me(s.system);
      for (int i = 0; i < 100; ++i) {
        const Tensor x = Rows({static_cast<float>(a), static_cast<float>(i)});
        me->request(s.batcher, caf::infinite, Served::Asked(x))
            .receive(
                [&](const run_reply& r) {
                  wrong += !r.status.ok() || r.outputs.size() != 1 || ValuesOf(r.outputs[0]) != ValuesOf(Squared(x));
                },
                [&](const caf::error&) { ++wrong; });
      }
    });
  }
  for (std::thread& t : askers) t.join();
  BOOST_TEST(wrong.load() == 0);
  BOOST_TEST(std::accumulate(s.sizes.begin(), s.sizes.end(), int64_t{0}) == 800);
  BOOST_TEST(s.sizes.size() < 800u);
}

BOOST_AUTO_TEST_CASE(edge_1_requests_that_do_not_fit) {
  Served s;
  s.options.max_delay_us = 0;
  s.Spawn();
  const auto refused = [&](run_request r, const std::string& text) {
    const run_reply reply = s.Ask(r);
    BOOST_TEST(absl::IsInvalidArgument(reply.status), reply.status);
    BOOST_TEST(Says(reply.status, text), reply.status);
  };
  const Tensor x = Rows({1, 2});
  run_request r = Served::Asked(x);
  r.feeds = {};
  refused(r, "'x' is not fed");
  r.feeds = {{"x", x}, {"x:0", x}};
  refused(r, "fed twice");
  r.feeds = {{"x", x}, {"w", x}};
  refused(r, "'w' is no feed");
  refused(Served::Asked(Tensor::Scalar(1.0f)), "needs rows");
  refused(Served::Asked(Tensor()), "needs rows");
  refused(Served::Asked(Tensor(DType::kFloat, TensorShape({0, 2}))), "needs a row");
  refused(Served::Asked(x, {"total"}), "'total' is no fetch");
  r = Served::Asked(x);
  r.targets = {"y"};
  refused(r, "neither targets");
  // What of the options a step of many cannot do for one.
  for (bool RunOptions::*const asks : {&RunOptions::collect_stats, &RunOptions::partition_graphs}) {
    r = Served::Asked(x);
    r.options.*asks = true;
    refused(r, "nor metadata");
  }
  r = Served::Asked(x);
  r.options.check_numerics = true;
  refused(r, "check_numerics");
  TROUPE_REQUIRE_OK(s.Ask(Served::Asked(x)).status);

  const auto impossible = [&](auto change) {
    BatcherOptions o = s.options;
    change(o);
    return absl::IsInvalidArgument(SpawnBatcher(s.system, s.shared, o).status());
  };
  BOOST_TEST(impossible([](BatcherOptions& o) { o.feeds = {}; }));
  BOOST_TEST(impossible([](BatcherOptions& o) { o.fetches = {}; }));
  BOOST_TEST(impossible([](BatcherOptions& o) { o.feeds = {"x", "x:0"}; }));
  BOOST_TEST(impossible([](BatcherOptions& o) { o.max_batch = 0; }));
  BOOST_TEST(impossible([](BatcherOptions& o) { o.max_waiting = 0; }));
  BOOST_TEST(impossible([](BatcherOptions& o) { o.max_steps = 0; }));
  BOOST_TEST(impossible([](BatcherOptions& o) { o.max_delay_us = -1; }));
  BOOST_TEST(absl::IsInvalidArgument(SpawnBatcher(s.system, nullptr, s.options).status()));
}

BOOST_AUTO_TEST_CASE(a_fetch_needs_the_rows_that_were_fed) {
  Served s;
  s.options.fetches = {"y", "total"};
  s.options.max_delay_us = 0;
  s.Spawn();
  const run_reply reply = s.Ask(Served::Asked(Rows({1, 2, 3, 4})));
  BOOST_TEST(absl::IsFailedPrecondition(reply.status), reply.status);
  BOOST_TEST(Says(reply.status, "fetch 'total' is float32 []"), reply.status);
}

BOOST_AUTO_TEST_CASE(edges_6_and_7_a_request_at_fault_hurts_no_other) {
  Served s;
  s.options.max_batch = 4;
  s.options.max_delay_us = 1000000;
  s.Spawn();
  std::vector<decltype(s.Send({}))> asked;
  for (const float v : {1.0f, 2.0f, -3.0f, 4.0f}) asked.push_back(s.Send(Served::Asked(Rows({v, v}))));
  for (size_t i = 0; i < 4; ++i) {
    const run_reply reply = s.Answer(asked[i]);
    if (i == 2) {
      BOOST_TEST((absl::IsOutOfRange(reply.status) && Says(reply.status, "a negative element")), reply.status);
    } else {
      TROUPE_REQUIRE_OK(reply.status);
      const float v = static_cast<float>(i + 1);
      BOOST_TEST(ValuesOf(reply.outputs.at(0)) == std::vector<float>({v * v, v * v}), boost::test_tools::per_element());
    }
  }
  BOOST_TEST(s.sizes == std::vector<int64_t>({4, 1, 1, 1, 1}), boost::test_tools::per_element());
}

// A batcher whose steps stand still until `late` is told to answer.
struct Held : Served {
  Held() {
    Name("model", late.actor);
    options.max_batch = 1;
    options.max_waiting = 2;
    options.max_delay_us = 0;
    Spawn();
  }
  ~Held() {
    self->send_exit(late.actor, caf::exit_reason::kill);
    self->wait_for(late.actor);
  }
  void Release() {
    self->request(late.actor, caf::infinite, 1).receive([](int) {}, [](const caf::error&) {});
  }
  Late late{system};
};

BOOST_AUTO_TEST_CASE(edge_4_a_request_has_a_deadline) {
  Held s;
  auto runs = s.Send(Served::Asked(Rows({1, 2})));
  const run_reply reply = s.Ask(Served::Asked(Rows({3, 4}), {"y"}, 30));
  BOOST_TEST(absl::IsDeadlineExceeded(reply.status), reply.status);
  // Two rows may wait, the third is refused.
  auto first = s.Send(Served::Asked(Rows({5, 6}))), second = s.Send(Served::Asked(Rows({7, 8})));
  const run_reply third = s.Ask(Served::Asked(Rows({9, 10})));
  BOOST_TEST(absl::IsResourceExhausted(third.status), third.status);
  BOOST_TEST(Says(third.status, "2 rows wait for a step"), third.status);
  s.Name("model", Answering(s.system, [](const actor_call& c) {
           return actor_answer{{}, {Squared(c.tensors.at(0))}};
         }));
  s.Release();
  for (auto* handle : {&runs, &first, &second}) TROUPE_REQUIRE_OK(s.Answer(*handle).status);
}

BOOST_AUTO_TEST_CASE(times_too_long_to_be_counted_are_none) {
  Served s;
  s.options.max_batch = 2;
  s.options.max_delay_us = std::numeric_limits<int64_t>::max();
  s.Spawn();
  constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
  auto first = s.Send(Served::Asked(Rows({1, 2}), {"y"}, kLongest));
  std::this_thread::sleep_for(50ms);
  auto second = s.Send(Served::Asked(Rows({3, 4}), {"y"}, kLongest));
  for (auto* handle : {&first, &second}) TROUPE_REQUIRE_OK(s.Answer(*handle).status);
  BOOST_TEST(s.sizes == std::vector<int64_t>({2}), boost::test_tools::per_element());
}

// Rows without elements take no memory, so that there may be any number of them.
BOOST_AUTO_TEST_CASE(numbers_of_rows_are_added_up_as_they_are) {
  Served s;
  Late late(s.system);
  s.Name("model", late.actor);
  s.options.fetches = {"y"};
  s.options.max_delay_us = 0;
  s.Spawn();
  constexpr int64_t kMany = int64_t{1} << 62;
  const Tensor many(DType::kFloat, TensorShape({kMany, 0}));
  auto runs = s.Send(Served::Asked(Rows({1, 2})));
  while (late.calls.load() == 0) std::this_thread::sleep_for(1ms);
  auto first = s.Send(Served::Asked(many)), second = s.Send(Served::Asked(many));
  const run_reply third = s.Ask(Served::Asked(Rows({1, 2})));
  BOOST_TEST(absl::IsResourceExhausted(third.status), third.status);
  std::vector<std::string> shapes;
  s.Name("model", Answering(s.system, [&](const actor_call& c) {
           shapes.push_back(c.tensors.at(0).shape().DebugString());
           return actor_answer{{}, {c.tensors.at(0)}};
         }));
  s.self->request(late.actor, caf::infinite, 1).receive([](int) {}, [](const caf::error&) {});
  for (auto* handle : {&runs, &first}) TROUPE_REQUIRE_OK(s.Answer(*handle).status);
  const run_reply refused = s.Answer(second);
  BOOST_TEST(absl::IsResourceExhausted(refused.status), refused.status);
  BOOST_TEST(shapes == std::vector<std::string>({"[4611686018427387904,0]"}), boost::test_tools::per_element());
  s.self->send_exit(late.actor, caf::exit_reason::kill);
  s.self->wait_for(late.actor);
}

// CAF keeps an alarm until its time has come.
BOOST_AUTO_TEST_CASE(alarms_that_are_not_needed_are_few) {
  Play p;
  p.Extend();
  p.Warm({{"x", Tensor()}}, {"twice"});
  caf::actor batcher;
  std::shared_ptr<Session> session = std::move(p.session);
  p.stage.Inline([&] {
    batcher =
        SpawnBatcher(p.stage.system(), session, {.feeds = {"x"}, .fetches = {"twice"}, .max_delay_us = 1}).value();
  });
  const auto& alarms = p.stage.scheduler().clock().schedule();
  const size_t others = alarms.size();
  int answers = 0;
  const auto ask = [&] {
    AskThen<run_reply>(p.stage.system(), batcher, Served::Asked(Rows({1, 2}), {"twice"}, 86400000),
                       [&](const run_reply& r) { answers += r.status.ok(); });
  };
  // One is a step after its delay; another one waits meanwhile.
  for (int i = 0; i < 50; ++i) {
    ask();
    while (p.stage.DeliverTo("batcher") != "") continue;
    p.stage.Advance(1ms);
    p.stage.DeliverTo("batcher");
    ask();
    p.stage.Play();
    p.stage.Advance(1ms);
    p.stage.Play();
  }
  BOOST_TEST(answers == 100);
  p.stage.Advance(2s);
  p.stage.Play();
  BOOST_TEST(alarms.size() <= others + 1);
  p.stage.Inline([&] {
    caf::anon_send_exit(batcher, caf::exit_reason::user_shutdown);
    batcher = nullptr;
  });
  p.stage.Inline([&] { session = nullptr; });
}

BOOST_AUTO_TEST_CASE(edge_8_whoever_waits_hears_of_the_end) {
  Held s;
  auto runs = s.Send(Served::Asked(Rows({1, 2}))), waits = s.Send(Served::Asked(Rows({3, 4})));
  s.self->send_exit(s.batcher, caf::exit_reason::user_shutdown);
  for (auto* handle : {&runs, &waits}) {
    const run_reply reply = s.Answer(*handle);
    BOOST_TEST(absl::IsUnavailable(reply.status), reply.status);
    BOOST_TEST(Says(reply.status, "the batcher has ended"), reply.status);
  }
}

// Killed, without a last word: those who wait, and those who ask afterwards, hear of it.
BOOST_AUTO_TEST_CASE(a_batcher_that_dies_leaves_nobody_waiting) {
  const caf::duration minute(60s);
  Held s;
  auto runs = s.Send(Served::Asked(Rows({1, 2})), minute), waits = s.Send(Served::Asked(Rows({3, 4})), minute);
  s.self->send_exit(s.batcher, caf::exit_reason::kill);
  s.self->wait_for(s.batcher);
  auto late = s.Send(Served::Asked(Rows({5, 6})), minute);
  for (auto* handle : {&runs, &waits, &late}) {
    const absl::Status status = s.Answer(*handle).status;
    BOOST_TEST(!status.ok());
    BOOST_TEST(!Says(status, "timeout"), status);
  }
}

// The session is closed: whoever asks hears of it.
BOOST_AUTO_TEST_CASE(a_closed_session_serves_nobody) {
  Served s;
  s.options.max_delay_us = 0;
  s.Spawn();
  TROUPE_REQUIRE_OK(s.Ask(Served::Asked(Rows({1, 2}))).status);
  TROUPE_REQUIRE_OK(s.shared->Close());
  const run_reply reply = s.Ask(Served::Asked(Rows({1, 2})));
  BOOST_TEST(!reply.status.ok());
}

struct NetConfig : caf::actor_system_config {
  NetConfig() {
    load<caf::io::middleman>();
    AddMessageTypes(this);
    set("middleman.workers", static_cast<size_t>(0));
  }
};

BOOST_AUTO_TEST_CASE(askers_of_another_node) {
  NetConfig config, far_config;
  caf::actor_system home(config);
  caf::actor_system far(far_config);
  SessionOptions session_options;
  session_options.runtime = StartRuntimeIn(home, {.threads = 2}).value();
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Square(root.WithOpName("y"), x);
  std::shared_ptr<Session> session = NewSession(root, session_options);
  session_options.runtime = nullptr;
  const caf::actor batcher = SpawnBatcher(home, std::move(session), {.feeds = {"x"}, .fetches = {"y"}}).value();
  const auto port = home.middleman().publish(batcher, 0, "127.0.0.1", false);
  BOOST_REQUIRE(!!port);
  const auto handle = far.middleman().remote_actor("127.0.0.1", *port);
  BOOST_REQUIRE(!!handle);
  {
    caf::scoped_actor me(far);
    for (int i = 0; i < 20; ++i) {
      const Tensor in = Rows({static_cast<float>(i), 2});
      me->request(*handle, caf::infinite, Served::Asked(in))
          .receive(
              [&](const run_reply& r) {
                TROUPE_REQUIRE_OK(r.status);
                BOOST_TEST(ValuesOf(r.outputs.at(0)) == ValuesOf(Squared(in)), boost::test_tools::per_element());
              },
              [&](const caf::error& e) { BOOST_TEST(false, far.render(e)); });
    }
  }
  caf::anon_send_exit(batcher, caf::exit_reason::user_shutdown);
}

}  // namespace batcher_test
}  // namespace troupe
