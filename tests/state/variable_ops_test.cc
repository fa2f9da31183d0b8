// Ops that read, assign and count.
#include "kernels/run_kernel.h"
#include "tests/state/state_test_util.h"

namespace troupe {
namespace variable_ops_test {

BOOST_AUTO_TEST_SUITE(variable_ops)

BOOST_AUTO_TEST_CASE(one_name_is_one_variable) {
  const std::string name = FreshName();
  const Tensor a = NewVariable(false, DType::kFloat, {2}, name), b = NewVariable(false, DType::kFloat, {2}, name);
  BOOST_TEST(SlotOf(a) == SlotOf(b));
  Run("AssignVariableOp", {a, Tensor::Vector<float>({1, 2})});
  BOOST_TEST(Text(Run("ReadVariableOp", {b}, {{"dtype", DType::kFloat}})[0]) == Text(Tensor::Vector<float>({1, 2})));
  CheckFails(Try("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", PartialTensorShape()}, {"shared_name", name}}),
             absl::StatusCode::kInvalidArgument, "holds float32, not int32");
}

BOOST_AUTO_TEST_CASE(anonymous_variables_differ) {
  const std::string name = "cd2c89b7-88b7-44c8-ad83-06c2a9158347";
  const Tensor a = NewVariable(false, DType::kFloat, {2}, name), b = NewVariable(false, DType::kFloat, {2}, name);
  BOOST_TEST(SlotOf(a) != SlotOf(b));
}

BOOST_AUTO_TEST_CASE(reading_nothing_fails_with_the_name) {
  const Tensor h = NewVariable(false, DType::kFloat, {2}, "never_assigned");
  CheckFails(Try("ReadVariableOp", {h}, {{"dtype", DType::kFloat}}), absl::StatusCode::kFailedPrecondition,
             "never_assigned");
  BOOST_TEST(!*Run("VarIsInitializedOp", {h})[0].data<bool>());
  Run("AssignVariableOp", {h, Tensor::Vector<float>({1, 2})});
  BOOST_TEST(*Run("VarIsInitializedOp", {h})[0].data<bool>());
}

BOOST_AUTO_TEST_CASE(handles_are_checked) {
  CheckFails(Try("ReadVariableOp", {Tensor(DType::kResource, {})}, {{"dtype", DType::kFloat}}),
             absl::StatusCode::kInvalidArgument, "not bound");
  const Tensor h = NewVariable(false, Tensor::Vector<float>({1, 2}));
  CheckFails(Try("ReadVariableOp", {h}, {{"dtype", DType::kInt32}}), absl::StatusCode::kInvalidArgument,
             "holds float32, not int32");
  CheckFails(Try("AssignVariableOp", {h, Tensor::Vector<int32_t>({1, 2})}), absl::StatusCode::kInvalidArgument,
             "holds float32");
}

BOOST_AUTO_TEST_CASE(assign_variable_validates_only_on_request) {
  const Tensor h = NewVariable(false, DType::kFloat, PartialTensorShape());
  Run("AssignVariableOp", {h, Tensor::Vector<float>({1, 2})}, {{"validate_shape", true}});
  CheckFails(Try("AssignVariableOp", {h, Tensor::Vector<float>({1, 2, 3})}, {{"validate_shape", true}}),
             absl::StatusCode::kInvalidArgument, "does not fit");
  Run("AssignVariableOp", {h, Tensor::Vector<float>({1, 2, 3})});
  BOOST_TEST(Text(Run("VariableShape", {h})[0]) == Text(Tensor::Vector<int32_t>({3})));
  BOOST_TEST(Text(Run("VariableShape", {h}, {{"out_type", DType::kInt64}})[0]) == Text(Tensor::Vector<int64_t>({3})));
}

BOOST_AUTO_TEST_CASE(assign_by_reference) {
  const Tensor r = NewVariable(true, DType::kFloat, {2}, "by_ref");
  BOOST_TEST((r.dtype() == MakeRef(DType::kFloat)));
  BOOST_TEST(!*Run("IsVariableInitialized", {r})[0].data<bool>());
  const Tensor out = Run("Assign", {r, Tensor::Vector<float>({1, 2})})[0];
  BOOST_TEST(SlotOf(out) == SlotOf(r));
  BOOST_TEST(*Run("IsVariableInitialized", {r})[0].data<bool>());
  CheckFails(Try("Assign", {r, Tensor::Vector<float>({1})}), absl::StatusCode::kInvalidArgument,
             "Assign requires shapes of both tensors to match: variable 'by_ref' has shape [2], the value [1]");
  // What was assigned without validation is what later values must fit.
  Run("Assign", {r, Tensor::Vector<float>({9})}, {{"validate_shape", false}});
  Run("Assign", {r, Tensor::Vector<float>({8})});
  CheckFails(Try("Assign", {r, Tensor::Vector<float>({1, 2})}), absl::StatusCode::kInvalidArgument, "has shape [1]");
}

BOOST_AUTO_TEST_CASE(an_old_variable_of_shape_scalar_takes_any) {
  const Tensor r =
      Run("Variable", {}, {{"dtype", DType::kFloat}, {"shape", TensorShape()}, {"shared_name", FreshName()}})[0];
  Run("Assign", {r, Tensor::Vector<float>({1, 2})});
}

