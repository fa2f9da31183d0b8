#include "troupe/train/moving_average.h"

#include <algorithm>

#include "graph/api/scope_state.h"
#include "graph/core/hash_map.h"
#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/group.h"

namespace troupe::train {
namespace {

Scope TopLevel(const Scope& scope) { return Scope(internal::TopLevel(*scope.state())); }

// By what an average is found again: "w", or "dense/Relu" of output 0, "split:1" of others.
std::string KeyOf(const Output& of) {
  if (const NodeOut v = of.variable(); v.valid()) return v.node->name();
  if (!of.valid()) return {};
  return of.out().index == 0 ? of.node()->name() : of.out().ToString();
}

}  // namespace

Variable ExponentialMovingAverage::Average(const Output& of) const {
  const auto it = averages_.find(KeyOf(of));
  return it == averages_.end() ? Variable() : it->second;
}

std::string ExponentialMovingAverage::AverageName(const Variable& var) const {
  return StrCat(var.variable_name(), "/", options_.name);
}

// As TensorFlow, in float32 whatever the variables are.
Output ExponentialMovingAverage::Decay(const Scope& s) const {
  const Output decay = Const(s, static_cast<float>(decay_));
  if (!options_.num_updates.valid()) return decay;
  // Of a variable, the value that it has where the averages move: after the update of the step.
  const NodeOut counter = options_.num_updates.variable();
  const Output updates =
      counter.valid() ? Variable::Find(s, counter.node->name()).Read(s) : Output(options_.num_updates);
  const Output n = CastTo(s, updates, DType::kFloat);
  return Build(s, "Minimum", {decay, Build(s, "RealDiv", {Build(s, "AddV2", {n, 1.0}), Build(s, "AddV2", {n, 10.0})})});
}

Variable ExponentialMovingAverage::Zeros(const Scope& scope, const std::string& name, DType dtype,
                                         const TensorShape& shape) const {
  const Scope top = TopLevel(scope);
  const Scope below = top.NewSubScope(StrCat(name, "/Initializer"));
  const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  const Output zeros =
      Build(below.WithOpName("zeros"), "Fill",
            {Const(below, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims)))), Const(below, 0, dtype)},
            {{"index_type", DType::kInt64}});
  VariableOptions options;
  options.name = name;
  options.trainable = false;
  return Variable(top, zeros, options);
}

Operation ExponentialMovingAverage::Update(const ScopeAt& at, const std::vector<Output>& values,
                                           const std::vector<Variable>& averages, bool debias) {
  const Scope s = at.Sub(options_.name);
  std::vector<Operation> updates;
  const Output rest = Build(s, "Sub", {1.0, Decay(s)});
  for (size_t i = 0; i < values.size() && s.ok(); ++i) {
    const Variable& average = averages[i];
    const Scope here = s.ColocateWith(average.handle());
    const DType dtype = average.variable_dtype();
    const Output part = CastTo(here, rest, dtype);
    const auto towards = [&](const Variable& v) {
      const Output away = Build(here, "Sub", {v.Read(here), values[i]});
      return v.AssignSub(here, Build(here, "Mul", {away, part}));
    };
    if (!debias) {
      updates.emplace_back(towards(average));
      continue;
    }
    // The average with zeros at its beginning, and the weight that these zeros do not have in it.
    const TensorShape shape(average.variable_shape().dims());
    const Variable biased = Zeros(s, StrCat(average.variable_name(), "/biased"), dtype, shape);
    const Variable step = Zeros(s, StrCat(average.variable_name(), "/local_step"), dtype, TensorShape());
    const Output count = step.AssignAdd(here, 1);
    const Output kept = Build(here, "Pow", {Build(here, "Sub", {1.0, part}), count});
    const Output weight = Build(here, "Sub", {1.0, kept});
    updates.emplace_back(average.Assign(here, Build(here, "RealDiv", {towards(biased), weight})));
  }
  return Group(s.WithOpName("update"), updates);
}

Operation ExponentialMovingAverage::Apply(const ScopeAt& at, const std::vector<Variable>& vars) {
  const std::vector<Variable> list = vars.empty() ? VariablesIn(at, kTrainableVariables) : vars;
  if (!at.ok()) return Operation();
  if (list.empty()) {
    at.Fail(InvalidArgument("there are no variables to take averages of"));
    return Operation();
  }
  std::vector<Variable> averages;
  std::vector<Output> values;
  for (const Variable& var : list) {
    const auto [it, added] = averages_.try_emplace(KeyOf(var));
    if (added) {
      const Scope top = TopLevel(at.scope()).ColocateWith(var.handle());
      VariableOptions options;
      options.name = AverageName(var);
      options.trainable = false;
      options.use_resource = var.is_resource();
      options.shape = var.variable_shape();
      const Scope below = top.NewSubScope(StrCat(options.name, "/Initializer"));
      // What the variable has, or will have.
      Output start;
      if (var.initial_value().valid()) {
        start = Cond(
            below, var.IsInitialized(below), [&](const Scope& s) { return var.Read(s); },
            [&](const Scope& s) { return Build(s, "Identity", {var.initial_value()}); });
      } else {
        start = var.Read(below);
      }
      it->second = Variable(top, start, options);
      at->graph()->collection(kMovingAverageVariables).push_back(var.variable_name());
    }
    averages.push_back(it->second);
    values.push_back(var.Read(at));
  }
  return Update(at, values, averages, /*debias=*/false);
}

Operation ExponentialMovingAverage::ApplyToTensors(const ScopeAt& at, const std::vector<Output>& tensors) {
  std::vector<Variable> averages;
  for (const Output& t : tensors) {
    if (!at.ok()) return Operation();
    const PartialTensorShape shape = at->ShapeOf(t);
    if (!shape.IsFullyDefined()) {
      at.Fail(
          InvalidArgument("the average of '", t.name(), "' needs its static shape, which is ", shape.DebugString()));
      return Operation();
    }
    const std::string key = KeyOf(t);
    const auto [it, added] = averages_.try_emplace(key);
    if (added) {
      std::string name = key;
      std::replace(name.begin(), name.end(), ':', '_');
      it->second = Zeros(at.scope(), StrCat(name, "/", options_.name), BaseType(t.dtype()), TensorShape(shape.dims()));
    }
    averages.push_back(it->second);
  }
  return Update(at, tensors, averages, options_.zero_debias);
}

std::map<std::string, Variable> ExponentialMovingAverage::VariablesToRestore(const ScopeAt& at) const {
  std::map<std::string, Variable> result;
  HashMap<std::string, bool> averaged;
  for (const char* collection : {kTrainableVariables, kMovingAverageVariables}) {
    for (const Variable& v : VariablesIn(at, collection)) averaged[v.variable_name()] = true;
  }
  for (const char* collection : {kTrainableVariables, kMovingAverageVariables, kGlobalVariables}) {
    for (const Variable& v : VariablesIn(at, collection)) {
      const std::string name = averaged.contains(v.variable_name()) ? AverageName(v) : v.variable_name();
      result.emplace(name, v);
    }
  }
  return result;
}

}  // namespace troupe::train
