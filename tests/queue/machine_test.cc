// The logic of queues, without actors: what TensorFlow's queues do, as recorded from them
// (TensorFlow 2.21), and what becomes of elements whose asker is gone.
#include "tests/queue/queue_test_util.h"

namespace troupe::queue {
namespace machine_test {

BOOST_AUTO_TEST_SUITE(machine)

const char kClosedFive[] =
    "OUT_OF_RANGE: FIFOQueue 'q' is closed and has insufficient elements (requested 5, current size 0)";

BOOST_AUTO_TEST_CASE(edges_1_to_3_a_request_is_answered_when_it_can_be) {
  const auto q = NewQueue(Spec(2));
  BOOST_TEST(Outcome(Enqueue(*q, {1})) == "OK");
  BOOST_TEST(Outcome(Dequeue(*q)) == "OK 1");
  const auto first = Dequeue(*q), second = Dequeue(*q, 3);
  BOOST_TEST(Outcome(first) == "waits");
  bool told = false;
  second->WhenAnswered([&] { told = true; });
  BOOST_TEST(Outcome(Enqueue(*q, {2, 3, 4})) == "OK");
  BOOST_TEST(Outcome(first) == "OK 2");
  BOOST_TEST(!told);
  // The dequeue of three has taken two, so there is room for two more and one for it.
  BOOST_TEST(Size(*q) == "OK 0");
  const auto four = Enqueue(*q, {5, 6, 7, 8});
  BOOST_TEST(told);
  BOOST_TEST(Outcome(second) == "OK 3 4 5");
  BOOST_TEST(Outcome(four) == "waits");
  BOOST_TEST(Size(*q) == "OK 2");
  BOOST_TEST(Outcome(Dequeue(*q)) == "OK 6");
  BOOST_TEST(Outcome(four) == "OK");
  told = false;
  four->WhenAnswered([&] { told = true; });
  BOOST_TEST(told);
}

BOOST_AUTO_TEST_CASE(edges_4_and_5_what_a_withdrawn_request_had_taken_goes_back) {
  const auto q = NewQueue(Spec(4));
  Enqueue(*q, {1, 2});
  const auto many = Dequeue(*q, 3), next = Dequeue(*q);
  BOOST_TEST(Size(*q) == "OK 0");
  q->Withdraw(many);
  BOOST_TEST(Outcome(many) == "waits");
  BOOST_TEST(Outcome(next) == "OK 1");
  // It was answered, but its step had gone.
  q->Withdraw(next);
  BOOST_TEST(Outcome(Dequeue(*q, 2)) == "OK 1 2");
  // An enqueue leaves what it has put in.
  const auto five = Enqueue(*q, {1, 2, 3, 4, 5});
  q->Withdraw(five);
  BOOST_TEST(Outcome(Dequeue(*q, 4)) == "OK 1 2 3 4");
  BOOST_TEST(Size(*q) == "OK 0");
  // A request whose asker has left before it is opened does nothing.
  auto late = std::make_shared<QueueRequest>(QueueRequest::Kind::kDequeue);
  late->Leave();
  q->Ask(late);
  Enqueue(*q, {9});
  BOOST_TEST(Size(*q) == "OK 1");
  // Nor does one that waited, and whose withdrawal was lost.
  const auto two = Dequeue(*q, 2);
  two->Leave();
  BOOST_TEST(Outcome(Dequeue(*q)) == "OK 9");
  const auto more = Enqueue(*q, {1, 2, 3, 4, 5, 6});
  more->Leave();
  BOOST_TEST(Outcome(Dequeue(*q, 4)) == "OK 1 2 3 4");
  BOOST_TEST(Size(*q) == "OK 0");
}

BOOST_AUTO_TEST_CASE(edge_6_what_an_aborted_request_had_taken_goes_back) {
  const auto q = NewQueue(Spec(2));
  Enqueue(*q, {1, 2});
  const auto many = Dequeue(*q, 5), next = Dequeue(*q);
  const auto more = Enqueue(*q, {3, 4});
  BOOST_TEST(Outcome(more) == "OK");
  q->machine()->AbortWaiting(absl::AbortedError("dead"));
  BOOST_TEST(Outcome(many) == "ABORTED: dead");
  BOOST_TEST(Outcome(next) == "ABORTED: dead");
  BOOST_TEST(Outcome(Dequeue(*q, 4)) == "OK 1 2 3 4");
  // And of those that enqueue.
  const auto three = Enqueue(*q, {5, 6, 7});
  q->machine()->AbortWaiting(absl::AbortedError("dead"));
  BOOST_TEST(Outcome(three) == "ABORTED: dead");
  BOOST_TEST(Size(*q) == "OK 2");
}

BOOST_AUTO_TEST_CASE(edges_7_and_8_who_asks_a_dropped_resource_is_aborted) {
  const auto q = NewQueue(Spec(2));
  const auto waits = Dequeue(*q);
  q->Drop();
  BOOST_TEST(Outcome(waits) ==
             "ABORTED: FIFOQueue 'q' was dropped: its container was reset or restored, or its session has ended");
  BOOST_TEST(Outcome(Enqueue(*q, {1})).substr(0, 8) == "ABORTED:");
  BOOST_TEST(Outcome(Dequeue(*q)).substr(0, 8) == "ABORTED:");
}

// To cancel ends the work of those who fill a queue now. Whoever goes on from what was saved fills
// it anew; the end of the input is an end for him, too.
BOOST_AUTO_TEST_CASE(a_queue_that_was_cancelled_is_saved_as_open) {
  for (const bool ended : {false, true}) {
    const auto q = NewQueue(Spec(5));
    Enqueue(*q, {1});
    if (ended) Close(*q);
    Close(*q, true);
    absl::StatusOr<ResourceState> saved = absl::UnknownError("");
    q->Save([&](absl::StatusOr<ResourceState> state) { saved = std::move(state); });
    BOOST_REQUIRE_MESSAGE(saved.ok(), saved.status());
    const auto restored = MakeResource("q", *saved);
    BOOST_REQUIRE_MESSAGE(restored.ok(), restored.status());
    const auto& again = static_cast<const Queue&>(**restored);
    BOOST_TEST(Outcome(Ask(again, QueueRequest::Kind::kIsClosed)) == (ended ? "OK 1" : "OK 0"));
    BOOST_TEST(Size(again) == "OK 1");
  }
}

BOOST_AUTO_TEST_CASE(closed_queues_do_what_tensorflows_do) {
  for (const std::string kind : {"FIFOQueue", "RandomShuffleQueue"}) {
    const auto q = NewQueue(Spec(10, kind));
    Enqueue(*q, {1, 2, 3});
    const auto partial = Dequeue(*q, 5);
    BOOST_TEST(Size(*q) == "OK 0");
    BOOST_TEST(Outcome(Close(*q)) == "OK");
    BOOST_TEST(
        Outcome(partial) ==
        StrCat("OUT_OF_RANGE: ", kind, " 'q' is closed and has insufficient elements (requested 5, current size 3)"));
    BOOST_TEST(Size(*q) == "OK 3");
    BOOST_TEST(Outcome(Close(*q)) == "CANCELLED: queue 'q' is already closed");
    BOOST_TEST(Outcome(Close(*q, true)) == "OK");
    BOOST_TEST(Outcome(Ask(*q, QueueRequest::Kind::kIsClosed)) == "OK 1");
    BOOST_TEST(Outcome(Enqueue(*q, {4})) == StrCat("CANCELLED: ", kind, " 'q' is closed"));
    BOOST_TEST(Outcome(Dequeue(*q, 5)).substr(0, 12) == "OUT_OF_RANGE");
    const auto rest = DequeueUpTo(*q, 5);
    BOOST_TEST(rest->status().ok());
    BOOST_TEST(rest->elements.size() == 3u);
    BOOST_TEST(Outcome(DequeueUpTo(*q, 5)).substr(0, 12) == "OUT_OF_RANGE");
    BOOST_TEST(Outcome(Dequeue(*q)).substr(0, 12) == "OUT_OF_RANGE");
  }
  const auto q = NewQueue(Spec());
  Close(*q);
  BOOST_TEST(Outcome(Dequeue(*q, 5)) == kClosedFive);
}

BOOST_AUTO_TEST_CASE(a_close_waits_for_the_enqueues_before_it) {
  const auto q = NewQueue(Spec(3));
  const auto five = Enqueue(*q, {1, 2, 3, 4, 5});
  const auto close = Close(*q);
  const auto late = Enqueue(*q, {77});
  BOOST_TEST(Outcome(Ask(*q, QueueRequest::Kind::kIsClosed)) == "OK 0");
  BOOST_TEST(Outcome(DequeueUpTo(*q, 9)) == "OK 1 2 3 4 5");
  BOOST_TEST(Outcome(five) == "OK");
  BOOST_TEST(Outcome(close) == "OK");
  BOOST_TEST(Outcome(late) == "CANCELLED: FIFOQueue 'q' is closed");
}

BOOST_AUTO_TEST_CASE(a_close_that_cancels_keeps_what_is_in) {
  const auto q = NewQueue(Spec(2));
  const auto four = Enqueue(*q, {6, 7, 8, 9});
  BOOST_TEST(Outcome(Close(*q, true)) == "OK");
  BOOST_TEST(Outcome(four) == "CANCELLED: the enqueue was cancelled: FIFOQueue 'q' was closed");
  BOOST_TEST(Size(*q) == "OK 2");
  BOOST_TEST(Outcome(DequeueUpTo(*q, 9)) == "OK 6 7");
}

BOOST_AUTO_TEST_CASE(a_dequeue_may_want_more_than_the_capacity) {
  const auto q = NewQueue(Spec(2));
  const auto five = Dequeue(*q, 5);
  BOOST_TEST(Outcome(Enqueue(*q, {1, 2, 3})) == "OK");
  BOOST_TEST(Outcome(Enqueue(*q, {4, 5, 6})) == "OK");
  BOOST_TEST(Outcome(five) == "OK 1 2 3 4 5");
  BOOST_TEST(Size(*q) == "OK 1");
}

// A dequeue up to n of an open queue waits for all n.
BOOST_AUTO_TEST_CASE(up_to_n_of_an_open_queue_is_n) {
  const auto q = NewQueue(Spec());
  const auto upto = DequeueUpTo(*q, 3);
  Enqueue(*q, {1, 2});
  BOOST_TEST(Outcome(upto) == "waits");
  Close(*q);
  BOOST_TEST(Outcome(upto) == "OK 1 2");
}

BOOST_AUTO_TEST_CASE(a_queue_is_bounded_in_bytes) {
  QueueSpec spec = Spec();
  spec.capacity_bytes = 10;
  const auto q = NewQueue(spec);
  const auto four = Enqueue(*q, {1, 2, 3, 4});
  BOOST_TEST(Outcome(four) == "waits");
  BOOST_TEST(Size(*q) == "OK 2");
  BOOST_TEST(Outcome(Dequeue(*q)) == "OK 1");
  BOOST_TEST(Size(*q) == "OK 2");
  BOOST_TEST(Outcome(Dequeue(*q, 2)) == "OK 2 3");
  BOOST_TEST(Outcome(four) == "OK");
  // What is larger than the bound goes into the empty queue, and no other with it.
  spec.capacity_bytes = 3;
  const auto small = NewQueue(spec);
  const auto two = Enqueue(*small, {1, 2});
  BOOST_TEST(Size(*small) == "OK 1");
  BOOST_TEST(Outcome(Dequeue(*small)) == "OK 1");
  BOOST_TEST(Outcome(two) == "OK");
}

// The draws of TensorFlow's RandomShuffleQueue with these seeds.
BOOST_AUTO_TEST_CASE(equal_seeds_draw_what_tensorflow_draws) {
  QueueSpec spec = Spec(-1, "RandomShuffleQueue");
  spec.seed = spec.stream[0] = 7;
  spec.seed2 = spec.stream[1] = 11;
  const auto q = NewQueue(spec);
  std::vector<int32_t> values(30);
  for (int32_t i = 0; i < 30; ++i) values[static_cast<size_t>(i)] = i;
  Enqueue(*q, values);
  BOOST_TEST(Outcome(Dequeue(*q, 30)) ==
             "OK 23 11 15 18 29 17 16 9 25 10 12 8 3 22 27 1 2 19 20 21 13 6 14 4 28 7 0 26 5 24");
  spec.seed2 = spec.stream[1] = 0;
  const auto other = NewQueue(spec);
  values.resize(12);
  Enqueue(*other, values);
  std::string drawn;
  for (int i = 0; i < 12; ++i) StrAppend(&drawn, Outcome(Dequeue(*other)).substr(2));
  BOOST_TEST(drawn == " 9 6 4 5 3 2 1 10 0 7 11 8");
}

BOOST_AUTO_TEST_CASE(a_shuffling_queue_keeps_some_until_it_is_closed) {
  QueueSpec spec = Spec(20, "RandomShuffleQueue");
  spec.min_after_dequeue = 3;
  const auto q = NewQueue(spec);
  Enqueue(*q, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto nine = Dequeue(*q, 9);
  BOOST_TEST(Outcome(nine) == "waits");
  BOOST_TEST(Size(*q) == "OK 3");
  Close(*q);
  BOOST_TEST(nine->status().ok());
  BOOST_TEST(nine->elements.size() == 9u);
  BOOST_TEST(Size(*q) == "OK 1");
}

BOOST_AUTO_TEST_CASE(a_priority_queue_gives_the_smallest_first) {
  QueueSpec spec = Spec(-1, "PriorityQueue");
  spec.types = {DType::kInt64, DType::kString};
  spec.shapes = {PartialTensorShape(TensorShape()), PartialTensorShape(TensorShape())};
  const auto q = NewQueue(spec);
  auto in = std::make_shared<QueueRequest>(QueueRequest::Kind::kEnqueue);
  const std::vector<std::pair<int64_t, const char*>> elements = {{5, "a"}, {1, "b"}, {3, "c"}, {1, "d"}};
  for (const auto& [priority, name] : elements)
    in->elements.push_back({Tensor::Scalar(priority), Tensor::Scalar(name)});
  q->Ask(in);
  const auto taken = [](const QueueRequestPtr& r) {
    std::string text;
    for (const Element& e : r->elements) StrAppend(&text, e[0].scalar<int64_t>(), e[1].scalar<std::string>(), " ");
    return text;
  };
  const auto two = Dequeue(*q, 2);
  BOOST_TEST(taken(two) == "1b 1d ");
  // Back to where they were.
  const auto five = Dequeue(*q, 5);
  q->Withdraw(five);
  q->Withdraw(two);
  BOOST_TEST(taken(Dequeue(*q, 4)) == "1b 1d 3c 5a ");
}

BOOST_AUTO_TEST_CASE(elements_are_checked) {
  QueueSpec spec = Spec();
  spec.types = {DType::kInt32, DType::kFloat};
  spec.shapes = {PartialTensorShape(TensorShape({2})), PartialTensorShape(TensorShape())};
  const auto check = [&](std::vector<Tensor> components, bool many) {
    return std::string(spec.CheckElement(components, many).message());
  };
  const Tensor two = Tensor::Vector<int32_t>({1, 2}), one = Tensor::Scalar(1.0f);
  BOOST_TEST(check({two, one}, false) == "");
  BOOST_TEST(check({two}, false) == "wrong number of components for FIFOQueue 'q': expected 2, got 1");
  BOOST_TEST(check({two, two}, false) == "type mismatch in component 1 of FIFOQueue 'q': expected float32, got int32");
  BOOST_TEST(check({Tensor::Vector<int32_t>({1}), one}, false) ==
             "shape mismatch in component 0 of FIFOQueue 'q': expected [2], got [1]");
  const Tensor rows(DType::kInt32, {3, 2});
  BOOST_TEST(check({rows, Tensor(DType::kFloat, {3})}, true) == "");
  BOOST_TEST(check({rows, Tensor(DType::kFloat, {2})}, true) ==
             "all components for FIFOQueue 'q' must have the same size in dimension 0: component 0 has 3, component 1 "
             "has 2");
  BOOST_TEST(check({rows, one}, true) ==
             "component 1 for FIFOQueue 'q' is a scalar, but must have a dimension of elements");
  BOOST_TEST(check({Tensor(DType::kInt32, {3, 1}), Tensor(DType::kFloat, {3})}, true) ==
             "shape mismatch in component 0 of FIFOQueue 'q': expected [2], got [1] for each element");
}

// What a queue was saved as is the same queue, wherever it was in its stream of draws.
BOOST_AUTO_TEST_CASE(a_saved_queue_goes_on_as_it_was) {
  for (const std::string kind : {"FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue"}) {
    QueueSpec spec = Spec(50, kind);
    spec.stream[0] = spec.seed = 3;
    spec.stream[1] = spec.seed2 = 4;
    const auto q = NewQueue(spec);
    std::vector<int32_t> values(20);
    for (int32_t i = 0; i < 20; ++i) values[static_cast<size_t>(i)] = i;
    Enqueue(*q, values);
    BOOST_TEST(Dequeue(*q, 7)->status().ok());
    const auto waits = Dequeue(*q, 100);  // what it has taken belongs to the state
    q->Withdraw(waits);
    Close(*q);
    absl::StatusOr<ResourceState> state = absl::UnknownError("not called");
    q->Save([&](absl::StatusOr<ResourceState> s) { state = std::move(s); });
    BOOST_REQUIRE_MESSAGE(state.ok(), state.status());
    const auto made = MakeResource("q", *state);
    BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
    const auto again = std::dynamic_pointer_cast<Queue>(*made);
    BOOST_REQUIRE(again != nullptr);
    BOOST_TEST(again->TakePlaceOf(*q).ok());
    BOOST_TEST(again->DebugString() == q->DebugString());
    BOOST_TEST(Outcome(Enqueue(*again, {1})) == StrCat("CANCELLED: ", kind, " 'q' is closed"));
    BOOST_TEST(Outcome(Dequeue(*again, 13)) == Outcome(Dequeue(*q, 13)));
    BOOST_TEST(!again->TakePlaceOf(*NewQueue(Spec(51, kind))).ok());
  }
}

// Elements of several shapes, strings, and bytes that are no queue.
BOOST_AUTO_TEST_CASE(saved_queues_of_all_shapes_and_bad_states) {
  QueueSpec spec = Spec();
  spec.types = {DType::kInt32, DType::kString};
  spec.shapes = {};
  const auto q = NewQueue(spec);
  auto in = std::make_shared<QueueRequest>(QueueRequest::Kind::kEnqueue);
  in->elements.push_back({Tensor::Vector<int32_t>({1, 2}), Tensor::Scalar("ab")});
  in->elements.push_back({Tensor::Scalar(3), Tensor::Scalar("c")});
  q->Ask(in);
  ResourceState state;
  q->Save([&](absl::StatusOr<ResourceState> s) { state = *std::move(s); });
  const auto made = MakeResource("q", state);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  const auto two = Dequeue(*std::dynamic_pointer_cast<Queue>(*made), 2);
  BOOST_TEST(two->elements[0][0].DebugString() == "int32 [2] [1 2]");
  BOOST_TEST(two->elements[1][1].DebugString() == Tensor::Scalar("c").DebugString());
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    ResourceState bad = state;
    bad.tensors.erase(bad.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    BOOST_TEST(!MakeResource("q", bad).ok(), state.tensors[i].first);
    bad = state;
    bad.tensors[i].second = Tensor::Scalar(-1.5);
    BOOST_TEST(!MakeResource("q", bad).ok(), state.tensors[i].first);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace machine_test
}  // namespace troupe::queue
