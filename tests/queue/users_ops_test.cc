// Ops of a program that make tables and queues are treated as the library's: what is known of their
// elements follows from attrs and traits, not from their names.
#include <boost/test/unit_test.hpp>

#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
#include "troupe/troupe.h"

namespace troupe {
namespace users_ops_test {

TROUPE_OP("UsersTable")
    .Output("table: resource")
    .Stateful()
    .Trait(OpTrait::kTableHandle)
    .Trait(OpTrait::kNoEffect)
    .NotDifferentiable("a test")
    .Doc("A table with a number for each key.");
TROUPE_OP("UsersTableOfTensors")
    .Output("table: resource")
    .Attr("value_shape: shape = {}")
    .Stateful()
    .Trait(OpTrait::kTableHandle)
    .Trait(OpTrait::kNoEffect)
    .NotDifferentiable("a test")
    .Doc("A table with a tensor for each key.");
TROUPE_OP("UsersPriorities")
    .Output("queue: resource")
    .Attr("component_types: list(type) >= 0")
    .Attr("shapes: list(shape) >= 0")
    .Stateful()
    .Trait(OpTrait::kElementsHandle)
    .Trait(OpTrait::kNoEffect)
    .NotDifferentiable("a test")
    .Doc("A queue whose elements begin with a priority.");

BOOST_AUTO_TEST_CASE(values_of_a_table_have_the_shape_of_the_keys_unless_it_has_tensors) {
  const Scope root = Scope::NewRootScope();
  const Output keys = Const(root, Tensor::Vector<int64_t>({1, 2, 3}));
  const auto find = [&](const char* table) {
    return ops::LookupTableFindV2(root, EmitOp(root, table, {}).output(0), keys, 0.0f).shape().DebugString();
  };
  BOOST_TEST(find("UsersTable") == "[3]");
  BOOST_TEST(find("UsersTableOfTensors") == PartialTensorShape().DebugString());
  BOOST_TEST(root.ok(), root.status());
}

BOOST_AUTO_TEST_CASE(elements_of_a_queue_begin_with_a_priority_when_they_have_one_component_more) {
  const Scope root = Scope::NewRootScope();
  const std::vector<PartialTensorShape> shapes = {PartialTensorShape({2})};
  const Output queue =
      EmitOp(root, "UsersPriorities", {}, {{"component_types", std::vector<DType>{DType::kFloat}}, {"shapes", shapes}})
          .output(0);
  const OutputList element = ops::QueueDequeueV2(root, queue, {DType::kInt64, DType::kFloat});
  BOOST_REQUIRE(root.ok());
  BOOST_TEST(element[0].shape().DebugString() == "[]");
  BOOST_TEST(element[1].shape().DebugString() == "[2]");
  const OutputList plain = ops::QueueDequeueV2(root, queue, {DType::kFloat});
  BOOST_TEST(plain[0].shape().DebugString() == "[2]");
}

}  // namespace users_ops_test
}  // namespace troupe
