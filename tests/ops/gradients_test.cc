// Gradients of each op alone, through what its file registers and the nodes that it builds: those
// of cases/gradients are what TensorFlow computes, and those of float64 cases of cases/values agree
// with finite differences.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "tests/cases/each_op.h"
#include "tests/cases/same_value.h"
#include "troupe/evaluate.h"
#include "troupe/gradients.h"
#include "troupe/node_builder.h"

namespace troupe::test {
namespace gradients_test {

// Evaluates graphs without loops, node by node.
class Evaluator {
 public:
  absl::StatusOr<Tensor> Value(NodeOut out) {
    TROUPE_RETURN_IF_ERROR(Run(out.node));
    return values_.at(out.node)[static_cast<size_t>(out.index)];
  }

 private:
  absl::Status Run(Node* node) {
    if (values_.count(node) != 0) return absl::OkStatus();
    std::vector<Tensor> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      TROUPE_ASSIGN_OR_RETURN(Tensor t, Value(node->input(i)));
      inputs.push_back(std::move(t));
    }
    TROUPE_ASSIGN_OR_RETURN(values_[node], EvaluateNode(*node, std::move(inputs)));
    return absl::OkStatus();
  }
  std::map<Node*, std::vector<Tensor>> values_;
};

NodeOut Constant(Graph* graph, const Tensor& value) {
  auto node = NodeBuilder(graph, "const", "Const").Attr("dtype", value.dtype()).Attr("value", value).Build();
  BOOST_REQUIRE_MESSAGE(node.ok(), std::string(node.status().message()));
  return {*node, 0};
}

// The node of `c` with constants as inputs.
Node* BuildCase(Graph* graph, const Case& c, std::vector<NodeOut>* inputs) {
  for (const Tensor& t : c.inputs) inputs->push_back(Constant(graph, t));
  NodeBuilder builder(graph, "op", c.op);
  for (const auto& [name, value] : c.attrs) builder.Attr(name, value);
  auto def = OpRegistry::Global().LookUp(c.op);
  BOOST_REQUIRE_MESSAGE(def.ok(), std::string(def.status().message()));
  size_t next = 0, list = 0;
  for (const ArgDef& arg : (*def)->inputs) {
    if (!arg.IsList()) {
      builder.Input((*inputs)[next++]);
      continue;
    }
    const auto n = static_cast<size_t>(c.list_sizes[list++]);
    builder.InputList(std::vector<NodeOut>(inputs->begin() + next, inputs->begin() + next + n));
    next += n;
  }
  auto node = builder.Build();
  BOOST_REQUIRE_MESSAGE(node.ok(), std::string(node.status().message()));
  return *node;
}

absl::StatusOr<std::vector<NodeOut>> AddedGradients(Graph* graph, const std::vector<NodeOut>& ys,
                                                    const std::vector<NodeOut>& xs, absl::Span<const Tensor> grad_ys) {
  std::vector<NodeOut> given, grads;
  for (const Tensor& t : grad_ys) given.push_back(Constant(graph, t));
  GradientOptions options;
  options.unconnected = Unconnected::kNone;
  TROUPE_RETURN_IF_ERROR(AddGradients(graph, ys, xs, given, options, &grads));
  return grads;
}

// "" or what is wrong with a recorded gradient.
std::string WrongGradient(const Case& c) {
  Graph graph;
  std::vector<NodeOut> inputs, ys, xs;
  Node* node = BuildCase(&graph, c, &inputs);
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (IsDifferentiable(node->output_type(i))) ys.push_back({node, i});
  }
  for (const NodeOut& in : inputs) {
    if (IsDifferentiable(in.dtype())) xs.push_back(in);
  }
  const auto grads = AddedGradients(&graph, ys, xs, c.outputs);
  if (!grads.ok()) return grads.status().ToString();
  if (grads->size() != c.grads.size()) return StrCat(grads->size(), " gradients");
  Evaluator evaluator;
  for (size_t i = 0; i < grads->size(); ++i) {
    const bool none = !(*grads)[i].valid();
    if (none != !c.grads[i].valid()) return StrCat("input ", i, none ? " gets no gradient" : " should get no gradient");
    if (none) continue;
    const auto got = evaluator.Value((*grads)[i]);
    if (!got.ok()) return got.status().ToString();
    const std::string difference = Difference(*got, c.grads[i], c.tolerance);
    if (!difference.empty()) return StrCat("gradient of input ", i, ": ", difference);
  }
  return "";
}

