// Values that are left under a number, and taken by it (kernels/state/numbered_place.cc).
#include "tests/state/state_test_util.h"

namespace troupe {
namespace numbered_place_test {

BOOST_AUTO_TEST_SUITE(numbered_place)

Tensor Number(int64_t n) { return Tensor::Scalar(n); }
absl::Status Put(const std::string& place, int64_t number, const std::vector<Tensor>& values) {
  std::vector<Tensor> inputs{Number(number)};
  inputs.insert(inputs.end(), values.begin(), values.end());
  return EvaluateOp("_PutNumbered", inputs, {{"shared_name", place}}, {static_cast<int>(values.size())}).status();
}
absl::StatusOr<std::vector<Tensor>> Take(const std::string& place, int64_t number, const std::vector<DType>& types,
                                         const std::vector<PartialTensorShape>& shapes) {
  return Try("_TakeNumbered", {Number(number)}, {{"T", types}, {"shapes", shapes}, {"shared_name", place}});
}
absl::StatusOr<std::vector<Tensor>> TakeFloats(const std::string& place, int64_t number) {
  return Take(place, number, {DType::kFloat}, {PartialTensorShape({-1})});
}

BOOST_AUTO_TEST_CASE(what_was_left_last_is_taken_once_by_its_number) {
  const std::string place = FreshName();
  CheckFails(TakeFloats(place, 7), absl::StatusCode::kAborted, StrCat("place '", place, "' is empty"));
  BOOST_TEST(Put(place, 7, {Tensor::Vector<float>({1, 2})}).ok());
  BOOST_TEST(Put(place, 7, {Tensor::Vector<float>({3})}).ok());
  const auto taken = TakeFloats(place, 7);
  BOOST_REQUIRE_MESSAGE(taken.ok(), taken.status());
  BOOST_TEST(Text((*taken)[0]) == "float32 [1] [3]");
  CheckFails(TakeFloats(place, 7), absl::StatusCode::kAborted, "is empty");
  const auto several = [&] {
    return Take(place, 8, {DType::kInt32, DType::kFloat}, {PartialTensorShape({-1}), PartialTensorShape({-1, 2})});
  };
  BOOST_TEST(Put(place, 8, {Tensor::Vector<int32_t>({5}), Tensor::Of<float>({1, 2}, {1, 2})}).ok());
  const auto both = several();
  BOOST_REQUIRE_MESSAGE(both.ok(), both.status());
  BOOST_TEST(Text((*both)[0]) + Text((*both)[1]) == "int32 [1] [5]float32 [1,2] [1 2]");
}

BOOST_AUTO_TEST_CASE(another_number_is_not_taken) {
  const std::string place = FreshName();
  BOOST_TEST(Put(place, 7, {Tensor::Vector<float>({1})}).ok());
  BOOST_TEST(Put(place, 6, {Tensor::Vector<float>({2})}).ok());  // of a step that was given up
  CheckFails(TakeFloats(place, 7), absl::StatusCode::kAborted,
             StrCat("place '", place, "' has values of number 6, not of 7"));
  CheckFails(TakeFloats(place, 6), absl::StatusCode::kAborted, "is empty");
}

int64_t NumberThere(const std::string& place) {
  return Run("_NumberThere", {}, {{"shared_name", place}})[0].scalar<int64_t>();
}
absl::StatusOr<std::vector<Tensor>> ReadFloats(const std::string& place, int64_t number) {
  return Try("_ReadNumbered", {Number(number)},
             {{"T", std::vector<DType>{DType::kFloat}},
              {"shapes", std::vector<PartialTensorShape>{PartialTensorShape({-1})}},
              {"shared_name", place}});
}

BOOST_AUTO_TEST_CASE(what_is_read_stays) {
  const std::string place = FreshName();
  BOOST_TEST(NumberThere(place) == -1);
  CheckFails(ReadFloats(place, 3), absl::StatusCode::kAborted, "is empty");
  BOOST_TEST(Put(place, 3, {Tensor::Vector<float>({1, 2})}).ok());
  BOOST_TEST(NumberThere(place) == 3);
  CheckFails(ReadFloats(place, 4), absl::StatusCode::kAborted, "has values of number 3, not of 4");
  for (int i = 0; i < 2; ++i) {
    const auto read = ReadFloats(place, 3);
    BOOST_REQUIRE_MESSAGE(read.ok(), read.status());
    BOOST_TEST(Text((*read)[0]) == "float32 [2] [1 2]");
  }
  BOOST_TEST(TakeFloats(place, 3).ok());
  BOOST_TEST(NumberThere(place) == -1);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  const std::string place = FreshName();
  const auto put = [&] { BOOST_TEST(Put(place, 1, {Tensor::Vector<float>({1, 2})}).ok()); };
  put();
  CheckFails(Take(place, 1, {DType::kInt32}, {PartialTensorShape({-1})}), absl::StatusCode::kInvalidArgument,
             "value 0 in place");
  put();
  CheckFails(Take(place, 1, {DType::kFloat}, {PartialTensorShape({3})}), absl::StatusCode::kInvalidArgument,
             "is float32 [2], not float32 [3]");
  put();
  CheckFails(Take(place, 1, {DType::kFloat, DType::kFloat}, {PartialTensorShape({2}), PartialTensorShape({2})}),
             absl::StatusCode::kInvalidArgument, "has 1 values, not 2");
  CheckFails(Take(place, 1, {DType::kFloat}, {}), absl::StatusCode::kInvalidArgument, "0 shapes of 1 values");
  CheckFails(
      EvaluateOp("_PutNumbered", {Tensor::Vector<int64_t>({1}), Tensor::Scalar(1.0f)}, {{"shared_name", place}}, {1}),
      absl::StatusCode::kInvalidArgument, "number must be a scalar");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace numbered_place_test
}  // namespace troupe
