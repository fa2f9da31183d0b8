// Stacks.
#include "tests/state/state_test_util.h"

namespace troupe {
namespace stack_test {

BOOST_AUTO_TEST_SUITE(stack)

BOOST_AUTO_TEST_CASE(last_in_first_out_in_both_forms) {
  for (bool v2 : {true, false}) {
    const std::string v = v2 ? "V2" : "";
    StepContext step;
    EvaluateOptions options;
    options.step = &step;
    const std::vector<Tensor> no_bound = v2 ? std::vector<Tensor>{Tensor::Scalar<int32_t>(-1)} : std::vector<Tensor>{};
    const AttrMap attrs = {{"elem_type", DType::kFloat}, {"stack_name", "history"}};
    const Tensor s = Run("Stack" + v, no_bound, attrs, options)[0],
                 other = Run("Stack" + v, no_bound, attrs, options)[0];
    for (float x : {1.f, 2.f, 3.f}) {
      BOOST_TEST(*Run("StackPush" + v, {s, Tensor::Scalar<float>(x)}, {}, options)[0].data<float>() == x);
    }
    CheckFails(Try("StackPop" + v, {other}, {{"elem_type", DType::kFloat}}, options),
               absl::StatusCode::kInvalidArgument, "'history' is empty");
    for (float x : {3.f, 2.f}) {
      BOOST_TEST(*Run("StackPop" + v, {s}, {{"elem_type", DType::kFloat}}, options)[0].data<float>() == x);
    }
    CheckFails(Try("StackPop" + v, {s}, {{"elem_type", DType::kInt32}}, options), absl::StatusCode::kInvalidArgument,
               "holds float32, not int32");
    CheckFails(Try("StackPush" + v, {s, Tensor::Scalar<int32_t>(1)}, {}, options), absl::StatusCode::kInvalidArgument,
               "holds float32, not int32");
    BOOST_TEST(step.resources.List().size() == 2u);
    Run("StackClose" + v, {s}, {}, options);
    BOOST_TEST(step.resources.List().size() == 1u);
    CheckFails(Try("StackPop" + v, {s}, {{"elem_type", DType::kFloat}}, options), absl::StatusCode::kInvalidArgument,
               "closed");
  }
}

BOOST_AUTO_TEST_CASE(a_bound_is_kept) {
  const Tensor s =
      Run("StackV2", {Tensor::Scalar<int32_t>(1)}, {{"elem_type", DType::kFloat}, {"stack_name", "small"}})[0];
  Run("StackPushV2", {s, Tensor::Scalar<float>(1)});
  CheckFails(Try("StackPushV2", {s, Tensor::Scalar<float>(2)}), absl::StatusCode::kInvalidArgument,
             "'small' overflowed its max_size (1)");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace stack_test
}  // namespace troupe
