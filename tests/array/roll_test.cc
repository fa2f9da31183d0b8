// Roll, beside the definition: output[(i + shift) mod n] = input[i] along each axis, in order.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <random>

#include "tests/autodiff/numeric.h"
#include "troupe/evaluate.h"
#include "troupe/troupe.h"

namespace troupe {
namespace roll_test {

// One axis after the other, an element at a time.
Tensor Rolled(Tensor t, const std::vector<int64_t>& shifts, const std::vector<int64_t>& axes) {
  for (size_t k = 0; k < axes.size(); ++k) {
    const int axis = static_cast<int>(axes[k] < 0 ? axes[k] + t.rank() : axes[k]);
    int64_t inner = 1;
    for (int d = axis + 1; d < t.rank(); ++d) inner *= t.dim(d);
    const int64_t n = t.dim(axis);
    Tensor next(t.dtype(), t.shape());
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int64_t at = i / inner % n, to = ((at + shifts[k]) % n + n) % n;
      next.data<int32_t>()[i + (to - at) * inner] = t.data<int32_t>()[i];
    }
    t = next;
  }
  return t;
}

BOOST_AUTO_TEST_CASE(roll_is_what_its_definition_says) {
  std::mt19937 random(1);
  const auto draw = [&random](int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    TensorShape shape;
    for (int64_t rank = draw(1, 4); rank > 0; --rank) shape.AddDim(draw(1, 5));
    Tensor in(DType::kInt32, shape);
    for (int64_t i = 0; i < in.num_elements(); ++i) in.data<int32_t>()[i] = static_cast<int32_t>(i);
    std::vector<int64_t> shifts, axes;
    for (int64_t n = draw(0, 3); n > 0; --n) {
      shifts.push_back(draw(-12, 12));
      axes.push_back(draw(-shape.rank(), shape.rank() - 1));
    }
    const auto out = EvaluateOp("Roll", {in, Tensor::Vector<int64_t>(shifts), Tensor::Vector<int64_t>(axes)});
    BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
    BOOST_TEST((*out)[0].DebugString() == Rolled(in, shifts, axes).DebugString());
  }
}

BOOST_AUTO_TEST_CASE(roll_of_many_rows_and_of_the_largest_shifts) {
  Tensor in(DType::kInt32, {7, 5000, 3});
  for (int64_t i = 0; i < in.num_elements(); ++i) in.data<int32_t>()[i] = static_cast<int32_t>(i);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  // Modulo 7, 3 and 5000; what the plain loop could not add up.
  const auto out = EvaluateOp(
      "Roll", {in, Tensor::Vector<int64_t>({kMost, kMost, kLeast, kLeast}), Tensor::Vector<int64_t>({0, 0, 2, 1})});
  BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
  const Tensor wanted = Rolled(in, {kMost % 7, kMost % 7, kLeast % 3, kLeast % 5000}, {0, 0, 2, 1});
  BOOST_TEST(((*out)[0].flat<int32_t>() == wanted.flat<int32_t>()));
}

BOOST_AUTO_TEST_CASE(roll_of_strings_and_of_nothing) {
  const auto words = EvaluateOp(
      "Roll", {Tensor::Vector<std::string>({"a", "b", std::string(100, 'c')}), Tensor::Scalar(1), Tensor::Scalar(-1)});
  BOOST_REQUIRE_MESSAGE(words.ok(), words.status());
  BOOST_TEST((*words)[0].flat<std::string>()[0] == std::string(100, 'c'));
  BOOST_TEST((*words)[0].flat<std::string>()[2] == "b");
  const auto none = EvaluateOp("Roll", {Tensor(DType::kFloat, {2, 0}), Tensor::Scalar(1), Tensor::Scalar(1)});
  BOOST_REQUIRE_MESSAGE(none.ok(), none.status());
  BOOST_TEST((*none)[0].TypeAndShape() == "float32 [2,0]");
}

BOOST_AUTO_TEST_CASE(roll_tells_its_shape_and_refuses_what_cannot_run) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat, {.shape = {-1, 3}});
  BOOST_TEST(ops::Roll(root, x, 1, 0).shape().DebugString() == "[?,3]");
  ops::Roll(root, x, {1, 2}, {0, 1, 1});
  BOOST_TEST(absl::IsInvalidArgument(root.status()), root.status());
  Scope other = Scope::NewRootScope();
  ops::Roll(other, Const(other, 1.0f), 1, 0);
  BOOST_TEST(absl::IsInvalidArgument(other.status()), other.status());
}

BOOST_AUTO_TEST_CASE(roll_has_a_gradient) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kDouble, {.shape = {2, 3}});
  Output y = ops::Square(root, ops::Roll(root.WithOpName("y"), x, {1, -1}, {0, 1})) *
             Const(root, {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  testing::CheckGradients(root, y, {x}, {{"x", Tensor::Of<double>({1, -2, 3, 4, 5, -6}, {2, 3})}});
}

}  // namespace roll_test
}  // namespace troupe
