#include "graph/autodiff/backprop.h"

#include <algorithm>
#include <deque>

#include "graph/autodiff/grad_context.h"
#include "graph/autodiff/recompute.h"
#include "graph/core/guarded.h"
#include "graph/core/hash_map.h"
#include "graph/ir/name_attrs.h"

namespace troupe::autodiff {
namespace {

// What is nested is worked off by recursion.
constexpr int kMaxLoopDepth = 500;

// By the name of a node, the nodes that compute again what it does.
HashMap<std::string, std::vector<Node*>> CopiesByName(const Graph& graph) {
  HashMap<std::string, std::vector<Node*>> copies;
  for (Node* n : graph.op_nodes()) {
    const AttrValue* value = n->attrs().Find(kRecomputesAttr);
    const auto* names = value == nullptr ? nullptr : value->As<std::vector<std::string>>();
    if (names != nullptr && names->size() == 1) copies[names->front()].push_back(n);
  }
  return copies;
}

}  // namespace

absl::Status Backprop::Check(absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs,
                             absl::Span<const NodeOut> grad_ys) const {
  if (graph_->frozen()) return FailedPrecondition("the graph is frozen: no gradients can be added");
  const auto check = [&](NodeOut v, std::string_view what) -> absl::Status {
    if (!v.valid()) return InvalidArgument(what == "x" ? "an " : "a ", what, " is not a tensor");
    if (v.node->graph() != graph_) return InvalidArgument("the ", what, " '", v.ToString(), "' is of another graph");
    if (v.index < 0 || v.index >= v.node->num_outputs())
      return InvalidArgument("the ", what, " '", v.ToString(), "' does not exist");
    return absl::OkStatus();
  };
  for (NodeOut x : xs) {
    TROUPE_RETURN_IF_ERROR(check(x, "x"));
    if (!Carries(x)) {
      return InvalidArgument("the dtype of x '", x.ToString(),
                             "' must be floating (e.g. float32) to take a gradient with respect to it, got ",
                             Name(BaseType(x.dtype())));
    }
  }
  for (NodeOut v : options_.stop_gradients) TROUPE_RETURN_IF_ERROR(check(v, "stop_gradients entry"));
  for (const Node* n : options_.control_dependencies) {
    if (n == nullptr) return InvalidArgument("a control dependency of the gradients is no node");
    if (n->graph() != graph_) return InvalidArgument("the control dependency '", n->name(), "' is of another graph");
  }
  if (!grad_ys.empty() && grad_ys.size() != ys.size()) {
    return InvalidArgument("there are ", ys.size(), " ys, but ", grad_ys.size(), " grad_ys");
  }
  for (size_t i = 0; i < ys.size(); ++i) {
    TROUPE_RETURN_IF_ERROR(check(ys[i], "y"));
    const DType type = BaseType(ys[i].dtype());
    if (!IsDifferentiable(type)) {
      return InvalidArgument("the dtype of y '", ys[i].ToString(),
                             "' must be floating (e.g. float32) to take its gradient, got ", Name(type));
    }
    if (grad_ys.empty() || !grad_ys[i].valid()) {
      if (IsComplex(type))
        return InvalidArgument("the gradient of the complex tensor '", ys[i].ToString(), "' (", Name(type),
                               ") needs its grad_ys");
      continue;
    }
    TROUPE_RETURN_IF_ERROR(check(grad_ys[i], "grad_ys"));
    if (BaseType(grad_ys[i].dtype()) != type) {
      return InvalidArgument("the grad_ys for '", ys[i].ToString(), "' is ", Name(BaseType(grad_ys[i].dtype())),
                             ", but the tensor is ", Name(type));
    }
  }
  return absl::OkStatus();
}

void Backprop::ChoosePrefix() {
  // The parts of names at the depth of ours that begin as ours does; and what tells the gradient
  // arrays of one call from those of another, which are called as their call was before it was
  // imported under another name.
  HashSet<std::string> taken;
  for (const Node* n : forward_.order()) {
    const std::string_view name = n->name();
    if (name.starts_with(options_.name)) taken.emplace(name.substr(0, name.find('/', options_.name.size())));
    if (n->op().Has(OpTrait::kArrayHandle)) taken.insert(n->Attr<std::string>("source").value_or(""));
  }
  prefix_ = options_.name;
  for (int i = 1; taken.contains(prefix_); ++i) prefix_ = StrCat(options_.name, "_", i);
}

absl::Status Backprop::FindBase(absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs) {
  base_ = forward_.root();
  const NodeOut first = !ys.empty() ? ys[0] : !xs.empty() ? xs[0] : NodeOut{};
  if (!first.valid()) return absl::OkStatus();
  base_ = forward_.OutputFrame(first);
  const auto text = [](const LoopFrame* f) {
    return f->name.empty() ? std::string("outside of all loops") : StrCat("inside of loop '", f->name, "'");
  };
  for (const auto& list : {ys, xs}) {
    for (NodeOut v : list) {
      if (LoopFrame* f = forward_.OutputFrame(v); f != base_) {
        return InvalidArgument("the gradient cannot be taken through the edge of a loop: '", first.ToString(), "' is ",
                               text(base_), ", '", v.ToString(), "' is ", text(f));
      }
    }
  }
  if (base_ != forward_.root()) base_->pivot = Anchor(first);
  return status_;
}

absl::Status Backprop::FindRelevant(absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs) {
  FindStacks();
  const int n = graph_->num_node_ids();
  std::vector<char> from_x(n, 0), to_y(n, 0);
  std::deque<Node*> queue;
  const auto consumers = [&](NodeOut t) {
    for (const Edge* e : t.node->out_edges()) {
      if (e->src_output != t.index || from_x[e->dst->id()]) continue;
      from_x[e->dst->id()] = true;
      queue.push_back(e->dst);
    }
  };
  for (NodeOut x : xs) consumers(x);
  for (; !queue.empty(); queue.pop_front()) {
    Node* node = queue.front();
    for (int i = 0; i < node->num_outputs(); ++i) {
      const NodeOut t{node, i};
      if (Carries(t) && !stops_.contains(t)) consumers(t);
    }
    // What is pushed comes back where it is popped.
    if (const Stack* stack = StackOf(node)) {
      for (Node* pop : stack->pops) {
        if (from_x[pop->id()]) continue;
        from_x[pop->id()] = true;
        queue.push_back(pop);
      }
    }
  }
  for (NodeOut y : ys) {
    if (stops_.contains(y) || to_y[y.node->id()]) continue;
    to_y[y.node->id()] = true;
    queue.push_back(y.node);
  }
  for (; !queue.empty(); queue.pop_front()) {
    for (const Edge* e : queue.front()->in_edges()) {
      if (e->IsControl() || to_y[e->src->id()]) continue;
      const NodeOut t{e->src, e->src_output};
      if (!Carries(t) || stops_.contains(t)) continue;
      to_y[e->src->id()] = true;
      queue.push_back(e->src);
    }
    const Stack* stack = StackOf(queue.front());
    if (stack == nullptr || queue.front()->num_inputs() != 1) continue;  // a push gives no value to itself
    for (Node* push : stack->pushes) {
      if (to_y[push->id()]) continue;
      to_y[push->id()] = true;
      queue.push_back(push);
    }
  }
  relevant_.assign(n, 0);
  for (Node* node : forward_.order()) {
    if (!from_x[node->id()] || !to_y[node->id()]) continue;
    relevant_[node->id()] = true;
    relevant_in_[forward_.FrameOf(node)].push_back(node);
  }
  TROUPE_RETURN_IF_ERROR(CheckStacks());
  return CheckLoops();
}

absl::Status Backprop::CheckLoops() const {
  for (const auto& [frame, nodes] : relevant_in_) {
    if (frame->parent == nullptr) continue;
    int depth = 0;
    for (const LoopFrame* f = frame; f != nullptr && depth <= kMaxLoopDepth; f = f->parent) ++depth;
    if (depth > kMaxLoopDepth) {
      return nodes.front()->At(
          Unimplemented("loops that are nested more than ", kMaxLoopDepth, " deep have no gradient"));
    }
    for (const Node* n : nodes) {
      const bool part_of_loop =
          n->IsEnter() || n->IsExit() || n->IsNextIteration() || forward_.IsLoopMerge(n) || forward_.IsLoopSwitch(n);
      if (!part_of_loop) continue;
      if (frame == base_) {
        return n->At(InvalidArgument("the gradient inside of loop '", frame->name,
                                     "' would have to flow through the loop's edge: it can be taken between "
                                     "tensors of one iteration, not with respect to what enters or is carried around"));
      }
      const auto bad = [&](std::string_view why) {
        return n->At(Unimplemented("loop '", frame->name, "' is not of the form that gradients are made for: ", why));
      };
      const LoopVar* var = forward_.VarOf(n);
      if (n->IsMerge()) {
        if (var == nullptr || var->enter == nullptr || var->next == nullptr || n->num_inputs() != 2)
          return bad("a Merge must have one Enter and one NextIteration");
        for (const Edge* e : n->out_edges()) {
          if (!e->IsControl() && e->src_output == 0 && Relevant(e->dst) && e->dst != var->loop_switch)
            return bad("its value is used other than by its Switch");
        }
      } else if (n->IsSwitch()) {
        if (var == nullptr || var->loop_switch != n)
          return bad("a Switch on LoopCond must take its value from a Merge");
      } else if (n->IsExit()) {
        const NodeOut in = n->input(0);
        if (in.index != 0 || forward_.VarOf(in.node) == nullptr || !in.node->IsSwitch())
          return bad("an Exit must come from a Switch on LoopCond");
      } else if (n->IsNextIteration()) {
        for (const Edge* e : n->out_edges()) {
          if (!e->IsControl() && !forward_.IsLoopMerge(e->dst)) return bad("a NextIteration must lead to a Merge");
        }
      } else if (!ForwardGraph::IsConstantEnter(n)) {
        for (const Edge* e : n->out_edges()) {
          if (!e->IsControl() && Relevant(e->dst) && !forward_.IsLoopMerge(e->dst))
            return bad("an Enter of a variable must lead to a Merge");
        }
      }
    }
  }
  return absl::OkStatus();
}

bool Backprop::Needed(NodeOut v) const {
  return v.valid() && Carries(v) && (xs_.contains(v) || (Relevant(v.node) && !stops_.contains(v)));
}

void Backprop::AddGrad(NodeOut v, NodeOut grad, LoopFrame* target, int guard) {
  if (!ok() || !grad.valid() || !Needed(v)) return;
  const DType want = BaseType(v.dtype()), got = BaseType(grad.dtype());
  if (want != DType::kResource && want != got) {
    Fail(current_->At(
        Internal("its gradient for '", v.ToString(), "' is ", Name(got), ", but the tensor is ", Name(want))));
    return;
  }
  grad = AliveAs(v, grad, guard, target);
  if (ok()) grads_[v].push_back(grad);
}

bool Backprop::HasGrad(NodeOut v) const {
  const auto it = grads_.find(v);
  return it != grads_.end() && !it->second.empty();
}

NodeOut Backprop::Sum(NodeOut v, LoopFrame* target) {
  const auto it = grads_.find(v);
  if (!ok() || it == grads_.end() || it->second.empty()) return {};
  if (it->second.size() == 1) return it->second[0];
  // `it` may be gone when more nodes are made.
  const NodeOut sum = Total(it->second, target);
  if (ok()) grads_[v] = {sum};
  return sum;
}

void Backprop::NodeGradient(Node* n, LoopFrame* target) {
  if (StackOf(n) != nullptr) return n->num_inputs() == 1 ? PopGradient(n, target) : PushGradient(n, target);
  std::vector<NodeOut> out_grads(n->num_outputs());
  bool any = false;
  for (int i = 0; i < n->num_outputs(); ++i) {
    const NodeOut out{n, i};
    if (stops_.contains(out)) continue;
    out_grads[i] = Sum(out, target);
    any |= out_grads[i].valid();
  }
  if (!ok() || !any) return;
  if (n->IsSwitch()) return SwitchGradient(n, target);
  if (n->IsMerge()) return MergeGradient(n, target);
  const OpDef& op = n->op();
  if (op.gradient == nullptr) {
    Fail(InvalidArgument("op '", op.name, "' (node '", n->name(), "') has no gradient: ", op.not_differentiable));
    return;
  }
  GradContext context(this, n, target, std::move(out_grads));
  absl::Status s = Guarded("the op's gradient function", [&] { return op.gradient(context); });
  if (s.ok()) s = context.status();
  if (!s.ok()) {
    Fail(n->At(Annotate(s, "in its gradient")));
    return;
  }
  std::vector<bool> needed(n->num_inputs());
  for (int i = 0; i < n->num_inputs(); ++i) needed[i] = Needed(n->input(i));
  context.Finish(needed);
  for (int i = 0; i < n->num_inputs(); ++i) AddGrad(n->input(i), context.grads()[i], target, forward_.GuardOf(n));
}

// The order in which the gradients of a region are taken: consumers first. Its units are the
// region's own nodes, and its inner loops as one unit each.
class Backprop::RegionOrder {
 public:
  struct Unit {
    Node* node = nullptr;  // of a loop its first one, where the loop stands
    LoopFrame* loop = nullptr;
    std::vector<NodeOut> inputs;
    int pending = 0;  // units that come before it
  };

