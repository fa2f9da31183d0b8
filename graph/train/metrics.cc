#include "troupe/train/metrics.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {
namespace {

Output Flat(const Scope& s, const Output& x, DType dtype) {
  return Build(s, "Reshape", {CastTo(s, x, dtype), Const(s, {-1})});
}
Output Total(const Scope& s, const Output& x) { return Build(s, "Sum", {x, AllAxes(s, x)}); }

// A shape without its dimensions of one element.
std::vector<int64_t> Squeezed(const PartialTensorShape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) != 1) dims.push_back(shape.dim(i));
  }
  return dims;
}
// `flat`, the elements of `x`, to be paired with those of `like`. Their shapes must be equal but
// for dimensions of one element, so that neither a transposed tensor is paired in silence nor
// anything is broadcast: seen while the graph is built where the shapes are known, or in the step.
Output Paired(const ScopeAt& at, const Output& flat, const Output& x, const Output& like, const char* what) {
  const Scope& s = at.scope();
  const PartialTensorShape a = s.ShapeOf(x), b = s.ShapeOf(like);
  if (a.IsFullyDefined() && b.IsFullyDefined()) {
    if (Squeezed(a) == Squeezed(b)) return flat;
    at.Fail(InvalidArgument(what, " of shape ", a.DebugString(), " cannot be paired with ", b.DebugString()));
    return flat;
  }
  const Output dims = Build(s, "Shape", {Build(s, "Squeeze", {x})});
  const Output expected = Build(s, "Shape", {Build(s, "Squeeze", {like})});
  const auto check = [&](const Output& holds) {
    return EmitLists(s, "Assert",
                     {InputList({holds}), InputList({Input(StrCat(what, " do not have the shape of their partners")),
                                                     Build(s, "Shape", {x}), Build(s, "Shape", {like})})});
  };
  const Operation ranks = check(Build(s, "Equal", {Build(s, "Size", {dims}), Build(s, "Size", {expected})}));
  const Output equal = Build(s.WithControlDependencies(ranks), "Equal", {dims, expected});
  const Operation same = check(Build(s, "All", {equal, AllAxes(s, equal)}));
  return Build(s.WithControlDependencies(same), "Identity", {flat});
}
// Weights as a vector of as many as `like` has elements, or ones.
Output Weights(const Scope& s, const Output& weights, const Output& like) {
  const Output ones = Build(s, "OnesLike", {Flat(s, like, DType::kFloat)});
  if (!weights.valid()) return ones;
  const PartialTensorShape shape = s.ShapeOf(weights);
  if (shape.known_rank() && shape.rank() == 0) return Build(s, "Mul", {ones, CastTo(s, weights, DType::kFloat)});
  const Output flat = Flat(s, weights, DType::kFloat);
  if (shape.known_rank()) return Paired(s, flat, weights, like, "weights");
  // Of unknown rank it may be one number for all.
  const Output size = Build(s, "Size", {flat});
  const Output fits =
      Build(s, "LogicalOr", {Build(s, "Equal", {size, 1}), Build(s, "Equal", {size, Build(s, "Size", {ones})})});
  const Operation check = EmitLists(
      s, "Assert",
      {InputList({fits}), InputList({Input("weights are neither one nor as many as what they weigh"), size})});
  return Build(s.WithControlDependencies(check), "Mul", {ones, flat});
}

Variable Zeros(const Scope& s, const char* name, const TensorShape& shape) {
  VariableOptions options;
  options.trainable = false;
  options.collections = {kLocalVariables};
  return Variable(s.WithOpName(name), Const(s, 0.0f, shape), options);
}

// Sums that grow with each step, and what is made of them: of what they were, and of what they are.
template <class F>
Metric Gathered(const Scope& s, std::vector<Variable> sums, const std::vector<Output>& parts, const F& make) {
  std::vector<Output> before, after;
  for (size_t i = 0; i < sums.size(); ++i) {
    before.push_back(sums[i].Read(s));
    after.push_back(sums[i].AssignAdd(s, parts[i]));
  }
  Metric metric;
  metric.value = make(s.NewSubScope("value"), before);
  metric.update = make(s.NewSubScope("update"), after);
  metric.variables = std::move(sums);
  return metric;
}

Metric Ratio(const Scope& s, const char* part, const Output& part_now, const char* rest, const Output& rest_now) {
  return Gathered(s, {Zeros(s, part, TensorShape()), Zeros(s, rest, TensorShape())}, {part_now, rest_now},
                  [](const Scope& r, const std::vector<Output>& sums) {
                    return Build(r, "DivNoNan", {sums[0], Build(r, "AddV2", {sums[0], sums[1]})});
                  });
}

// sum(weights where both hold)
Output Both(const Scope& s, const Output& a, const Output& b, const Output& weights) {
  const Output both = Build(s, "LogicalAnd", {a, b});
  return Total(s, Build(s, "Mul", {CastTo(s, both, DType::kFloat), weights}));
}

}  // namespace

