#include "graph/api/control_context.h"

#include <algorithm>

#include "graph/core/guarded.h"
#include "graph/core/hash_map.h"
#include "troupe/node_builder.h"

namespace troupe::internal {

namespace {

// The innermost context that encloses both.
ControlFlowContext* CommonContext(ControlFlowContext* a, ControlFlowContext* b) {
  while (a != nullptr && !Encloses(a, b)) a = a->outer;
  return a;
}

// What the inputs of a node that no scope built tell about its context; `all` when every input's
// context was known.
ControlFlowContext* FromInputs(const ScopeShared& shared, const Node* node) {
  ControlFlowContext* result = nullptr;
  bool first = true;
  for (const Edge* e : node->in_edges()) {
    const auto it = shared.contexts.find(e->src);
    if (it == shared.contexts.end()) continue;
    ControlFlowContext* c = it->second;
    if (first) {
      result = c;
    } else if (node->IsMerge()) {
      result = CommonContext(result, c);
    } else if (Encloses(result, c)) {
      result = c;
    }
    first = false;
  }
  return result;
}

absl::Status LeaksOut(const ControlFlowContext& from, NodeOut value) {
  const bool loop = from.kind == ControlFlowContext::Kind::kWhile;
  return InvalidArgument("'", value.ToString(), "' belongs to ", loop ? "the loop '" : "a branch of '", from.name,
                         "' and cannot be used outside of it; if this is the ", loop ? "loop's body" : "branch",
                         ", build with the scope that its function gets, otherwise ",
                         loop ? "make it a loop variable" : "return it from the branch");
}

}  // namespace

bool Encloses(const ControlFlowContext* outer, const ControlFlowContext* inner) {
  for (; inner != outer; inner = inner->outer) {
    if (inner == nullptr) return false;
  }
  return true;
}

absl::Status RunInside(ScopeShared& shared, std::shared_ptr<const ScopeState> state, std::string_view what,
                       const std::function<void()>& function) {
  const size_t depth = shared.active.size();
  shared.active.push_back(std::move(state));
  absl::Status s = Guarded(what, function);
  shared.active.resize(depth);
  return s;
}

absl::Status CheckOpen(const ControlFlowContext* context) {
  for (; context != nullptr; context = context->outer) {
    if (!context->closed) continue;
    const bool loop = context->kind == ControlFlowContext::Kind::kWhile;
    return InvalidArgument("the scope of ", loop ? "the loop '" : "a branch of '", context->name,
                           "' is used after its function has returned");
  }
  return absl::OkStatus();
}

ControlFlowContext* ContextOf(ScopeShared& shared, const Node* node) {
  if (const auto it = shared.contexts.find(node); it != shared.contexts.end()) return it->second;
  // Depth first through nodes that no scope built; back edges are simply not known yet.
  std::vector<const Node*> stack{node};
  HashSet<const Node*> seen{node};
  while (!stack.empty()) {
    const Node* n = stack.back();
    const size_t before = stack.size();
    for (const Edge* e : n->in_edges()) {
      if (!shared.contexts.contains(e->src) && seen.insert(e->src).second) stack.push_back(e->src);
    }
    if (stack.size() != before) continue;
    stack.pop_back();
    shared.contexts[n] = FromInputs(shared, n);
  }
  return shared.contexts[node];
}

absl::Status Register(ScopeShared& shared, ControlFlowContext* context, Node* node) {
  shared.contexts[node] = context;
  absl::Status s = shared.Refine(node);
  if (!s.ok()) {
    shared.contexts.erase(node);
    shared.graph->RemoveNode(node);
  }
  return s;
}

absl::StatusOr<Node*> AddPrimitive(ScopeShared& shared, ControlFlowContext* context, std::string_view op,
                                   const CaptureFor& who, const std::vector<NodeOut>& inputs, AttrMap attrs,
                                   const std::vector<Node*>& controls, const Node* colocate) {
  NodeBuilder b(shared.graph.get(), shared.UniqueName(who.name), op, false);
  for (NodeOut in : inputs) b.Input(in);
  for (const auto& [key, value] : attrs) b.Attr(key, value);
  if (colocate != nullptr) b.Attr("_class", ColocationGroups(*colocate)).Device(colocate->requested_device());
  TROUPE_ASSIGN_OR_RETURN(Node* const node, b.Controls(controls).Location(who.location).Build());
  if (colocate == nullptr && who.device != nullptr) {
    absl::StatusOr<std::string> device = RequestedDevice(who.device, node);
    if (!device.ok()) return node->At(device.status());
    node->set_requested_device(*std::move(device));
  }
  TROUPE_RETURN_IF_ERROR(Register(shared, context, node));
  return node;
}

absl::StatusOr<Node*> AddEnter(ScopeShared& shared, ControlFlowContext* loop, NodeOut value, bool is_constant,
                               const CaptureFor& who, const std::vector<Node*>& controls) {
  return AddPrimitive(shared, loop, IsRef(value.dtype()) ? "RefEnter" : "Enter", who, {value},
                      {{"frame_name", loop->frame_name},
                       {"is_constant", is_constant},
                       {"parallel_iterations", loop->parallel_iterations}},
                      controls);
}

absl::StatusOr<Node*> AddSwitch(ScopeShared& shared, ControlFlowContext* context, NodeOut value, NodeOut pred,
                                const CaptureFor& who) {
  return AddPrimitive(shared, context, IsRef(value.dtype()) ? "RefSwitch" : "Switch", who, {value, pred}, {}, {},
                      value.node);
}

absl::StatusOr<Node*> AddMerge(ScopeShared& shared, ControlFlowContext* context, NodeOut first, NodeOut second,
                               const CaptureFor& who) {
  NodeBuilder b(shared.graph.get(), shared.UniqueName(who.name), "Merge", false);
  b.Attr("N", 2).Attr("T", BaseType(first.dtype())).Location(who.location).AllowMissingInputs();
  b.InputList(second.valid() ? std::vector<NodeOut>{first, second} : std::vector<NodeOut>{first});
  TROUPE_ASSIGN_OR_RETURN(Node* const node, b.Build());
  if (who.device != nullptr) {
    absl::StatusOr<std::string> device = RequestedDevice(who.device, node);
    if (!device.ok()) return node->At(device.status());
    node->set_requested_device(*std::move(device));
  }
  TROUPE_RETURN_IF_ERROR(Register(shared, context, node));
  return node;
}

absl::StatusOr<NodeOut> Capture(ScopeShared& shared, ControlFlowContext* context, NodeOut value,
                                const CaptureFor& who) {
  ControlFlowContext* const home = ContextOf(shared, value.node);
  if (home == context) return value;
  if (!Encloses(home, context)) return LeaksOut(*home, value);
  if (const auto it = context->external.find(value); it != context->external.end()) return it->second;
  TROUPE_ASSIGN_OR_RETURN(const NodeOut outer, Capture(shared, context->outer, value, who));
  NodeOut inner;
  CaptureFor part = who;
  if (context->kind == ControlFlowContext::Kind::kWhile) {
    part.name += "/Enter";
    TROUPE_ASSIGN_OR_RETURN(inner.node, AddEnter(shared, context, outer, true, part, {}));
  } else {
    part.name += "/Switch";
    TROUPE_ASSIGN_OR_RETURN(inner.node, AddSwitch(shared, context, outer, context->pred, part));
    inner.index = context->branch;
  }
  context->external[value] = inner;
  return inner;
}

absl::StatusOr<std::vector<Node*>> CaptureControls(ScopeShared& shared, ControlFlowContext* context,
                                                   const std::vector<Node*>& controls, const CaptureFor& who,
                                                   int* own) {
  *own = 0;
  std::vector<Node*> result;
  const ControlFlowContext* const loop = context == nullptr ? nullptr : context->Loop();
  std::vector<Node*> outside;
  for (Node* c : controls) {
    ControlFlowContext* const home = ContextOf(shared, c);
    const ControlFlowContext* const home_loop = home == nullptr ? nullptr : home->Loop();
    if (home_loop == loop) {
      result.push_back(c);
      if (context == loop || Encloses(context, home)) ++*own;
    } else if (Encloses(home_loop, loop)) {
      outside.push_back(c);
    } else {
      return LeaksOut(*home_loop, {c, 0});
    }
  }
  for (Node* c : outside) {
    ControlFlowContext* in = context;
    while (in != loop) in = in->outer;
    Node* stand_in = in->external_controls[c];
    if (stand_in == nullptr) {
      NodeOut value{c, 0};
      if (c->num_outputs() == 0) {
        // Nothing of it can flow into the loop: a constant that comes after it does.
        Tensor zero(DType::kBool, TensorShape());
        *zero.data<bool>() = false;
        const CaptureFor done{c->name() + "/done", who.location, nullptr};
        TROUPE_ASSIGN_OR_RETURN(value.node, AddPrimitive(shared, ContextOf(shared, c), "Const", done, {},
                                                         {{"dtype", DType::kBool}, {"value", zero}}, {c}));
      }
      TROUPE_ASSIGN_OR_RETURN(const NodeOut inner, Capture(shared, in, value, who));
      const CaptureFor after{who.name + "/after", who.location, who.device};
      TROUPE_ASSIGN_OR_RETURN(stand_in, AddPrimitive(shared, in, "Identity", after, {inner}, {}, {in->Pivot()}));
      in->external_controls[c] = stand_in;
    }
    result.push_back(stand_in);
  }
  return result;
}

bool NeedsPivot(const ControlFlowContext& context, const std::vector<NodeOut>& inputs, int own_controls) {
  if (own_controls > 0) return false;
  if (context.kind == ControlFlowContext::Kind::kCond) return inputs.empty();
  return std::all_of(inputs.begin(), inputs.end(), [](NodeOut in) {
    if (!in.node->IsEnter()) return false;
    const auto constant = in.node->Attr<bool>("is_constant");
    return constant.ok() && *constant;
  });
}

}  // namespace troupe::internal
