// The GradientContext that Backprop passes to a gradient function.
//
// Inside a loop, a gradient cannot use forward values as they are: they must be saved on a stack or
// enter the backward loop, and both cost at run time even when nothing uses the value. So the
// gradient function builds with the forward tensors themselves. Finish() then drops the nodes that
// lead to no needed gradient, moves nodes that need only shapes into the forward loop (so that
// shapes are saved and not whole tensors), and replaces the remaining forward tensors by their
// saved values.
//
// Thread rule: as for the graph, one thread at a time.
#ifndef TROUPE_GRAPH_AUTODIFF_GRAD_CONTEXT_H_
#define TROUPE_GRAPH_AUTODIFF_GRAD_CONTEXT_H_

#include <string>
#include <vector>

#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {

class GradContext : public GradientContext {
 public:
  // `out_grads`: by output, invalid where none arrived.
  GradContext(Backprop* b, const Node* n, LoopFrame* target, std::vector<NodeOut> out_grads)
      : GradientContext(n), b_(*b), target_(target), out_grads_(std::move(out_grads)) {}

  NodeOut Input(int i) override { return node_->input(i); }
  NodeOut Output(int i) override { return {const_cast<Node*>(node_), i}; }
  NodeOut Grad(int i) override;
  bool HasGrad(int i) const override { return out_grads_[i].valid(); }
  PartialTensorShape InputShape(int i) const override { return b_.forward_.Shape(node_->input(i)); }
  using GradientContext::Op;
  NodeOut Op(std::string_view op, std::vector<GradArg> inputs, AttrMap attrs = {}) override;
  void AddControl(Node* node) override { controls_.push_back(node); }

  // Makes the nodes fit for the target frame. Afterwards grads() has an entry for each input for
  // which `needed` and a gradient was set.
  void Finish(const std::vector<bool>& needed);

 private:
  bool IsForward(NodeOut v) const {
    return target_->reverses != nullptr && b_.forward_.OutputFrame(v) == target_->reverses;
  }
  void Prune();
  void Settle(Node* n);
  void Replace(Node* n, NodeOut by);

  Backprop& b_;
  LoopFrame* target_;
  std::vector<NodeOut> out_grads_;
  std::vector<Node*> created_, controls_;
};

}  // namespace troupe::autodiff

#endif  // TROUPE_GRAPH_AUTODIFF_GRAD_CONTEXT_H_
