// Adding nodes to forward and backward frames.
#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {

NodeOut Backprop::AddNode(std::string_view name, std::string_view op, const std::vector<GradArg>& args, AttrMap attrs,
                          const std::vector<Node*>& controls, const Node* like) {
  if (!ok()) return {};
  NodeBuilder b(graph_, StrCat(prefix_, "/", name), op);
  bool of_resource = false;
  for (const GradArg& a : args) {
    for (NodeOut o : a.outs) {
      if (!o.valid()) {
        Fail(Internal("a gradient node '", name, "' (", op, ") has an input that was not made"));
        return {};
      }
      of_resource |= BaseType(o.dtype()) == DType::kResource;
    }
    if (a.list) {
      b.InputList(a.outs);
    } else {
      b.Input(a.outs[0]);
    }
  }
  // Who reads a resource stands where that is, wherever the gradients are to be.
  b.Controls(controls).Device(of_resource ? "" : options_.device);
  b.Location(like != nullptr && like->location().known() ? like->location() : options_.location);
  if (like != nullptr) {
    if (options_.colocate_gradients_with_ops) {
      b.Device(like->requested_device());
      const auto group = like->Attr<std::vector<std::string>>("_class");
      b.Attr("_class", group.ok() ? *group : std::vector<std::string>{StrCat("loc:@", like->name())});
    }
  }
  for (const auto& [key, value] : attrs) b.Attr(key, value);
  if (args.size() == 1 && attrs.Has("N")) {
    const OpDef* def = graph_->ops().Find(op);
    if (def != nullptr && def->control_flow == ControlFlow::kMerge) b.AllowMissingInputs();
  }
  absl::StatusOr<Node*> node = b.Build();
  if (!node.ok()) {
    Fail(node.status());
    return {};
  }
  if (options_.recompute.wanted()) made_for_[(*node)->id()] = current_;
  return {*node, 0};
}

void Backprop::Gate(Node* node, LoopFrame* frame) {
  if (frame == base_) {
    for (Node* c : options_.control_dependencies) graph_->AddControlEdge(c, node);
  }
  if (frame->pivot == nullptr) return;
  for (const Edge* e : node->in_edges()) {
    if (e->IsControl()) {
      if (forward_.FrameOf(e->src) == frame) return;  // waits for something of the iteration already
    } else if (!ForwardGraph::IsConstantEnter(e->src)) {
      return;
    }
  }
  graph_->AddControlEdge(frame->pivot, node);
}

NodeOut Backprop::Add(LoopFrame* frame, std::string_view name, std::string_view op, std::vector<GradArg> args,
                      AttrMap attrs, const std::vector<Node*>& controls) {
  const NodeOut out = AddNode(name, op, args, std::move(attrs), controls, current_);
  if (!out.valid()) return {};
  forward_.Place(out.node, frame);
  Gate(out.node, frame);
  return out;
}

NodeOut Backprop::AddForward(LoopFrame* frame, int guard, std::string_view name, std::string_view op,
                             std::vector<GradArg> args, AttrMap attrs, const std::vector<Node*>& controls) {
  const NodeOut out = AddNode(name, op, args, std::move(attrs), controls, current_);
  if (out.valid()) forward_.Place(out.node, frame, guard);
  return out;
}

NodeOut Backprop::ConstInt32(LoopFrame* frame, std::string_view name, int32_t v, const std::vector<Node*>& controls) {
  return Add(frame, name, "Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor::Scalar<int32_t>(v)}}, controls);
}

NodeOut Backprop::ZeroScalar(LoopFrame* frame, DType dtype, const std::vector<Node*>& controls) {
  Tensor zero(dtype, TensorShape());
  VisitNumeric(dtype, false, [&]<class T>() {
    *zero.data<T>() = T();
    return true;
  });
  return Add(frame, "zero", "Const", {}, {{"dtype", dtype}, {"value", zero}}, controls);
}

NodeOut Backprop::AddEnter(NodeOut v, LoopFrame* frame, bool constant, std::string_view name) {
  const NodeOut out = AddNode(
      name, "Enter", {v},
      {{"frame_name", frame->name}, {"is_constant", constant}, {"parallel_iterations", frame->parallel_iterations}}, {},
      current_);
  if (!out.valid()) return {};
  forward_.Place(out.node, frame);
  if (frame->enter_gate != nullptr) graph_->AddControlEdge(frame->enter_gate, out.node);
  return out;
}

NodeOut Backprop::AddLoopMerge(NodeOut enter, LoopFrame* frame, std::string_view name) {
  if (!ok()) return {};
  const NodeOut out = AddNode(name, "Merge", {GradArg(std::vector<NodeOut>{enter})},
                              {{"N", 2}, {"T", BaseType(enter.dtype())}}, {}, current_);
  if (out.valid()) forward_.Place(out.node, frame);
  return out;
}

void Backprop::Close(NodeOut merge, NodeOut next) {
  if (!ok()) return;
  if (absl::StatusOr<Edge*> e = graph_->AddEdge(next, merge.node, 1); !e.ok()) Fail(e.status());
}

Node* Backprop::Anchor(NodeOut v) {
  if (!ok() || !v.valid()) return nullptr;
  if (!v.node->IsSwitch()) return v.node;
  auto it = anchors_.find(v);
  if (it == anchors_.end()) {
    const NodeOut id = AddForward(forward_.OutputFrame(v), forward_.GuardOf(v), "alive", "Identity", {v});
    it = anchors_.emplace(v, id.node).first;
  }
  return it->second;
}

}  // namespace troupe::autodiff
