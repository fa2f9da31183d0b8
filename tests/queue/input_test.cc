// Producers and batches: which elements come, in which order, how often.
#include "troupe/train/input.h"

#include <algorithm>

#include "tests/queue/started.h"

namespace troupe::train {
namespace input_test {

BOOST_AUTO_TEST_SUITE(input)

BOOST_AUTO_TEST_CASE(producers_count_their_epochs) {
  const Scope root = Scope::NewRootScope();
  const Queue names = StringInputProducer(root, {"a", "b", "c"}, {.num_epochs = 2, .shuffle = false});
  const OutputList name = names.Dequeue(root);
  const Queue numbers = RangeInputProducer(root, 4, {.num_epochs = 1, .shuffle = false});
  const OutputList number = numbers.DequeueUpTo(root, Const(root, 10));
  const OutputList slices = SliceInputProducer(root, {Const(root, {{1, 2}, {3, 4}}), Const(root, {0.5f, 1.5f})},
                                               {.num_epochs = 1, .shuffle = false});
  Started s(root);
  std::vector<Tensor> out;
  std::string all;
  for (int i = 0; i < 6; ++i) {
    TROUPE_REQUIRE_OK(s.session->Run({}, {name[0]}, {}, &out));
    all += out[0].scalar<std::string>();
  }
  BOOST_TEST(all == "abcabc");
  BOOST_TEST(s.Next(name) == "OUT_OF_RANGE");
  BOOST_TEST(s.Next(number) == "[0 1 2 3]");
  BOOST_TEST(s.Next(slices) == "[1 2] [0.5]");
  BOOST_TEST(s.Next(slices) == "[3 4] [1.5]");
  BOOST_TEST(s.Next(slices) == "OUT_OF_RANGE");
}

BOOST_AUTO_TEST_CASE(seeds_decide_the_order) {
  const auto draw = [](int64_t seed) {
    const Scope root = Scope::NewRootScope();
    const OutputList x =
        RangeInputProducer(root, 20, {.num_epochs = 2, .seed = seed}).DequeueUpTo(root, Const(root, 99));
    return Started(root).Next(x);
  };
  const std::string once = draw(5);
  BOOST_TEST(once == draw(5));
  BOOST_TEST(once != draw(6));
  BOOST_TEST(std::count(once.begin(), once.end(), ' ') == 39);
}

BOOST_AUTO_TEST_CASE(batches_of_one_input) {
  const Scope root = Scope::NewRootScope();
  const Output x = RangeInputProducer(root, 7, {.num_epochs = 1, .shuffle = false}).Dequeue(root)[0];
  const OutputList batch = Batch(root, {x, ops::Mul(root, x, x)}, {.batch_size = 3, .allow_smaller_final_batch = true});
  BOOST_TEST(batch[0].shape().DebugString() == "[?]");
  Started s(root);
  BOOST_TEST(s.Next(batch) == "[0 1 2] [0 1 4]");
  BOOST_TEST(s.Next(batch) == "[3 4 5] [9 16 25]");
  BOOST_TEST(s.Next(batch) == "[6] [36]");
  BOOST_TEST(s.Next(batch) == "OUT_OF_RANGE");
}

BOOST_AUTO_TEST_CASE(batches_are_padded_and_filtered) {
  const Scope root = Scope::NewRootScope();
  const Output x = RangeInputProducer(root, 8, {.num_epochs = 1, .shuffle = false}).Dequeue(root)[0];
  const Output ones = ops::Fill(root, ops::Reshape(root, x, Const(root, {1})), x);
  const OutputList batch =
      Batch(root, {x, ones},
            {.batch_size = 2,
             .dynamic_pad = true,
             .keep_input = ops::Equal(root, ops::FloorMod(root, x, Const(root, 2)), Const(root, 1))});
  BOOST_TEST(batch[1].shape().DebugString() == "[2,?]");
  // Rows of a tensor, of which a mask keeps some.
  const Output pair =
      RangeInputProducer(root, 6, {.num_epochs = 1, .shuffle = false}).DequeueMany(root, Const(root, 3))[0];
  const OutputList rows =
      Batch(root, {pair}, {.batch_size = 2, .enqueue_many = true, .keep_input = Const(root, {true, false, true})});
  Started s(root);
  BOOST_TEST(s.Next(batch) == "[1 3] [1 0 0 3 3 3]");
  BOOST_TEST(s.Next(batch) == "[5 7] [5 5 5 5 5 0 0 7 7 7 7 7 7 7]");
  BOOST_TEST(s.Next(batch) == "OUT_OF_RANGE");
  BOOST_TEST(s.Next(rows) == "[0 2]");
  BOOST_TEST(s.Next(rows) == "[3 5]");
  BOOST_TEST(s.Next(rows) == "OUT_OF_RANGE");
}

BOOST_AUTO_TEST_CASE(shuffled_batches_have_each_element_once) {
  const Scope root = Scope::NewRootScope();
  std::vector<OutputList> lists;
  for (int i = 0; i < 3; ++i) {
    const Output x = RangeInputProducer(root, 10, {.num_epochs = 1, .shuffle = false}).Dequeue(root)[0];
    lists.push_back({ops::Add(root, x, Const(root, 10 * i))});
  }
  const Output batch =
      ShuffleBatchJoin(root, lists, {.batch_size = 7, .capacity = 50, .allow_smaller_final_batch = true}, 10, 3)[0];
  Started s(root);
  std::vector<int32_t> seen;
  for (std::vector<Tensor> out; s.session->Run({}, {batch}, {}, &out).ok();) {
    seen.insert(seen.end(), out[0].data<int32_t>(), out[0].data<int32_t>() + out[0].num_elements());
  }
  BOOST_TEST(!std::is_sorted(seen.begin(), seen.end()));
  std::sort(seen.begin(), seen.end());
  BOOST_REQUIRE(seen.size() == 30u);
  for (int32_t i = 0; i < 30; ++i) BOOST_TEST(seen[static_cast<size_t>(i)] == i);
}

// The state between two steps is all that a pipeline needs to go on elsewhere.
BOOST_AUTO_TEST_CASE(a_shuffled_pipeline_goes_on_where_it_was_saved) {
  const Scope root = Scope::NewRootScope();
  const Queue numbers = RangeInputProducer(root, 9, {.num_epochs = 3, .seed = 7, .capacity = 100});
  const Queue shuffled = Queue::RandomShuffle(root, {DType::kInt32}, 2, {.shapes = {TensorShape()}}, 1, 2);
  const Operation move = shuffled.Enqueue(root, numbers.Dequeue(root));
  const Operation close = shuffled.Close(root);
  const Output out = shuffled.Dequeue(root)[0];
  const Operation init = LocalVariablesInitializer(root);
  const auto session_of = [&] { return NewSession(root); };
  // Without threads: the test runs each op, the producer's too.
  const std::string produce = QueueRunnersOf(*root.graph())->at(0).enqueue_ops[0];
  const auto go = [&](Session& s, int steps, std::string* drawn) {
    for (int i = 0; i < steps; ++i) {
      TROUPE_REQUIRE_OK(s.Run({}, {}, {move}, nullptr));
      if (i % 3 == 0) StrAppend(drawn, " ", RunOne(s, {}, out).scalar<int32_t>());
    }
  };
  const auto one = session_of();
  TROUPE_REQUIRE_OK(one->Run({}, {}, {init}, nullptr));
  TROUPE_REQUIRE_OK(one->Run({}, {}, {produce}, nullptr));
  std::string before;
  for (int i = 0; i < 4; ++i) TROUPE_REQUIRE_OK(one->Run({}, {}, {move}, nullptr));
  go(*one, 4, &before);
  const auto snapshot = one->SnapshotState();
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  const auto bytes = snapshot->ToBytes();
  BOOST_REQUIRE_MESSAGE(bytes.ok(), bytes.status());
  std::string here, there;
  const auto other = session_of();
  TROUPE_REQUIRE_OK(other->RestoreState(*StateSnapshot::FromBytes(*bytes)));
  for (const auto& [session, drawn] : {std::pair(one.get(), &here), {other.get(), &there}}) {
    TROUPE_REQUIRE_OK(session->Run({}, {}, {produce}, nullptr));
    go(*session, 9, drawn);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {produce}, nullptr));
    BOOST_TEST((session->Run({}, {}, {produce}, nullptr).code() == absl::StatusCode::kOutOfRange));
    TROUPE_REQUIRE_OK(session->Run({}, {}, {close}, nullptr));
    std::vector<Tensor> rest;
    while (session->Run({}, {out}, {}, &rest).ok()) StrAppend(drawn, " ", rest[0].scalar<int32_t>());
  }
  BOOST_TEST(here == there);
  BOOST_TEST(here.size() > 20u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_batched_is_said_when_it_is_built) {
  const auto error = [](const std::function<void(const Scope&)>& build) {
    const Scope root = Scope::NewRootScope();
    build(root);
    return std::string(root.status().message());
  };
  const auto has = [](const std::string& text, const std::string& part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  has(error([](const Scope& r) { Batch(r, {ops::Placeholder(r, DType::kFloat)}, {}); }), "a batch needs a known shape");
  has(error([](const Scope& r) { Batch(r, {ops::Placeholder(r, DType::kFloat)}, {.dynamic_pad = true}); }),
      "a batch needs a known rank");
  has(error([](const Scope& r) { BatchJoin(r, {{Const(r, 1)}, {Const(r, 1.0f)}}, {}); }), "differ in number or types");
  has(error([](const Scope& r) { Batch(r, {}, {}); }), "a batch needs tensors");
  has(error([](const Scope& r) { StringInputProducer(r, {}); }), "given none");
  has(error([](const Scope& r) { InputProducer(r, Const(r, 1)); }), "rows of a known shape");
  has(error([](const Scope& r) { SliceInputProducer(r, {Const(r, {1, 2}), Const(r, {1})}); }), "different numbers");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace input_test
}  // namespace troupe::train
