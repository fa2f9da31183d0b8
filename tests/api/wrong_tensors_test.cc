// Tensors without a value, or asked for what they do not have.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <stdexcept>

#include "troupe/troupe.h"

namespace troupe {
namespace wrong_tensors_test {

BOOST_AUTO_TEST_SUITE(wrong_tensors)

BOOST_AUTO_TEST_CASE(a_tensor_without_value_throws_and_does_not_crash) {
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  const Tensor none;
  BOOST_TEST(none.DebugString() == "<no value>");
  BOOST_TEST(none.TypeAndShape() == "<no value>");
  BOOST_TEST(none.num_elements() == 1);
  BOOST_TEST(none.rank() == 0);
  BOOST_TEST(none.bytes() == 0u);
  BOOST_TEST(!none.valid());
  BOOST_TEST(!none.BufferUnique());
  BOOST_TEST(!none.Clone().valid());
  BOOST_TEST(!none.Reshaped({1}).valid());
  BOOST_TEST(message([&] { none.data<float>(); }) == "a tensor without a value was read as float32");
  BOOST_TEST(message([&] { none.scalar<double>(); }) == "a tensor without a value was read as float64");
  BOOST_TEST(message([&] { none.flat<int32_t>(); }) == "a tensor without a value was read as int32");
  const Tensor two = Tensor::Vector<float>({1, 2});
  BOOST_TEST(message([&] { two.data<double>(); }) == "a tensor float32 [2] was read as float64");
  BOOST_TEST(two.scalar<float>() == 1.0f);
  BOOST_TEST(message([&] { Tensor(DType::kFloat, {0}).scalar<float>(); }) ==
             "a tensor float32 [0] has no element to be read as a scalar");
  BOOST_TEST(message([&] { Tensor::Of<float>({1, 2, 3}, {2}); }) == "a tensor float32 [2] was to be made of 3 values");
  BOOST_TEST(message([&] { Tensor::Of<float>({1}, {2}); }) == "a tensor float32 [2] was to be made of 1 values");
  const Literal literal(none);
  BOOST_TEST(!literal.error().ok());
}

BOOST_AUTO_TEST_CASE(what_a_tensor_does_not_have_cannot_be_had) {
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  Tensor none;
  BOOST_TEST(message([&] { none.raw(); }) == "the bytes of a tensor without a value were asked for");
  BOOST_TEST(message([&] { std::as_const(none).raw(); }) == "the bytes of a tensor without a value were asked for");
  BOOST_TEST(message([&] { none.Slice(0, 0); }) == "a tensor <no value> has no rows 0 to 0");
  BOOST_TEST(!Tensor(none).ReshapedMove({1}).valid());
  BOOST_TEST(!none.WithType(DType::kInt32, {1}).valid());

  const Tensor three = Tensor::Vector<float>({1, 2, 3}), one = Tensor::Scalar(1.f);
  BOOST_TEST(message([&] { three.Slice(2, 9); }) == "a tensor float32 [3] has no rows 2 to 9");
  BOOST_TEST(message([&] { three.Slice(2, 1); }) == "a tensor float32 [3] has no rows 2 to 1");
  BOOST_TEST(message([&] { three.Slice(-1, 1); }) == "a tensor float32 [3] has no rows -1 to 1");
  BOOST_TEST(message([&] { one.Slice(0, 1); }) == "a tensor float32 [] has no rows 0 to 1");
  BOOST_TEST(three.Slice(3, 3).num_elements() == 0);
  BOOST_TEST(three.Slice(1, 3).DebugString() == "float32 [2] [2 3]");
  BOOST_TEST(Tensor(DType::kFloat, {0, 2}).Slice(0, 0).DebugString() == "float32 [0,2] []");

  BOOST_TEST(message([&] { one.Reshaped({1000000000}); }) ==
             "the bytes of a tensor float32 [] cannot be seen as float32 [1000000000]");
  BOOST_TEST(message([&] { Tensor(one).ReshapedMove({1000000000}); }) ==
             "the bytes of a tensor float32 [] cannot be seen as float32 [1000000000]");
  BOOST_TEST(message([&] { three.Reshaped({-1, -3}); }).find("cannot be seen as") != std::string::npos);
  BOOST_TEST(message([&] {
               three.Reshaped({int64_t{1} << 40, int64_t{1} << 40});
             }).find("cannot be seen as") != std::string::npos);
  BOOST_TEST(message([&] { three.Slice(1, 3).Reshaped({1000}); }).find("cannot be seen as") != std::string::npos);
  BOOST_TEST(three.Reshaped({3, 1}).DebugString() == "float32 [3,1] [1 2 3]");
  BOOST_TEST(three.WithType(DType::kInt16, {6}).num_elements() == 6);
  // Objects are no bytes.
  const Tensor text = Tensor::Scalar("text");
  BOOST_TEST(message([&] { text.WithType(DType::kUint8, {8}); }) ==
             "the bytes of a tensor string [] cannot be seen as uint8 [8]");
  BOOST_TEST(message([&] { Tensor(DType::kUint8, {64}).WithType(DType::kString, {1}); }).find("cannot be seen as") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_shape_with_too_many_elements_makes_no_tensor) {
  constexpr int64_t kMany = int64_t{1} << 40;
  BOOST_TEST(!Tensor(DType::kFloat, {kMany, kMany}).valid());
  BOOST_TEST(!Tensor(DType::kFloat, {kMany, kMany, 0}).valid());
  BOOST_TEST(!Tensor(DType::kFloat, {int64_t{1} << 62}).valid());
  BOOST_TEST(!Tensor(DType::kFloat, {-1}).valid());
  BOOST_TEST(Tensor(DType::kFloat, {kMany, 0}).valid());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace wrong_tensors_test
}  // namespace troupe