  RegionOrder(const Backprop& b, const LoopFrame* region) : b_(b), region_(region) {
    AddUnits();
    for (const Unit& u : units_) {
      ForEachBehind(u, [](Unit* m) { ++m->pending; });
    }
    for (Unit& u : units_) {
      if (u.pending == 0) ready_.push_back(&u);
    }
    // The latest node first: the same graph for the same input, whatever the hash tables do.
    std::sort(ready_.begin(), ready_.end(), [&](const Unit* x, const Unit* y) {
      return b_.forward_.Position(x->node) > b_.forward_.Position(y->node);
    });
  }

  // Null when no unit is ready any more.
  const Unit* Next() { return done_ < ready_.size() ? ready_[done_] : nullptr; }
  void Done(const Unit& u) {
    ++done_;
    ForEachBehind(u, [&](Unit* m) {
      if (--m->pending == 0) ready_.push_back(m);
    });
  }
  // A unit that waits for itself, when nothing is ready; null when all are done.
  const Unit* Stuck() const {
    for (const Unit& u : units_) {
      if (u.pending > 0) return &u;
    }
    return nullptr;
  }

 private:
  static void AddInputs(const Node* n, Unit* unit) {
    for (int i = 0; i < n->num_inputs(); ++i) unit->inputs.push_back(n->input(i));
  }
  void AddUnits() {
    const ForwardGraph& forward = b_.forward_;
    if (const auto own = b_.relevant_in_.find(region_); own != b_.relevant_in_.end()) {
      for (Node* n : own->second) {
        if (n->IsEnter() || n->IsExit() || n->IsNextIteration() || forward.IsLoopMerge(n) || forward.IsLoopSwitch(n))
          continue;
        of_node_[n] = static_cast<int>(units_.size());
        AddInputs(n, &units_.emplace_back(Unit{n, nullptr}));
      }
    }
    for (const auto& [frame, nodes] : b_.relevant_in_) {
      if (frame->parent != region_ || nodes.empty()) continue;
      of_loop_[frame] = static_cast<int>(units_.size());
      Unit& unit = units_.emplace_back(Unit{nodes[0], const_cast<LoopFrame*>(frame)});
      for (const Node* n : nodes) {
        if (n->IsEnter()) AddInputs(n, &unit);
      }
    }
  }
  // The unit that makes v; none for the region's own leaves.
  Unit* Maker(NodeOut v) {
    if (!v.valid() || !b_.Needed(v) || !b_.Relevant(v.node) || b_.stops_.contains(v)) return nullptr;
    const LoopFrame* at = b_.forward_.FrameOf(v.node);
    if (at != region_) {
      const auto it = of_loop_.find(at);
      return it == of_loop_.end() ? nullptr : &units_[it->second];
    }
    const auto it = of_node_.find(v.node);
    return it == of_node_.end() ? nullptr : &units_[it->second];
  }
  // The makers of a unit's inputs, and the loops that push what it pops.
  template <class F>
  void ForEachBehind(const Unit& u, F&& f) {
    for (NodeOut in : u.inputs) {
      if (Unit* m = Maker(in)) f(m);
    }
    const auto from = u.loop == nullptr ? b_.pops_from_.end() : b_.pops_from_.find(u.loop);
    if (from == b_.pops_from_.end()) return;
    for (const LoopFrame* loop : from->second) {
      if (const auto it = of_loop_.find(loop); it != of_loop_.end()) f(&units_[it->second]);
    }
  }