void CheckRecorded(const std::string& op, const std::vector<Case>& cases) {
  Tally tally("gradients", op);
  for (const Case& c : cases) tally.Add(c, WrongGradient(c));
}

const EachOp kRecorded("gradients", {"gradients"}, CheckRecorded, __FILE__, __LINE__);

// Of element i of output k: no two alike, so that no two mistakes cancel out.
double Weight(int k, int64_t i) { return 0.5 + 0.25 * k + 0.375 * std::sin(static_cast<double>(i + 1)); }

// What is differentiated: the sum of all outputs, each element with a weight of its own.
double Weighted(const std::vector<Tensor>& outputs, const std::vector<int>& which) {
  double sum = 0;
  for (const int k : which) {
    const Tensor& t = outputs[static_cast<size_t>(k)];
    for (int64_t i = 0; i < t.num_elements(); ++i) sum += Weight(k, i) * t.data<double>()[i];
  }
  return sum;
}

// The slopes of one element's function to both sides: where they differ, as at the kink of a Relu,
// there is no derivative to compare with.
struct Slopes {
  double left = 0, right = 0;
  bool Differ() const { return std::abs(left - right) > 1e-3 * std::max(1.0, std::abs(left) + std::abs(right)); }
  double Middle() const { return (left + right) / 2; }
};

absl::StatusOr<Slopes> SlopesAt(const Case& c, size_t input, int64_t element, const std::vector<int>& outputs) {
  constexpr double kStep = 1e-6;
  double value[3];
  for (int k = 0; k < 3; ++k) {
    std::vector<Tensor> inputs = c.inputs;
    inputs[input] = c.inputs[input].Clone();
    inputs[input].data<double>()[element] += (k - 1) * kStep;
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Tensor> out, EvaluateOp(c.op, inputs, c.attrs, c.list_sizes));
    value[k] = Weighted(out, outputs);
  }
  return Slopes{(value[1] - value[0]) / kStep, (value[2] - value[1]) / kStep};
}

// Compares the gradient of one case with differences; "" or what is wrong. Adds the elements that
// were compared to `compared`.
std::string WrongSlope(const Case& c, int* compared) {
  Graph graph;
  std::vector<NodeOut> inputs, ys, xs;
  Node* node = BuildCase(&graph, c, &inputs);
  std::vector<int> outputs;
  std::vector<Tensor> weights;
  for (int k = 0; k < node->num_outputs(); ++k) {
    if (node->output_type(k) != DType::kDouble) continue;
    if (!c.outputs[static_cast<size_t>(k)].valid()) continue;
    // The second output is the gradient of the first, which its gradient uses as it is.
    if (c.op == "SoftmaxCrossEntropyWithLogits" && k == 1) continue;
    outputs.push_back(k);
    ys.push_back({node, k});
    weights.emplace_back(DType::kDouble, c.outputs[static_cast<size_t>(k)].shape());
    for (int64_t i = 0; i < weights.back().num_elements(); ++i) weights.back().data<double>()[i] = Weight(k, i);
  }
  std::vector<size_t> moved;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.inputs[i].dtype() != DType::kDouble) continue;
    xs.push_back(inputs[i]);
    moved.push_back(i);
  }
  if (xs.empty() || ys.empty()) return "";
  const auto grads = AddedGradients(&graph, ys, xs, weights);
  if (!grads.ok()) return grads.status().ToString();
  Evaluator evaluator;
  for (size_t x = 0; x < xs.size(); ++x) {
    if (!(*grads)[x].valid()) continue;  // the op passes none on to this input
    const auto got = evaluator.Value((*grads)[x]);
    if (!got.ok()) return got.status().ToString();
    if (!got->SameShape(c.inputs[moved[x]]))
      return StrCat("the gradient of input ", moved[x], " is ", got->TypeAndShape());
    constexpr int64_t kElements = 12;  // of an input: the first ones
    for (int64_t e = 0; e < std::min(kElements, got->num_elements()); ++e) {
      const auto slopes = SlopesAt(c, moved[x], e, outputs);
      if (!slopes.ok()) return slopes.status().ToString();
      const double g = got->data<double>()[e];
      if (!std::isfinite(slopes->Middle()) || slopes->Differ()) continue;
      ++*compared;
      if (!(std::abs(g - slopes->Middle()) <= 1e-4 * std::max(1.0, std::abs(g))))
        return StrCat("input ", moved[x], "[", e, "]: gradient ", g, ", slope ", slopes->Middle());
    }
  }
  return "";
}

