#include "troupe/train/regularizers.h"

#include "graph/train/build.h"

namespace troupe::train {
namespace {

bool HasTarget(const ScopeAt& at, const Regularizer& r) {
  if (r == nullptr) at.Fail(InvalidArgument("a regularizer is a function without a target"));
  return r != nullptr;
}

}  // namespace

Regularizer L1Regularizer(double scale) {
  return [scale](const ScopeAt& at, const Output& w) {
    const Scope s = at.Sub("l1_regularizer");
    const Output sizes = Build(s, "Abs", {w});
    return Build(s, "Mul", {Build(s, "Sum", {sizes, AllAxes(s, sizes)}), scale});
  };
}

Regularizer L2Regularizer(double scale) {
  return [scale](const ScopeAt& at, const Output& w) {
    const Scope s = at.Sub("l2_regularizer");
    return Build(s, "Mul", {Build(s, "L2Loss", {w}), scale});
  };
}

Regularizer SumRegularizer(std::vector<Regularizer> regularizers) {
  return [all = std::move(regularizers)](const ScopeAt& at, const Output& w) -> Output {
    const Scope s = at.Sub("sum_regularizer");
    std::vector<Output> parts;
    for (const Regularizer& r : all) {
      if (!HasTarget(at, r)) return {};
      parts.push_back(r(s, w));
    }
    if (parts.empty()) {
      at.Fail(InvalidArgument("a sum of regularizers needs at least one"));
      return {};
    }
    return SumOf(s, parts);
  };
}

Output RegularizationLoss(const ScopeAt& at, const Regularizer& regularizer, const std::vector<Variable>& weights) {
  const std::vector<Variable> list = weights.empty() ? VariablesIn(at, "trainable_variables") : weights;
  const Scope s = at.Sub("regularization_loss");
  if (!s.ok() || !HasTarget(at, regularizer)) return {};
  if (list.empty()) {
    at.Fail(InvalidArgument("there are no variables to regularize"));
    return {};
  }
  std::vector<Output> parts;
  for (const Variable& w : list) parts.push_back(regularizer(s, w));
  return SumOf(s, parts);
}

}  // namespace troupe::train
