// Batches of elements of one bucket: what is in a batch, how it is padded, and how the input ends.
#include "troupe/train/bucket.h"

#include <algorithm>
#include <map>

#include "tests/queue/started.h"

namespace troupe::train {
namespace bucket_test {

BOOST_AUTO_TEST_SUITE(bucket)

const std::vector<int32_t> kLengths = {3, 12, 5, 27, 4, 15, 11, 2, 30, 25, 1, 14, 10, 9, 24};
const std::vector<int32_t> kBoundaries = {10, 20};

// The sequences are their lengths, as often as they say.
struct Sequences {
  explicit Sequences(const Scope& root, BatchOptions options) {
    const OutputList slice = SliceInputProducer(root, {Const(root, kLengths)}, {.num_epochs = 1, .shuffle = false});
    const Output sequence = ops::Fill(root, ops::Reshape(root, slice[0], Const(root, {1})), slice[0]);
    options.dynamic_pad = true;
    options.shapes = {PartialTensorShape{-1}};
    std::tie(lengths, batch) = BucketBySequenceLength(root, slice[0], {sequence}, kBoundaries, options);
  }
  Output lengths;
  OutputList batch;
};

BOOST_AUTO_TEST_CASE(a_batch_has_sequences_of_one_bucket) {
  for (const bool smaller : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const Sequences s(root, {.batch_size = 2, .capacity = 8, .allow_smaller_final_batch = smaller});
    BOOST_TEST(s.batch[0].shape().DebugString() == (smaller ? "[?,?]" : "[2,?]"));
    Started started(root);
    std::map<int, std::vector<int32_t>> seen;
    size_t small = 0;
    for (;;) {
      std::vector<Tensor> out;
      const absl::Status status = started.session->Run({}, {s.lengths, s.batch[0]}, {}, &out);
      if (absl::IsOutOfRange(status)) break;
      TROUPE_REQUIRE_OK(status);
      const auto lengths = out[0].flat<int32_t>();
      small += lengths.size() < 2 ? 1 : 0;
      BOOST_TEST(out[1].dim(0) == static_cast<int64_t>(lengths.size()));
      BOOST_TEST(out[1].dim(1) == *std::max_element(lengths.begin(), lengths.end()));
      const auto bucket_of = [](int32_t n) { return n < kBoundaries[0] ? 0 : n < kBoundaries[1] ? 1 : 2; };
      for (size_t i = 0; i < lengths.size(); ++i) {
        BOOST_TEST(bucket_of(lengths[i]) == bucket_of(lengths[0]));
        seen[bucket_of(lengths[i])].push_back(lengths[i]);
        for (int64_t k = 0; k < out[1].dim(1); ++k) {
          const int32_t v = out[1].data<int32_t>()[static_cast<int64_t>(i) * out[1].dim(1) + k];
          BOOST_TEST(v == (k < lengths[i] ? lengths[i] : 0));
        }
      }
    }
    // Of each bucket in the order of the input; an odd one out only if batches may be smaller.
    std::map<int, std::vector<int32_t>> want;
    for (const int32_t n : kLengths) want[n < 10 ? 0 : n < 20 ? 1 : 2].push_back(n);
    for (auto& [b, lengths] : want) {
      if (!smaller && lengths.size() % 2 == 1) lengths.pop_back();
    }
    BOOST_TEST((seen == want));
    BOOST_TEST(small == (smaller ? 1u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(buckets_are_chosen_by_the_program_and_elements_may_be_left_out) {
  const Scope root = Scope::NewRootScope();
  const Queue numbers = RangeInputProducer(root, 12, {.num_epochs = 1, .shuffle = false});
  const Output n = numbers.Dequeue(root)[0];
  const Output which = ops::FloorMod(root, n, Const(root, 2));
  const auto [bucket, batch] =
      Bucket(root, {n}, which, 2, {.batch_size = 3, .keep_input = ops::Less(root, n, Const(root, 9))});
  BOOST_TEST(batch[0].shape().DebugString() == "[3]");
  Started s(root);
  std::vector<std::string> got;
  for (int i = 0; i < 2; ++i) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(s.session->Run({}, {bucket, batch[0]}, {}, &out));
    got.push_back(StrCat(out[0].scalar<int32_t>(), ": ", out[1].DebugString()));
  }
  std::sort(got.begin(), got.end());
  BOOST_TEST(got[0] == "0: int32 [3] [0 2 4]");
  BOOST_TEST(got[1] == "1: int32 [3] [1 3 5]");
  // 6 and 8, 7: no bucket has three more.
  std::vector<Tensor> out;
  BOOST_TEST(absl::IsOutOfRange(s.session->Run({}, {bucket, batch[0]}, {}, &out)));
}

BOOST_AUTO_TEST_CASE(buckets_that_cannot_be_are_refused) {
  const auto refused = [](const auto& build) {
    const Scope root = Scope::NewRootScope();
    build(root);
    return absl::StatusCodeToString(root.status().code());
  };
  const auto length = [](const Scope& root) { return ops::Placeholder(root, DType::kInt32, {.shape = TensorShape()}); };
  BOOST_TEST(refused([&](const Scope& root) {
               BucketBySequenceLength(root, length(root), {length(root)}, {}, {.batch_size = 2});
             }) == "INVALID_ARGUMENT");
  BOOST_TEST(refused([&](const Scope& root) {
               BucketBySequenceLength(root, length(root), {length(root)}, {4, 4}, {.batch_size = 2});
             }) == "INVALID_ARGUMENT");
  BOOST_TEST(refused([&](const Scope& root) {
               Bucket(root, {ops::Placeholder(root, DType::kFloat)}, length(root), 2, {.batch_size = 2});
             }) == "INVALID_ARGUMENT");
  BOOST_TEST(refused([&](const Scope& root) {
               Bucket(root, {length(root)}, length(root), 2, {.batch_size = 2, .enqueue_many = true});
             }) == "INVALID_ARGUMENT");
  BOOST_TEST(refused([&](const Scope& root) { Bucket(root, {}, length(root), 2, {}); }) == "INVALID_ARGUMENT");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bucket_test
}  // namespace troupe::train