// Ops whose gradient is, on purpose, not the slope of what they compute.
const std::map<std::string, std::string>& NotTheSlope() {
  static const auto* const ops = new std::map<std::string, std::string>{
      {"Cholesky", "its gradient is that of a symmetric matrix, of which it reads a half; tests/linalg compares that"},
      {"PreventGradient", "it refuses to have one"},
  };
  return *ops;
}

// Some cases have no gradient although their op has one: full matrices and the smallest solution of
// any rank, singular matrices, and axes that are counted from the end, here as in TensorFlow.
bool MayRefuse(const std::string& op, const std::string& wrong) {
  static const auto* const refusals = new std::multimap<std::string, std::string>{
      {"Qr", "has no gradient for more rows than columns"},
      {"Svd", "has no gradient for sizes that differ"},
      {"MatrixSolveLs", "has no gradient for fast = false"},
      {"MatrixDeterminant", "not invertible"},
      {"LogMatrixDeterminant", "not invertible"},
      {"Transpose", "(InvertPermutation)"},
  };
  const auto [begin, end] = refusals->equal_range(op);
  return std::any_of(begin, end, [&](const auto& refusal) { return wrong.find(refusal.second) != std::string::npos; });
}

bool HasDoubles(const Case& c) {
  bool any = false;
  for (const Tensor& t : c.inputs) any |= t.dtype() == DType::kDouble && t.num_elements() > 0;
  return any;
}

// A case whose float32 is float64, which leaves differences enough digits; none when the op does
// not take that.
std::optional<Case> InDoubles(const Case& c) {
  Case d = c;
  for (Tensor& t : d.inputs) {
    if (t.dtype() != DType::kFloat) continue;
    Tensor wide(DType::kDouble, t.shape());
    std::copy_n(t.data<float>(), t.num_elements(), wide.data<double>());
    t = wide;
  }
  for (const auto& [name, value] : c.attrs) {
    if (const DType* type = value.As<DType>(); type != nullptr && *type == DType::kFloat)
      d.attrs.Set(name, DType::kDouble);
  }
  if (!HasDoubles(d)) return std::nullopt;
  auto outputs = EvaluateOp(d.op, d.inputs, d.attrs, d.list_sizes);
  if (!outputs.ok()) return std::nullopt;
  d.outputs = *std::move(outputs);
  return d;
}

void CheckSlopes(const std::string& op, const std::vector<Case>& cases) {
  const OpDef* const def = OpRegistry::Global().Find(op);
  BOOST_REQUIRE(def != nullptr);
  if (def->gradient == nullptr) {
    BOOST_TEST_MESSAGE("finite_differences of " << op << ": no gradient, " << def->not_differentiable);
    BOOST_CHECK(!def->not_differentiable.empty());
    return;
  }
  if (const auto it = NotTheSlope().find(op); it != NotTheSlope().end()) {
    BOOST_TEST_MESSAGE("finite_differences of " << op << ": not compared, " << it->second);
    return;
  }
  constexpr int kCases = 12;
  int compared = 0, tried = 0;
  Tally tally("finite_differences", op);
  for (const Case& c : cases) {
    if (tried == kCases) break;
    const std::optional<Case> d = InDoubles(c);
    if (!d.has_value()) continue;
    ++tried;
    const std::string wrong = WrongSlope(*d, &compared);
    tally.Add(c, MayRefuse(op, wrong) ? "" : wrong);
  }
  BOOST_TEST_MESSAGE("finite_differences of " << op << ": " << compared << " elements compared");
}

const EachOp kSlopes("finite_differences", {"values"}, CheckSlopes, __FILE__, __LINE__);

}  // namespace gradients_test
}  // namespace troupe::test