  const Backprop& b_;
  const LoopFrame* const region_;
  std::deque<Unit> units_;
  HashMap<const Node*, int> of_node_;
  HashMap<const LoopFrame*, int> of_loop_;
  std::vector<Unit*> ready_;
  size_t done_ = 0;
};

void Backprop::Region(LoopFrame* forward, LoopFrame* target) {
  RegionOrder order(*this, forward);
  while (ok()) {
    const RegionOrder::Unit* u = order.Next();
    if (u == nullptr) break;
    current_ = u->node;
    if (u->loop != nullptr) {
      LoopGradient(u->loop, target);
    } else {
      NodeGradient(u->node, target);
    }
    order.Done(*u);
  }
  if (!ok()) return;
  if (const RegionOrder::Unit* u = order.Stuck(); u != nullptr)
    Fail(u->node->At(Unimplemented("a loop's result leads back into the same loop")));
}

absl::Status Backprop::Run(absl::Span<const NodeOut> ys, absl::Span<const GradientSource> asked,
                           absl::Span<const NodeOut> grad_ys, std::vector<NodeOut>* grads) {
  // A copy of a value's node is the value, too (RecomputeOptions).
  const HashMap<std::string, std::vector<Node*>> copies = CopiesByName(*graph_);
  const auto with_copies = [&](std::vector<NodeOut> values) {
    for (size_t i = 0, n = copies.empty() ? 0 : values.size(); i < n; ++i) {
      const auto it = values[i].valid() ? copies.find(values[i].node->name()) : copies.end();
      for (size_t k = 0; it != copies.end() && k < it->second.size(); ++k) {
        // Any graph may have the attr.
        if (&it->second[k]->op() == &values[i].node->op() && values[i].index < it->second[k]->num_outputs())
          values.push_back({it->second[k], values[i].index});
      }
    }
    return values;
  };
  std::vector<GradientSource> sources;
  std::vector<NodeOut> xs;
  for (const GradientSource& s : asked) {
    sources.push_back({with_copies(s.parts), s.outside});
    xs.insert(xs.end(), sources.back().parts.begin(), sources.back().parts.end());
  }
  TROUPE_RETURN_IF_ERROR(Check(ys, xs, grad_ys));
  const int before = graph_->num_node_ids();
  TROUPE_RETURN_IF_ERROR(forward_.Build());
  for (const NodeOut stop : with_copies(options_.stop_gradients)) stops_.insert(stop);
  xs_.insert(xs.begin(), xs.end());
  ChoosePrefix();
  TROUPE_RETURN_IF_ERROR(FindBase(ys, xs));
  TROUPE_RETURN_IF_ERROR(FindRelevant(ys, xs));
  HashSet<NodeOut> seeds;
  for (size_t i = 0; i < ys.size(); ++i) {
    current_ = ys[i].node;
    const bool given = !grad_ys.empty() && grad_ys[i].valid();
    const NodeOut seed = given ? grad_ys[i] : Add(base_, "grad_ys", "OnesLike", {ys[i]});
    seeds.insert(seed);
    AddGrad(ys[i], seed, base_, forward_.GuardOf(ys[i]));
  }
  Region(base_, base_);
  grads->clear();
  for (const GradientSource& source : sources) {
    const NodeOut x = source.parts[0];
    current_ = x.node;
    std::vector<NodeOut> parts;
    for (NodeOut part : source.parts) {
      if (const NodeOut g = Sum(part, base_); g.valid()) parts.push_back(g);
    }
    NodeOut g = Total(std::move(parts), base_);
    if (!ok()) return status_;
    if (!g.valid() && options_.unconnected == Unconnected::kError) return NotConnected(ys, source);
    if (!g.valid() && options_.unconnected == Unconnected::kZeros) {
      DType dtype = BaseType(x.dtype());
      if (const HandleInfo* h = forward_.Handle(x); dtype == DType::kResource && h != nullptr) dtype = h->dtype;
      if (dtype == DType::kResource) dtype = x.node->Attr<DType>("dtype").value_or(DType::kInvalid);
      if (!IsDifferentiable(dtype))
        return InvalidArgument("the x '", x.ToString(), "' is a handle that names no variable of floating type");
      g = Zeros(x, base_, dtype);
    }
    grads->push_back(g);
  }
  if (ok()) RemoveUnusedSums(*grads, before);
  if (ok() && options_.recompute.wanted())
    Fail(Recompute({graph_, &forward_, prefix_, before, &made_for_, &seeds}, options_.recompute).Run());
  return status_;
}

}  // namespace troupe::autodiff

namespace troupe {

bool IsDifferentiable(DType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

absl::Status AddGradients(Graph* graph, absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs,
                          absl::Span<const NodeOut> grad_ys, const GradientOptions& options,
                          std::vector<NodeOut>* grads) {
  std::vector<autodiff::GradientSource> sources;
  for (const NodeOut x : xs) sources.push_back({{x}, x});
  return autodiff::AddGradientsOf(graph, ys, sources, grad_ys, options, grads);
}

absl::Status autodiff::AddGradientsOf(Graph* graph, absl::Span<const NodeOut> ys, absl::Span<const GradientSource> xs,
                                      absl::Span<const NodeOut> grad_ys, const GradientOptions& options,
                                      std::vector<NodeOut>* grads) {
  grads->clear();
  const int before = graph->num_node_ids();
  autodiff::Backprop backprop(graph, options);
  absl::Status s = backprop.Run(ys, xs, grad_ys, grads);
  if (s.ok()) return s;
  grads->clear();
  // The graph is as it was: nothing but new nodes and edges to them has been added.
  for (int id = before; id < graph->num_node_ids(); ++id) {
    if (Node* n = graph->node(id)) graph->RemoveNode(n);
  }
  return s;
}

}  // namespace troupe
