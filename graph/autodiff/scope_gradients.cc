// Gradients for those who build with scopes.
#include <algorithm>

#include "graph/api/control_context.h"
#include "graph/api/scope_state.h"
#include "graph/autodiff/backprop.h"
#include "troupe/gradients.h"

namespace troupe {
namespace {

// `value` is what was read from the variable `handle`, handed on by nothing but what leaves it as
// it is.
bool IsReadOf(NodeOut value, NodeOut handle) {
  while (value.valid() && value != handle) {
    const Node* n = value.node;
    const OpDef& op = n->op();
    const bool hands_on = op.Has(OpTrait::kReadsVariable) ||
                          (op.Has(OpTrait::kForwardsInput) && op.Has(OpTrait::kPassesGradient)) ||
                          (n->IsSwitch() && n->input(1).valid() && !n->input(1).node->IsLoopCond()) ||
                          (n->IsEnter() && n->Attr<bool>("is_constant").value_or(false));
    if (!hands_on) return false;
    value = n->input(0);
  }
  return value.valid();
}

// The gradients that one call of Gradients asks for, as the pass takes them: tensors of the scope's
// graph, as they are called in the loop or branch that the scope is in.
class Request {
 public:
  Request(const ScopeAt& at, const Scope& sub) : at_(at), sub_(sub), status_(internal::CheckOpen(state().context)) {}

  NodeOut Inside(NodeOut v, std::string_view what) {
    if (!status_.ok()) return v;
    if (!v.valid() || v.node->graph() != at_->graph()) {
      status_ =
          InvalidArgument("a ", what, " of Gradients is ", v.valid() ? "a tensor of another graph" : "an empty Output");
      return v;
    }
    if (state().context == nullptr) return v;
    absl::StatusOr<NodeOut> captured =
        internal::Capture(*state().shared, state().context, v, {sub_.prefix() + std::string(what), at_.location()});
    if (captured.ok()) return *captured;
    status_ = captured.status();
    return v;
  }
  autodiff::GradientSource Source(const Output& x) {
    const NodeOut variable = x.variable();
    autodiff::GradientSource source;
    source.outside = variable.valid() ? variable : x.out();
    source.parts.push_back(Inside(source.outside, "x"));
    if (!variable.valid() || state().context == nullptr || !status_.ok()) return source;
    // In the order in which they were built: that of the table differs from run to run.
    std::vector<NodeOut> reads;
    for (const auto& [value, called] : state().context->external) {
      if (value != variable && IsReadOf(value, variable)) reads.push_back(called);
    }
    std::sort(reads.begin(), reads.end(), [](NodeOut a, NodeOut b) { return a.node->id() < b.node->id(); });
    source.parts.insert(source.parts.end(), reads.begin(), reads.end());
    return source;
  }
  const absl::Status& status() const { return status_; }

 private:
  const internal::ScopeState& state() const { return *at_->state(); }

  const ScopeAt& at_;
  const Scope& sub_;
  absl::Status status_;
};

// Who reads a resource stands where that is, which the placer finds.
bool ReadsResource(const Node& n) {
  for (int i = 0; i < n.num_inputs(); ++i) {
    if (BaseType(n.input_type(i)) == DType::kResource) return true;
  }
  return false;
}

// The nodes from number `before` on belong to the scope: its context, and its device unless they
// have their own.
absl::Status TakeIntoScope(const internal::ScopeState& state, Graph* graph, int before, bool set_device) {
  for (int id = before; id < graph->num_node_ids(); ++id) {
    Node* n = graph->node(id);
    if (n == nullptr) continue;
    // Backward loops are closed: to scopes all of it stands where the gradients do.
    state.shared->contexts[n] = state.context;
    if (!set_device || state.device == nullptr || ReadsResource(*n)) continue;
    TROUPE_ASSIGN_OR_RETURN(std::string device, internal::RequestedDevice(state.device.get(), n));
    n->set_requested_device(std::move(device));
  }
  return absl::OkStatus();
}

// Infers the shapes of the nodes from number `before` on.
absl::Status RefineFrom(internal::ScopeShared& shared, Graph* graph, int before) {
  for (int id = graph->num_node_ids() - 1; id >= before; --id) {
    if (graph->node(id) != nullptr) return shared.Refine(graph->node(id));
  }
  return absl::OkStatus();
}

// The same for gradients that read nodes made after them: copies of forward nodes.
absl::Status RefineInOrder(internal::ScopeShared& shared, const Graph& graph, int before) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (const Node* n : order) {
    if (n->id() >= before) TROUPE_RETURN_IF_ERROR(shared.refiner.AddNode(n));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Output> Gradients(const ScopeAt& at, const std::vector<Output>& ys, const std::vector<Output>& xs,
                              const std::vector<Output>& grad_ys, GradientOptions options) {
  std::vector<Output> result(xs.size());
  if (!at.ok()) return result;
  const Scope sub = at->NewSubScope(options.name);
  const internal::ScopeState& state = *at->state();
  internal::ScopeShared& shared = *state.shared;
  Graph* graph = at->graph();
  Request request(at, sub);
  std::vector<NodeOut> y, dy;
  std::vector<autodiff::GradientSource> sources;
  for (const Output& o : ys) y.push_back(request.Inside(o, "y"));
  for (const Output& o : xs) sources.push_back(request.Source(o));
  for (const Output& o : grad_ys) dy.push_back(o.valid() ? request.Inside(o, "grad_y") : NodeOut{});
  for (NodeOut& o : options.stop_gradients) o = request.Inside(o, "stop_gradient");
  absl::Status status = request.status();
  if (!status.ok()) {
    at.Fail(status);
    return result;
  }

  options.name = sub.prefix().substr(0, sub.prefix().size() - 1);
  options.control_dependencies = state.control;
  options.location = at.location();
  const int before = graph->num_node_ids();
  std::vector<NodeOut> grads;
  status = autodiff::AddGradientsOf(graph, y, sources, dy, options, &grads);
  if (status.ok()) status = TakeIntoScope(state, graph, before, !options.colocate_gradients_with_ops);
  if (!status.ok()) {
    at.Fail(status);
    return result;
  }
  // A gradient has its source's shape, which cannot always be told from its nodes: those of a loop,
  // say.
  if (options.recompute.wanted()) status = RefineInOrder(shared, *graph, before);
  if (status.ok()) status = RefineFrom(shared, graph, before);
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].valid()) continue;
    result[i] = Output(grads[i], at->state());
    const NodeOut x = sources[i].parts[0];
    const HandleInfo* handle = BaseType(x.dtype()) == DType::kResource ? shared.refiner.handle(x) : nullptr;
    if (status.ok())
      status = shared.refiner.SetShape(grads[i], handle != nullptr ? handle->shape : shared.refiner.shape(x));
  }
  if (!status.ok()) at.Fail(status);
  return result;
}

}  // namespace troupe
