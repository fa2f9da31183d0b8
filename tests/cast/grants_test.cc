// Receive scheduling: the tensors that a part will need late stay with their sender until it is
// about to need them.
#include "tests/cast/play.h"
#include "tests/cast/take_op.h"

namespace troupe {
namespace grants_test {

constexpr int kStages = 6;
constexpr int64_t kSide = 256;
constexpr int64_t kBytes = kSide * kSide * 4;

// The first device makes kStages tensors at once; the second needs them one after the other, with
// work in between.
struct Late {
  explicit Late(bool schedule) : play(Options(schedule), 2) {
    const Scope first = play.root.WithDevice("/device:CPU:0"), second = play.root.WithDevice("/device:CPU:1");
    const Output x = ops::Placeholder(first.WithOpName("big"), DType::kFloat, {.shape = TensorShape({kSide, kSide})});
    Output sum = ops::Placeholder(second.WithOpName("start"), DType::kFloat, {.shape = TensorShape({kSide, kSide})});
    for (int i = 0; i < kStages; ++i) {
      const Output made = ops::Mul(first, x, ops::Const(first, 1.0f * (i + 1)));
      for (int k = 0; k < 8; ++k) sum = ops::Sqrt(second, ops::Abs(second, sum));
      auto take = NodeBuilder(second.graph(), StrCat("take", i), "CastTake")
                      .Input(NodeOut{sum.node(), sum.index()})
                      .Input(NodeOut{made.node(), made.index()})
                      .Device("/device:CPU:1")
                      .Build();
      BOOST_REQUIRE_MESSAGE(take.ok(), take.status());
      sum = Output({*take, 0}, sum.scope_state());
    }
    fetch = sum.name();
    Tensor big(DType::kFloat, TensorShape({kSide, kSide})), start(DType::kFloat, TensorShape({kSide, kSide}));
    for (int64_t i = 0; i < kSide * kSide; ++i) {
      big.flat<float>()[i] = static_cast<float>(i % 17);
      start.flat<float>()[i] = static_cast<float>(i % 5);
    }
    play.feeds = {{"big", big}, {"start", start}};
    play.Extend();
  }
  static SessionOptions Options(bool schedule) {
    SessionOptions o;
    o.schedule_recvs = schedule;
    return o;
  }
  std::shared_ptr<Signature> Compiled() {
    std::shared_ptr<Signature> s;
    play.stage.Inline([&] { s = SignatureOf(*play.session, {"big", "start"}, {fetch}); });
    BOOST_REQUIRE(s != nullptr);
    return s;
  }
  // Runs a step, and returns the most bytes that had come to the receiver before anybody took them.
  int64_t Peak() {
    auto set = Compiled()->Lease();  // the set that the step will have
    std::shared_ptr<Executor> receiver;
    for (const auto& e : set->executors()) {
      if (!e->state().part().recvs.empty()) receiver = e;
    }
    Compiled()->Release(std::move(set));
    BOOST_REQUIRE(receiver != nullptr);
    play.Start({fetch});
    const int64_t before = receiver->state().received_bytes(), taken_before = TimesTaken();
    int64_t peak = 0, taken_then = 0;
    // Arrivals are taken at the beginning of a turn, before anything runs.
    play.stage.Play([&] {
      peak = std::max(peak, receiver->state().received_bytes() - before - taken_then * kBytes);
      taken_then = TimesTaken() - taken_before;
      return std::string();
    });
    BOOST_TEST(play.State() == "OK", play.Message());
    BOOST_TEST(receiver->state().received_bytes() - before == kStages * kBytes);
    return peak;
  }
  Play play;
  std::string fetch;
};

BOOST_AUTO_TEST_CASE(what_waits_at_the_receiver_is_bounded_and_the_results_are_equal) {
  std::vector<Tensor> results;
  for (const bool schedule : {false, true}) {
    Late l(schedule);
    const EdgeTable& edges = l.Compiled()->edges;
    bool granted = false;
    for (uint32_t e = 0; e < edges.size(); ++e) granted |= edges[e].granted;
    BOOST_TEST(granted == schedule);
    const int64_t peak = l.Peak();
    BOOST_TEST(l.Peak() == peak);
    results.push_back(l.play.outputs.at(0));
    BOOST_TEST_MESSAGE((schedule ? "granted" : "pushed") << ": at most " << peak << " bytes wait");
    if (schedule) {
      BOOST_TEST(peak <= 2 * kBytes);
    } else {
      BOOST_TEST(peak >= (kStages - 1) * kBytes);
    }
  }
  for (int64_t i = 0; i < kSide * kSide; ++i)
    BOOST_REQUIRE_EQUAL(results[0].flat<float>()[i], results[1].flat<float>()[i]);
}

BOOST_AUTO_TEST_CASE(a_blocking_step_and_one_whose_tokens_are_messages_give_the_same) {
  Late pushed(false), granted(true);
  std::vector<Tensor> a, b;
  pushed.play.stage.Inline(
      [&] { TROUPE_REQUIRE_OK(pushed.play.session->Run(pushed.play.feeds, {pushed.fetch}, {}, &a)); });
  granted.play.stage.Inline(
      [&] { TROUPE_REQUIRE_OK(granted.play.session->Run(granted.play.feeds, {granted.fetch}, {}, &b)); });
  for (int64_t i = 0; i < kSide * kSide; ++i) BOOST_REQUIRE_EQUAL(a[0].flat<float>()[i], b[0].flat<float>()[i]);
}

BOOST_AUTO_TEST_CASE(a_step_is_cancelled_while_values_are_held_and_the_next_one_runs) {
  Late l(true);
  l.Compiled();
  CancellationToken token;
  l.play.Start({l.fetch}, {.cancellation = &token});
  l.play.stage.Deliver();  // one part has had its turn
  token.Cancel();
  l.play.stage.Play();
  BOOST_TEST(l.play.State() == "CANCELLED");
  l.play.Start({l.fetch});
  l.play.stage.Play();
  BOOST_TEST(l.play.State() == "OK");
}

BOOST_AUTO_TEST_CASE(one_part_knows_no_grants) {
  Play p({}, 2);
  p.Extend();
  p.Warm(p.feeds, {"twice"});
  p.Start({"twice"});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | OK)");
}

}  // namespace grants_test
}  // namespace troupe
