// Examples in which a list, a kind or a key stands twice mean what protobuf makes of them.
#include <boost/test/unit_test.hpp>
#include <random>

#include "troupe/evaluate.h"
#include "troupe/proto/example.pb.h"

namespace troupe {
namespace example_merge_test {

std::string Field(int number, const std::string& bytes) {
  BOOST_REQUIRE(bytes.size() < 16384);
  std::string s(1, static_cast<char>(number << 3 | 2));
  if (bytes.size() >= 128) s += static_cast<char>(bytes.size() | 128);
  s += static_cast<char>(bytes.size() >= 128 ? bytes.size() >> 7 : bytes.size());
  return s + bytes;
}
// An Example whose only feature, "x", is these bytes.
std::string ExampleOf(const std::string& feature) { return Field(1, Field(1, Field(1, "x") + Field(2, feature))); }

absl::StatusOr<std::vector<Tensor>> Parse(const std::string& example, DType type) {
  const Tensor texts = Tensor::Vector<std::string>({example}), none = Tensor::Vector<std::string>({});
  const Tensor key = Tensor::Vector<std::string>({"x"});
  return EvaluateOp("ParseExampleV2",
                    {texts, none, key, Tensor::Vector<std::string>({}), Tensor::Vector<std::string>({})},
                    {{"Tdense", std::vector<DType>{}},
                     {"num_sparse", 1},
                     {"sparse_types", std::vector<DType>{type}},
                     {"ragged_value_types", std::vector<DType>{}},
                     {"ragged_split_types", std::vector<DType>{}},
                     {"dense_shapes", std::vector<PartialTensorShape>{}}},
                    {0});
}

// The values that the op gives for the feature, and those of protobuf's own parser.
template <class T>
void Same(const std::string& example, const google::protobuf::RepeatedField<T>& expected, DType type) {
  const auto got = Parse(example, type);
  BOOST_REQUIRE_MESSAGE(got.ok(), got.status());
  const auto values = (*got)[1].flat<T>();
  BOOST_TEST(std::vector<T>(values.begin(), values.end()) == std::vector<T>(expected.begin(), expected.end()),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(features_are_merged_as_protobuf_merges_them) {
  std::mt19937 random(5);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  int joined = 0, replaced = 0;
  for (int round = 0; round < 2000; ++round) {
    // Bytes behind bytes are a message merged into another.
    std::string bytes;
    const int parts = 1 + upto(4);
    int kinds = 0, last = -1;
    for (int i = 0; i < parts; ++i) {
      proto::Feature f;
      const int kind = upto(3);
      for (int k = upto(4); k >= 0; --k) {
        if (kind == 0) f.mutable_float_list()->add_value(static_cast<float>(upto(100)));
        if (kind == 1) f.mutable_int64_list()->add_value(upto(1000) - 500);
        if (kind == 2) f.mutable_bytes_list()->add_value(std::to_string(upto(100)));
      }
      bytes += f.SerializeAsString();
      joined += kind == last;
      kinds += kind != last;
      last = kind;
    }
    replaced += kinds > 1;
    proto::Feature merged;
    BOOST_REQUIRE(merged.ParseFromString(bytes));
    const std::string example = ExampleOf(bytes);
    if (merged.has_float_list()) Same(example, merged.float_list().value(), DType::kFloat);
    if (merged.has_int64_list()) Same(example, merged.int64_list().value(), DType::kInt64);
    if (merged.has_bytes_list()) {
      const auto got = Parse(example, DType::kString);
      BOOST_REQUIRE_MESSAGE(got.ok(), got.status());
      const auto values = (*got)[1].flat<std::string>();
      const auto& expected = merged.bytes_list().value();
      BOOST_TEST(std::vector<std::string>(values.begin(), values.end()) ==
                     std::vector<std::string>(expected.begin(), expected.end()),
                 boost::test_tools::per_element());
    }
  }
  BOOST_TEST(joined > 300);
  BOOST_TEST(replaced > 300);
}

BOOST_AUTO_TEST_CASE(of_a_key_that_comes_twice_the_last_entry_counts) {
  proto::Feature one, two;
  one.mutable_int64_list()->add_value(1);
  two.mutable_int64_list()->add_value(2);
  const auto entry = [](const proto::Feature& f) { return Field(1, Field(1, "x") + Field(2, f.SerializeAsString())); };
  for (const std::string& example : {Field(1, entry(one) + entry(two)), Field(1, entry(one)) + Field(1, entry(two))}) {
    proto::Example e;
    BOOST_REQUIRE(e.ParseFromString(example));
    Same(example, e.features().feature().at("x").int64_list().value(), DType::kInt64);
  }
}

}  // namespace example_merge_test
}  // namespace troupe
