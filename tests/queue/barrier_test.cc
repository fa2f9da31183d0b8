// Barriers: what TensorFlow's do (recorded from TensorFlow 2.21), and what becomes of elements
// whose asker is gone.
#include "kernels/queue/barrier.h"

#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"
#include "troupe/resource_state.h"

namespace troupe::queue {
namespace barrier_test {

BOOST_AUTO_TEST_SUITE(barriers)

using Kind = BarrierRequest::Kind;
constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

std::shared_ptr<Barrier> New(size_t components = 2) {
  QueueSpec spec;
  spec.kind = "Barrier";
  spec.name = "b";
  for (size_t c = 0; c < components; ++c) {
    spec.types.push_back(DType::kFloat);
    spec.shapes.emplace_back(TensorShape());
  }
  auto made = Barrier::Make(spec);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  return *made;
}
std::string Code(const BarrierRequestPtr& r) {
  if (!r->answered()) return "waits";
  return r->status().ok() ? "OK" : absl::StatusCodeToString(r->status().code());
}
std::string Insert(const Barrier& b, size_t component, const std::vector<std::string>& keys,
                   const std::vector<float>& values) {
  auto r = std::make_shared<BarrierRequest>();
  r->kind = Kind::kInsert;
  r->component = component;
  r->keys = keys;
  for (const float v : values) r->values.push_back(Tensor::Scalar(v));
  b.Ask(r);
  return Code(r);
}
BarrierRequestPtr AskToTake(const Barrier& b, int64_t n, bool small = false, bool wait = false) {
  auto r = std::make_shared<BarrierRequest>();
  r->kind = Kind::kTake;
  r->wanted = n;
  r->small_batches = small;
  r->wait_for_incomplete = wait;
  b.Ask(r);
  return r;
}
// "a0=1,10 b0=2,20": keys, the places of their first insertions, components.
std::string Text(const BarrierRequestPtr& r) {
  if (Code(r) != "OK") return Code(r);
  std::string text;
  for (const BarrierEntry& e : r->taken) {
    StrAppend(&text, text.empty() ? "" : " ", e.key, e.index - kFirst, "=");
    for (const Tensor& t : e.components) StrAppend(&text, &t == &e.components[0] ? "" : ",", t.scalar<float>());
  }
  return text;
}
std::string Take(const Barrier& b, int64_t n, bool small = false, bool wait = false) {
  return Text(AskToTake(b, n, small, wait));
}
std::string Close(const Barrier& b, bool cancel = false) {
  auto r = std::make_shared<BarrierRequest>();
  r->kind = cancel ? Kind::kCloseAndCancel : Kind::kClose;
  b.Ask(r);
  return Code(r);
}
// Ready and incomplete.
std::string Sizes(const Barrier& b) {
  std::string text;
  for (const Kind kind : {Kind::kReady, Kind::kIncomplete}) {
    auto r = std::make_shared<BarrierRequest>();
    r->kind = kind;
    b.Ask(r);
    StrAppend(&text, text.empty() ? "" : "+", r->number);
  }
  return text;
}

BOOST_AUTO_TEST_CASE(rows_1_3_and_4_whole_elements_leave_in_order) {
  const auto b = New();
  BOOST_TEST(Insert(*b, 0, {"a", "b", "c"}, {1, 2, 3}) == "OK");
  BOOST_TEST(Sizes(*b) == "0+3");
  BOOST_TEST(Insert(*b, 1, {"c", "a"}, {30, 10}) == "OK");
  BOOST_TEST(Sizes(*b) == "2+1");
  BOOST_TEST(Take(*b, 1) == "c0=3,30");
  // "a" is ready, so its key may come anew; "b" is not.
  BOOST_TEST(Insert(*b, 0, {"a"}, {5}) == "OK");
  BOOST_TEST(Insert(*b, 0, {"b"}, {5}) == "INVALID_ARGUMENT");
  BOOST_TEST(Sizes(*b) == "1+2");
  BOOST_TEST(Insert(*b, 1, {"b", "a"}, {20, 50}) == "OK");
  BOOST_TEST(Sizes(*b) == "3+0");
  BOOST_TEST(Take(*b, 3) == "a0=1,10 b0=2,20 a1=5,50");
  BOOST_TEST(Take(*b, 0) == "");
  // Other than in TensorFlow, nothing of an insertion that is refused stays.
  BOOST_TEST(Insert(*b, 0, {"d", "d"}, {1, 2}) == "INVALID_ARGUMENT");
  BOOST_TEST(Sizes(*b) == "0+0");
  // Of one component, each insertion is whole.
  const auto one = New(1);
  BOOST_TEST(Insert(*one, 0, {"p", "q", "p"}, {1, 2, 3}) == "OK");
  BOOST_TEST(Take(*one, 2) == "p0=1 q0=2");
  BOOST_TEST(Sizes(*one) == "1+0");
}

BOOST_AUTO_TEST_CASE(rows_2_5_6_and_8_a_closed_barrier) {
  const auto b = New();
  Insert(*b, 0, {"x", "y"}, {1, 2});
  Insert(*b, 1, {"x"}, {1});
  BOOST_TEST(Close(*b) == "OK");
  BOOST_TEST(Insert(*b, 0, {"new"}, {1}) == "CANCELLED");
  BOOST_TEST(Insert(*b, 1, {"y"}, {2}) == "OK");
  BOOST_TEST(Sizes(*b) == "2+0");
  BOOST_TEST(Take(*b, 3) == "OUT_OF_RANGE");
  BOOST_TEST(Take(*b, 3, /*small=*/true) == "x0=1,1 y0=2,2");
  BOOST_TEST(Take(*b, 1) == "OUT_OF_RANGE");
  BOOST_TEST(Take(*b, 1, /*small=*/true) == "OUT_OF_RANGE");
  BOOST_TEST(Close(*b) == "CANCELLED");
  BOOST_TEST(Close(*b, /*cancel=*/true) == "OK");
}

BOOST_AUTO_TEST_CASE(rows_7_and_9_what_a_close_leaves) {
  const auto b = New();
  Insert(*b, 0, {"x", "y"}, {1, 2});
  Insert(*b, 1, {"x"}, {1});
  BOOST_TEST(Close(*b, /*cancel=*/true) == "OK");
  BOOST_TEST(Insert(*b, 1, {"y"}, {2}) == "CANCELLED");
  BOOST_TEST(Sizes(*b) == "1+0");
  BOOST_TEST(Take(*b, 2) == "OUT_OF_RANGE");
  BOOST_TEST(Take(*b, 1) == "x0=1,1");
  BOOST_TEST(Take(*b, 1) == "OUT_OF_RANGE");
  BOOST_TEST(Close(*b) == "CANCELLED");
  // Small batches do not wait for what is incomplete, unless they are told to.
  const auto c = New();
  Insert(*c, 0, {"x", "y"}, {1, 2});
  Insert(*c, 1, {"x"}, {1});
  const auto waits = AskToTake(*c, 2);
  BOOST_TEST(Text(waits) == "waits");
  Close(*c);
  BOOST_TEST(Text(waits) == "waits");
  c->Withdraw(waits);
  const auto patient = AskToTake(*c, 5, /*small=*/true, /*wait=*/true);
  BOOST_TEST(Text(patient) == "waits");
  c->Withdraw(patient);
  BOOST_TEST(Take(*c, 5, /*small=*/true) == "x0=1,1");
  BOOST_TEST(Sizes(*c) == "0+1");
  // Nothing is ready: it waits for what may be.
  const auto last = AskToTake(*c, 5, /*small=*/true);
  BOOST_TEST(Text(last) == "waits");
  Insert(*c, 1, {"y"}, {9});
  BOOST_TEST(Text(last) == "y0=2,9");
}

BOOST_AUTO_TEST_CASE(what_a_step_that_ended_had_taken_goes_back) {
  const auto b = New(1);
  Insert(*b, 0, {"p", "q"}, {1, 2});
  Insert(*b, 0, {"r"}, {3});
  const auto two = AskToTake(*b, 2), more = AskToTake(*b, 2);
  BOOST_TEST(Text(two) == "p0=1 q0=2");
  b->Withdraw(two);
  BOOST_TEST(Text(more) == "p0=1 q0=2");
  b->Withdraw(more);
  BOOST_TEST(Take(*b, 3) == "p0=1 q0=2 r1=3");
  const auto waits = AskToTake(*b, 1);
  b->machine()->AbortWaiting(absl::AbortedError("dead"));
  BOOST_TEST(Text(waits) == "ABORTED");
}

BOOST_AUTO_TEST_CASE(a_saved_barrier_goes_on_as_it_was) {
  const auto b = New();
  Insert(*b, 0, {"x", "y", "z"}, {1, 2, 3});
  Insert(*b, 1, {"y", "x"}, {20, 10});
  Close(*b);
  ResourceState state;
  b->Save([&](absl::StatusOr<ResourceState> s) { state = *std::move(s); });
  const auto made = MakeResource("b", state);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  const auto again = std::dynamic_pointer_cast<Barrier>(*made);
  TROUPE_REQUIRE_OK(again->TakePlaceOf(*b));
  BOOST_TEST(again->DebugString() == b->DebugString());
  BOOST_TEST(Insert(*again, 0, {"new"}, {1}) == "CANCELLED");
  BOOST_TEST(Insert(*again, 1, {"z"}, {30}) == "OK");
  BOOST_TEST(Take(*again, 3) == "y0=2,20 x0=1,10 z0=3,30");
  BOOST_TEST(!New(1)->TakePlaceOf(*b).ok());
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    ResourceState bad = state;
    bad.tensors[i].second = Tensor::Scalar(-1.5);
    BOOST_TEST(!MakeResource("b", bad).ok(), state.tensors[i].first);
  }
}

BOOST_AUTO_TEST_CASE(ops_in_a_session) {
  const Scope root = Scope::NewRootScope();
  const Output b = EmitOp(root.WithOpName("b"), "Barrier", {},
                          {{"component_types", std::vector<DType>{DType::kFloat, DType::kString}},
                           {"shapes", std::vector<PartialTensorShape>{PartialTensorShape{2}, TensorShape()}}})
                       .output(0);
  const Output keys = Const(root, {"k", "l"});
  const auto insert = [&](const Output& k, const Output& v, int64_t component) {
    return EmitOp(root, "BarrierInsertMany", {b, k, v}, {{"component_index", component}});
  };
  const Operation numbers = insert(keys, Const(root, {{1.f, 2.f}, {3.f, 4.f}}), 0);
  const Operation texts = insert(keys, Const(root, {"one", "two"}), 1);
  const Operation wrong[] = {insert(keys, Const(root, {{1.f}, {3.f}}), 0), insert(keys, Const(root, {1.f, 2.f}), 1),
                             insert(keys, Const(root, {"x", "y"}), 5), insert(keys, Const(root, {{1.f, 2.f}}), 0)};
  const Operation take = EmitOp(root, "BarrierTakeMany", {b, Const(root, 2)},
                                {{"component_types", std::vector<DType>{DType::kFloat, DType::kString}}});
  const Output ready = EmitOp(root, "BarrierReadySize", {b}).output(0);
  const Output incomplete = EmitOp(root, "BarrierIncompleteSize", {b}).output(0);
  const Operation close = EmitOp(root, "BarrierClose", {b});
  const auto session = NewSession(root);
  for (const Operation& op : wrong)
    BOOST_TEST(absl::IsInvalidArgument(session->Run({}, {}, {op.name()}, nullptr)), op.name());
  TROUPE_REQUIRE_OK(session->Run({}, {}, {numbers.name()}, nullptr));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {ready.name(), incomplete.name()}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "int32 [] [0]");
  BOOST_TEST(out[1].DebugString() == "int32 [] [2]");
  RunOptions soon;
  soon.timeout_ms = 30;
  BOOST_TEST(absl::IsDeadlineExceeded(session->Run(soon, {}, {take.output(0).name()}, {}, &out, nullptr)));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {texts.name()}, nullptr));
  TROUPE_REQUIRE_OK(session->Run({}, {take.output(1).name(), take.output(2).name(), take.output(3).name()}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "string [2] [\"k\" \"l\"]");
  BOOST_TEST(out[1].DebugString() == "float32 [2,2] [1 2 3 4]");
  BOOST_TEST(out[2].DebugString() == "string [2] [\"one\" \"two\"]");
  TROUPE_REQUIRE_OK(session->Run({}, {}, {close.name()}, nullptr));
  BOOST_TEST(absl::IsOutOfRange(session->Run({}, {take.output(0).name()}, {}, &out)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace barrier_test
}  // namespace troupe::queue