BOOST_AUTO_TEST_CASE(add_and_sub_of_every_type) {
  for (DType dtype : NumberTypes()) {
    if (IsQuantized(dtype)) continue;
    for (bool by_ref : {false, true}) {
      Tensor five(dtype, {3}), two(dtype, {3});
      BOOST_REQUIRE(VisitNumeric(dtype, false, [&]<class T>() {
        std::fill_n(five.data<T>(), 3, T(5));
        std::fill_n(two.data<T>(), 3, T(2));
        return true;
      }));
      const Tensor h = NewVariable(by_ref, five);
      Run(by_ref ? "AssignAdd" : "AssignAddVariableOp", {h, two});
      Run(by_ref ? "AssignAdd" : "AssignAddVariableOp", {h, two});
      Run(by_ref ? "AssignSub" : "AssignSubVariableOp", {h, five});
      const std::string text = Text(ValueOf(h));
      const std::string expected = IsComplex(dtype) ? "[3] [(4,0) (4,0) (4,0)]" : "[3] [4 4 4]";
      BOOST_TEST(text.find(expected) != std::string::npos, text);
    }
  }
}

BOOST_AUTO_TEST_CASE(add_checks_shapes_and_wraps) {
  const Tensor h = NewVariable(false, Tensor::Vector<int32_t>({std::numeric_limits<int32_t>::max()}));
  CheckFails(Try("AssignAddVariableOp", {h, Tensor::Scalar<int32_t>(1)}), absl::StatusCode::kInvalidArgument,
             "shapes must be equal");
  Run("AssignAddVariableOp", {h, Tensor::Vector<int32_t>({1})});
  BOOST_TEST(ValueOf(h).data<int32_t>()[0] == std::numeric_limits<int32_t>::min());
  CheckFails(
      Try("AssignAddVariableOp", {NewVariable(false, DType::kFloat, {1}, "empty_one"), Tensor::Vector<float>({1})}),
      absl::StatusCode::kFailedPrecondition, "empty_one");
}

BOOST_AUTO_TEST_CASE(an_add_of_a_snapshot_to_itself) {
  const Tensor h = NewVariable(false, Tensor::Vector<float>({1, 2}));
  const Tensor snapshot = Run("ReadVariableOp", {h}, {{"dtype", DType::kFloat}})[0];
  Run("AssignAddVariableOp", {h, snapshot});
  BOOST_TEST(Text(ValueOf(h)) == Text(Tensor::Vector<float>({2, 4})));
  BOOST_TEST(Text(snapshot) == Text(Tensor::Vector<float>({1, 2})));
}

BOOST_AUTO_TEST_CASE(count_up_to) {
  for (bool by_ref : {false, true}) {
    const Tensor h = NewVariable(by_ref, Tensor::Scalar<int64_t>(0));
    const char* const op = by_ref ? "CountUpTo" : "ResourceCountUpTo";
    const AttrMap attrs = {{"limit", 2}, {"T", DType::kInt64}};
    BOOST_TEST(*Run(op, {h}, attrs)[0].data<int64_t>() == 0);
    BOOST_TEST(*Run(op, {h}, attrs)[0].data<int64_t>() == 1);
    CheckFails(Try(op, {h}, attrs), absl::StatusCode::kOutOfRange, "reached limit of 2");
  }
}

BOOST_AUTO_TEST_CASE(a_destroyed_variable_has_no_value) {
  const std::string name = FreshName();
  const Tensor h = NewVariable(false, DType::kFloat, {1}, name);
  Run("AssignVariableOp", {h, Tensor::Vector<float>({1})});
  Run("DestroyResourceOp", {h});
  Run("DestroyResourceOp", {h});
  CheckFails(Try("DestroyResourceOp", {h}, {{"ignore_lookup_error", false}}), absl::StatusCode::kNotFound, name);
  CheckFails(Try("ReadVariableOp", {h}, {{"dtype", DType::kFloat}}), absl::StatusCode::kFailedPrecondition, name);
}

BOOST_AUTO_TEST_CASE(a_cleared_container_forgets) {
  Device* const device = EvaluationDevice(1);
  Graph graph;
  Node* const node = *graph.AddNode("v", "VarHandleOp",
                                    {{"dtype", DType::kFloat}, {"shape", TensorShape({1})}, {"container", "to_clear"}});
  const PreparedKernel kernel = *PrepareKernel(*node, device, SessionScope("s"));
  const KernelNode described = DescribeNode(*node, device);
  StepContext step;
  const auto run = [&] { return (*EvaluateKernel(kernel, described, {}, &step))[0]; };
  const Tensor before = run();
  BOOST_REQUIRE(SlotOf(before)->Assign(Tensor::Vector<float>({1})).ok());
  BOOST_TEST(SlotOf(run()) == SlotOf(before));
  device->containers()->Clear("to_clear");
  BOOST_TEST(SlotOf(run()) != SlotOf(before));
  BOOST_TEST(!SlotOf(run())->initialized());
}

BOOST_AUTO_TEST_CASE(temporary_variables_live_in_their_step) {
  StepContext step;
  EvaluateOptions options;
  options.step = &step;
  const AttrMap attrs = {{"dtype", DType::kFloat}, {"shape", TensorShape({2})}, {"var_name", "tmp"}};
  const Tensor r = Run("TemporaryVariable", {}, attrs, options)[0];
  CheckFails(Try("TemporaryVariable", {}, attrs, options), absl::StatusCode::kAlreadyExists, "tmp");
  Run("AssignAdd", {r, Tensor::Vector<float>({1, 2})}, {}, options);
  BOOST_TEST(Text(Run("DestroyTemporaryVariable", {r}, {{"var_name", "tmp"}}, options)[0]) ==
             Text(Tensor::Vector<float>({1, 2})));
  CheckFails(Try("DestroyTemporaryVariable", {r}, {{"var_name", "tmp"}}, options),
             absl::StatusCode::kFailedPrecondition, "tmp");
  Run("TemporaryVariable", {}, attrs, options);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace variable_ops_test
}  // namespace troupe
