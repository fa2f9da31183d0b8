#include "troupe/train/optimizer.h"

#include <algorithm>

#include "graph/api/scope_state.h"
#include "graph/core/guarded.h"
#include "graph/train/build.h"
#include "graph/train/parts.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {
namespace {

// The outermost scope, on the device of `like`: slots are named after their variables, wherever the
// optimizer is called.
Scope Beside(const Scope& scope, const Variable& like) {
  return Scope(internal::TopLevel(*scope.state())).ColocateWith(like.handle());
}

// "layer1/w" -> "layer1_w": part of a node's name.
std::string Flat(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

}  // namespace

std::vector<GradAndVar> Optimizer::ComputeGradients(const ScopeAt& at, const Output& loss,
                                                    const std::vector<Variable>& vars,
                                                    const GradientOptions& options) const {
  const std::vector<Variable> list = vars.empty() ? VariablesIn(at, kTrainableVariables) : vars;
  std::vector<GradAndVar> result;
  if (!at.ok()) return result;
  if (list.empty()) {
    at.Fail(InvalidArgument("there are no variables to optimize"));
    return result;
  }
  GradientOptions o = options;
  o.unconnected = Unconnected::kNone;
  const std::vector<Output> grads = Gradients(at, {loss}, std::vector<Output>(list.begin(), list.end()), {}, o);
  for (size_t i = 0; i < list.size(); ++i) result.push_back({grads[i], list[i]});
  return result;
}

Operation Optimizer::ApplyGradients(const ScopeAt& at, const std::vector<GradAndVar>& grads,
                                    const Variable& global_step) {
  if (!at.ok()) return Operation();
  std::vector<GradAndVar> used;
  std::vector<std::string> names;
  for (const GradAndVar& g : grads) {
    names.push_back(g.var.variable_name());
    if (g.grad.valid()) used.push_back(g);
  }
  if (used.empty()) {
    at.Fail(InvalidArgument("no gradient was given for any of the variables: ", StrJoin(names, ", ")));
    return Operation();
  }
  const Scope scope = at.Sub(name_);
  // What an optimizer of the user's throws is the scope's error.
  const auto guarded = [&](auto&& f) {
    if (absl::Status s = Guarded(StrCat("optimizer '", name_, "'"), f); !s.ok()) at.Fail(s);
  };
  guarded([&] { Prepare(scope, used); });
  std::vector<Operation> updates;
  for (const GradAndVar& g : used) {
    const Scope here = scope.NewSubScope(StrCat("update_", Flat(g.var.variable_name()))).ColocateWith(g.var.handle());
    guarded([&] {
      const DType dtype = g.var.variable_dtype();
      if (std::optional<IndexedSlices> slices = SlicesOf(here, g.grad)) {
        slices->values = CastTo(here, slices->values, dtype);
        updates.push_back(ApplySlices(here, *slices, g.var));
      } else {
        updates.push_back(Apply(here, CastTo(here, g.grad, dtype), g.var));
      }
    });
  }
  guarded([&] {
    for (const Operation& op : Finish(scope, updates)) updates.push_back(op);
  });
  // Beside the step, which waits for it: then no other task stands between them.
  const Scope beside = global_step.handle().valid() ? scope.ColocateWith(global_step.handle()) : scope;
  const Operation update = Group(beside.WithOpName("update"), updates);
  if (!global_step.handle().valid() || !at.ok()) return update;
  const Scope after = scope.WithControlDependencies(update).ColocateWith(global_step.handle());
  return Operation(
      global_step.AssignAdd(after.WithOpName("step"), Const(after.WithOpName("one"), 1, global_step.variable_dtype())));
}

Operation Optimizer::Minimize(const ScopeAt& at, const Output& loss, const std::vector<Variable>& vars,
                              const Variable& global_step, const GradientOptions& options) {
  return ApplyGradients(at, ComputeGradients(at, loss, vars, options), global_step);
}

Variable Optimizer::Slot(const Variable& var, std::string_view slot) const {
  const auto it = slots_.find(StrCat(var.variable_name(), "/", slot));
  return it == slots_.end() ? Variable() : it->second;
}

Variable Optimizer::FilledSlot(const Scope& scope, const Variable& var, const std::string& slot, double value) {
  const std::string name = StrCat(var.variable_name(), "/", slot);
  if (const auto it = slots_.find(name); it != slots_.end()) return it->second;
  const Scope beside = Beside(scope, var);
  const DType dtype = var.variable_dtype();
  Output filled;
  const auto number = [&](const Scope& s) {
    // A whole number is one in every type.
    return value == static_cast<double>(static_cast<int64_t>(value)) ? Const(s, static_cast<int64_t>(value), dtype)
                                                                     : Const(s, value, dtype);
  };
  if (var.variable_shape().IsFullyDefined()) {
    std::vector<int64_t> dims(var.variable_shape().dims().begin(), var.variable_shape().dims().end());
    const Scope below = beside.NewSubScope(StrCat(name, "/Initializer"));
    const Output shape = Const(below.WithOpName("shape"), Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims))));
    filled = Build(below.WithOpName(value == 0 ? "zeros" : "filled"), "Fill",
                   {shape, number(below.WithOpName(value == 0 ? "zero" : "value"))}, {{"index_type", DType::kInt64}});
  } else {
    const Scope below = beside.NewSubScope(StrCat(name, "/Initializer"));
    filled = Build(below.WithOpName("zeros"), "ZerosLike", {var.initial_value()});
    if (value != 0) filled = Build(below.WithOpName("filled"), "AddV2", {filled, number(below.WithOpName("value"))});
  }
  VariableOptions options;
  options.name = name;
  options.trainable = false;
  options.use_resource = var.is_resource();
  options.shape = var.variable_shape();
  const Variable made(beside, filled, options);
  // A slot of a part is that part of the slot of the whole.
  if (const std::optional<PartOfWhole> part = WholeOf(var))
    SetWhole(made, {StrCat(part->name, "/", slot), part->shape_and_slice});
  return slots_[name] = made;
}

Variable Optimizer::SharedVariable(const Scope& scope, const Variable& like, const std::string& name, double initial) {
  const Scope beside = Beside(scope, like);
  VariableOptions options;
  options.name = beside.UniqueNodeName(name);
  options.trainable = false;
  options.use_resource = like.is_resource();
  return Variable(beside, Const(beside.WithOpName(StrCat(options.name, "/initial_value")), initial, DType::kFloat),
                  options);
}

}  // namespace troupe::train
