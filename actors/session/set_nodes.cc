#include "actors/session/set_nodes.h"

#include "troupe/proto/graph.pb.h"

namespace troupe {

absl::Status CheckSet(const Variable& variable, const Tensor& value) {
  if (!variable.valid()) return InvalidArgument("Set: the Variable is invalid, which its scope's status() explains");
  const std::string name = variable.variable_name();
  if (!value.valid()) return InvalidArgument("Set of '", name, "': the tensor has no value");
  if (value.dtype() != variable.variable_dtype() || !variable.variable_shape().IsCompatibleWith(value.shape())) {
    return InvalidArgument("Set of '", name, "': the variable is ", Name(variable.variable_dtype()), " ",
                           variable.variable_shape().DebugString(), ", but the value is ", value.TypeAndShape());
  }
  return absl::OkStatus();
}

SetNodes::SetNodes(const Variable& variable)
    : variable_(variable.variable_name()),
      type_(variable.variable_dtype()),
      resource_(variable.is_resource()),
      fully_defined_(variable.variable_shape().IsFullyDefined()) {
  assign = StrCat(variable_, "/Set/", Name(type_));
  value = StrCat(variable_, "/SetValue/", Name(type_));
}

proto::GraphDef SetNodes::Graph() const {
  proto::GraphDef def;
  def.mutable_versions()->set_producer(kGraphVersion);
  const auto type = static_cast<proto::DataType>(type_);
  proto::NodeDef* node = def.add_node();
  node->set_name(value);
  node->set_op("Placeholder");
  (*node->mutable_attr())["dtype"].set_type(type);
  node = def.add_node();
  node->set_name(assign);
  node->set_op(resource_ ? "AssignVariableOp" : "Assign");
  node->add_input(variable_);
  node->add_input(value);
  (*node->mutable_attr())[resource_ ? "dtype" : "T"].set_type(type);
  if (!resource_) (*node->mutable_attr())["validate_shape"].set_b(fully_defined_);
  return def;
}

}  // namespace troupe