Metric MeanMetric(const ScopeAt& at, const Output& values, const Output& weights) {
  const Scope s = at.Sub("mean");
  if (!s.ok()) return {};
  const Output flat = Flat(s, values, DType::kFloat), w = Weights(s, weights, values);
  return Gathered(s, {Zeros(s, "total", TensorShape()), Zeros(s, "count", TensorShape())},
                  {Total(s, Build(s, "Mul", {flat, w})), Total(s, w)},
                  [](const Scope& r, const std::vector<Output>& sums) {
                    return Build(r, "DivNoNan", {sums[0], sums[1]});
                  });
}

Metric AccuracyMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights) {
  const Scope s = at.Sub("accuracy");
  if (!s.ok()) return {};
  const Output expected = Flat(s, labels, BaseType(labels.dtype()));
  const Output predicted =
      Paired(s, Flat(s, predictions, BaseType(labels.dtype())), predictions, labels, "predictions");
  // In the shape that the weights must have.
  const Output right = Build(s, "Equal", {predicted, expected});
  return MeanMetric(s, Build(s, "Reshape", {right, Build(s, "Shape", {labels})}), weights);
}

Metric PrecisionMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights) {
  const Scope s = at.Sub("precision");
  if (!s.ok()) return {};
  const Output yes = Flat(s, labels, DType::kBool);
  const Output said = Paired(s, Flat(s, predictions, DType::kBool), predictions, labels, "predictions");
  const Output w = Weights(s, weights, labels);
  return Ratio(s, "true_positives", Both(s, yes, said, w), "false_positives",
               Both(s, Build(s, "LogicalNot", {yes}), said, w));
}

Metric RecallMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights) {
  const Scope s = at.Sub("recall");
  if (!s.ok()) return {};
  const Output yes = Flat(s, labels, DType::kBool);
  const Output said = Paired(s, Flat(s, predictions, DType::kBool), predictions, labels, "predictions");
  const Output w = Weights(s, weights, labels);
  return Ratio(s, "true_positives", Both(s, yes, said, w), "false_negatives",
               Both(s, yes, Build(s, "LogicalNot", {said}), w));
}

Metric AucMetric(const ScopeAt& at, const Output& labels, const Output& predictions, const Output& weights,
                 int thresholds, AucCurve curve) {
  const Scope s = at.Sub("auc");
  if (!s.ok()) return {};
  if (thresholds < 2) {
    at.Fail(InvalidArgument("the area under a curve needs at least two thresholds, not ", thresholds));
    return {};
  }
  // The first lies below every prediction, the last above.
  constexpr double kBeyond = 1e-7;
  Tensor limits(DType::kFloat, {thresholds, 1});
  for (int i = 0; i < thresholds; ++i) limits.data<float>()[i] = static_cast<float>(i / (thresholds - 1.0));
  limits.data<float>()[0] = static_cast<float>(-kBeyond);
  limits.data<float>()[thresholds - 1] = static_cast<float>(1 + kBeyond);
  const Output yes = Flat(s, labels, DType::kBool), no = Build(s, "LogicalNot", {yes});
  const Output score = Paired(s, Flat(s, predictions, DType::kFloat), predictions, labels, "predictions");
  const Output w = Weights(s, weights, labels);
  const Output said = Build(s, "Greater", {Build(s, "ExpandDims", {score, 0}), Const(s, Literal(limits))});
  const Output not_said = Build(s, "LogicalNot", {said});
  const auto count = [&](const Output& a, const Output& b) {
    const Output both = CastTo(s, Build(s, "LogicalAnd", {a, b}), DType::kFloat);
    return Build(s, "Sum", {Build(s, "Mul", {both, w}), Const(s, {1})});
  };
  const TensorShape shape({thresholds});
  return Gathered(s,
                  {Zeros(s, "true_positives", shape), Zeros(s, "false_negatives", shape),
                   Zeros(s, "true_negatives", shape), Zeros(s, "false_positives", shape)},
                  {count(said, yes), count(not_said, yes), count(not_said, no), count(said, no)},
                  [&](const Scope& r, const std::vector<Output>& n) {
                    const auto plus = [&](const Output& a) { return Build(r, "AddV2", {a, 1e-6}); };
                    const auto sum = [&](const Output& a, const Output& b) { return plus(Build(r, "AddV2", {a, b})); };
                    const auto ratio = [&](const Output& a, const Output& b) { return Build(r, "RealDiv", {a, b}); };
                    const Output recall = ratio(plus(n[0]), sum(n[0], n[1]));
                    const Output x = curve == AucCurve::kRoc ? ratio(n[3], sum(n[3], n[2])) : recall;
                    const Output y = curve == AucCurve::kRoc ? recall : ratio(plus(n[0]), sum(n[0], n[3]));
                    const auto part = [&](const Output& v, int from) {
                      return Build(r, "Slice", {v, Const(r, {from}), Const(r, {thresholds - 1})});
                    };
                    const Output width = Build(r, "Sub", {part(x, 0), part(x, 1)});
                    const Output height = Build(r, "Mul", {Build(r, "AddV2", {part(y, 0), part(y, 1)}), 0.5});
                    return Total(r, Build(r, "Mul", {width, height}));
                  });
}

}  // namespace troupe::train
