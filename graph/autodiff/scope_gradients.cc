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
    const std::string& op = n->op().name;
    const bool hands_on = op == "ReadVariableOp" || op == "Identity" ||
                          (n->IsSwitch() && n->input(1).valid() && !n->input(1).node->IsLoopCond()) ||
                          (n->IsEnter() && n->Attr<bool>("is_constant").value_or(false));
    if (!hands_on) return false;
    value = n->input(0);
  }
  return value.valid();
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
  absl::Status status = internal::CheckOpen(state.context);

  // Tensors of this graph, as they are called in the loop or branch that the scope is in.
  const auto inside = [&](NodeOut v, std::string_view what) {
    if (!status.ok()) return v;
    if (!v.valid() || v.node->graph() != graph) {
      status =
          InvalidArgument("a ", what, " of Gradients is ", v.valid() ? "a tensor of another graph" : "an empty Output");
      return v;
    }
    if (state.context == nullptr) return v;
    absl::StatusOr<NodeOut> captured =
        internal::Capture(shared, state.context, v, {sub.prefix() + std::string(what), at.location()});
    if (captured.ok()) return *captured;
    status = captured.status();
    return v;
  };
  std::vector<NodeOut> y, x, dy;
  std::vector<autodiff::GradientSource> sources;
  for (const Output& o : ys) y.push_back(inside(o, "y"));
  for (const Output& o : xs) {
    const NodeOut variable = o.variable();
    autodiff::GradientSource source;
    source.outside = variable.valid() ? variable : o.out();
    source.parts.push_back(inside(source.outside, "x"));
    if (variable.valid() && state.context != nullptr && status.ok()) {
      // In the order in which they were built: that of the table differs from run to run.
      std::vector<NodeOut> reads;
      for (const auto& [value, called] : state.context->external) {
        if (value != variable && IsReadOf(value, variable)) reads.push_back(called);
      }
      std::sort(reads.begin(), reads.end(), [](NodeOut a, NodeOut b) { return a.node->id() < b.node->id(); });
      source.parts.insert(source.parts.end(), reads.begin(), reads.end());
    }
    x.push_back(source.parts[0]);
    sources.push_back(std::move(source));
  }
  for (const Output& o : grad_ys) dy.push_back(o.valid() ? inside(o, "grad_y") : NodeOut{});
  for (NodeOut& o : options.stop_gradients) o = inside(o, "stop_gradient");
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
  for (int id = before; id < graph->num_node_ids() && status.ok(); ++id) {
    Node* n = graph->node(id);
    if (n == nullptr) continue;
    // Backward loops are closed: to scopes all of it stands where the gradients do.
    shared.contexts[n] = state.context;
    if (options.colocate_gradients_with_ops || state.device == nullptr) continue;
    absl::StatusOr<std::string> device = internal::RequestedDevice(state.device.get(), n);
    if (device.ok()) {
      n->set_requested_device(*std::move(device));
    } else {
      status = device.status();
    }
  }
  if (!status.ok()) {
    at.Fail(status);
    return result;
  }
  // A gradient has its source's shape, which cannot always be told from its nodes: those of a loop,
  // say.
  if (graph->num_node_ids() > before) {
    for (int id = graph->num_node_ids() - 1; id >= before; --id) {
      if (graph->node(id) == nullptr) continue;
      status = shared.Refine(graph->node(id));
      break;
    }
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].valid()) continue;
    result[i] = Output(grads[i], at->state());
    const HandleInfo* handle = BaseType(x[i].dtype()) == DType::kResource ? shared.refiner.handle(x[i]) : nullptr;
    if (status.ok())
      status = shared.refiner.SetShape(grads[i], handle != nullptr ? handle->shape : shared.refiner.shape(x[i]));
  }
  if (!status.ok()) at.Fail(status);
  return result;
}

}  // namespace troupe
