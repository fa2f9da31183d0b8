#include "graph/train/tower_variables.h"

#include <string_view>

namespace troupe::train {

// Without the tower's prefix.
std::string TowerVariables::NameFor(const ScopeAt& at, const VariableOptions& options) const {
  const std::string& own = !options.name.empty() ? options.name : at->op_name();
  std::string name = StrCat(at->prefix(), own.empty() ? "Variable" : own);
  if (name.starts_with(prefix_)) name.erase(0, prefix_.size());
  return name;
}

Variable TowerVariables::MakeOne(const ScopeAt& at, const Scope& where, const Input& initial_value,
                                 const VariableOptions& options) {
  internal::ScopeShared& shared = *outside_.state()->shared;
  shared.variable_maker = nullptr;
  const Variable made(ScopeAt(Scope(internal::TopLevel(*where.state())), at.location()), initial_value, options);
  shared.variable_maker = this;
  return made;
}

void TowerVariables::Make(const ScopeAt& at, const Input& initial_value, const VariableOptions& options,
                          Variable* made) {
  std::vector<Variable>& mine = made_.back();
  const std::vector<Variable>& firsts = made_.front();
  const std::string name = NameFor(at, options);
  const size_t tower = made_.size() - 1, number = mine.size();
  VariableOptions o = options;
  o.name = name;
  if (tower == 0) {
    *made = MakeOne(at, mirrored_ ? at.scope() : outside_, initial_value, o);
    names_.push_back(name);
    trainable_.push_back(options.trainable);
    mine.push_back(*made);
    return;
  }
  // The names that are asked for, before they were made unique.
  if (number >= firsts.size() || names_[number] != name) {
    return at.Fail(InvalidArgument("towers make different variables: tower ", tower, " makes '", name, "' as number ",
                                   number, ", where tower 0 makes ",
                                   number < firsts.size() ? StrCat("'", names_[number], "'") : "none"));
  }
  const Variable& first = firsts[number];
  const DType dtype = options.dtype == DType::kInvalid ? BaseType(initial_value.dtype()) : options.dtype;
  PartialTensorShape shape = options.shape;
  if (!shape.known_rank()) {
    shape = initial_value.literal() != nullptr ? PartialTensorShape(initial_value.literal()->value().shape())
            : initial_value.out().valid()      ? at->ShapeOf(initial_value.out())
                                               : PartialTensorShape();
  }
  if (dtype != first.variable_dtype() || !shape.IsCompatibleWith(first.variable_shape())) {
    return at.Fail(InvalidArgument("towers make different variables: '", name, "' of tower ", tower, " is ",
                                   Name(dtype), shape.DebugString(), ", that of tower 0 is ",
                                   Name(first.variable_dtype()), first.variable_shape().DebugString()));
  }
  if (!mirrored_) {
    *made = first;
  } else {
    // Its first value is that of the first tower, which may be drawn at random.
    o.name = StrCat("mirror_", tower, "/", first.variable_name());
    o.dtype = first.variable_dtype();
    o.shape = first.variable_shape();
    o.trainable = false;
    o.collections.clear();
    if (!o.shared_name.empty()) o.shared_name = StrCat("mirror_", tower, "/", o.shared_name);
    *made = MakeOne(at, at.scope(), first.initial_value(), o);
  }
  mine.push_back(*made);
}

}  // namespace troupe::train
