// The backward halves of a convolution: ReluGrad behind the gradient of the input, BiasAddGrad
// beside the gradient of the filter.
#include <algorithm>

#include "graph/core/hash_map.h"
#include "graph/passes/fuse_rewrite.h"

namespace troupe {
namespace {

void CopyWindows(const Node& from, AttrMap* to) {
  for (const char* name :
       {"T", "strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu"}) {
    if (const AttrValue* v = from.attrs().Find(name)) to->Set(name, *v);
  }
}

// What is looked at before a pair is left alone: the search is made for each of them.
constexpr size_t kMaxSearched = 4096;
constexpr int kMaxConsumers = 64;

// Whether `later` waits for the value of `earlier`, and is dead when that is: a path leads there
// through nodes that need all of their inputs. False also where the search is too long.
bool WaitsFor(const Node* later, const Edge& earlier) {
  HashSet<const Node*> seen{earlier.src};
  std::vector<const Node*> stack{earlier.src};
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    if (n == later) return true;
    if (seen.size() > kMaxSearched || n->out_edges().size() > kMaxSearched) return false;
    for (const Edge* e : n->out_edges()) {
      // Of a Switch, one output may be dead and the other alive.
      if (n == earlier.src && n->IsSwitch() && e->src_output != earlier.src_output) continue;
      if (e->dst->IsOp() && !e->dst->IsMerge() && seen.insert(e->dst).second) stack.push_back(e->dst);
    }
  }
  return false;
}

// It is there from the beginning of a step on. An argument need not be: a partial run is given it
// when its caller likes.
bool WaitsForNothing(const Node& n) {
  if (!n.IsConstant() && !n.op().Has(OpTrait::kVariable)) return false;
  return std::none_of(n.in_edges().begin(), n.in_edges().end(), [](const Edge* e) { return e->src->IsOp(); });
}

// Whoever has the gradient `d` that the node gets has the node's other inputs, too. In a part, what
// one node waits for by way of another part, a queue or the caller is no edge: of two nodes that
// are made one, neither may wait for more than before.
bool WaitsForNoMoreThan(const NodeOut& d, const Node& n) {
  return std::all_of(n.in_edges().begin(), n.in_edges().end(), [&](const Edge* e) {
    // Of a Switch, the other output may be dead.
    if (e->src == d.node) return !d.node->IsSwitch() || e->IsControl() || e->src_output == d.index;
    return !e->src->IsOp() || WaitsForNothing(*e->src) || WaitsFor(d.node, *e);
  });
}

absl::Status FoldReluGrad(Fuser* fuser, Node* relu_grad) {
  Node* conv = OwnInput(*relu_grad, 0);
  if (conv == nullptr || conv->op().name != "Conv2DBackpropInput") return absl::OkStatus();
  FusedNode f;
  f.op = "_Conv2DBackpropInputReluGrad";
  CopyWindows(*conv, &f.attrs);
  if (!fuser->HasKernel(f.op, f.attrs, *conv)) return absl::OkStatus();
  f.inputs = {conv->input(0), conv->input(1), conv->input(2), relu_grad->input(1)};
  f.parts = {conv, relu_grad};
  f.outputs = {{relu_grad, 0}};
  return fuser->Replace(std::move(f)).status();
}

absl::Status TakeBiasAlong(Fuser* fuser, Node* bias) {
  // The sums come in another order, and so with other last bits: where it saves no time worth
  // having, they stay apart.
  if (bias->output_type(0) != DType::kFloat) return absl::OkStatus();
  // A control edge into it is one more thing to wait for.
  for (const Edge* e : bias->in_edges()) {
    if (e->IsControl() && e->src->IsOp()) return absl::OkStatus();
  }
  const NodeOut d = bias->input(0);
  const auto format = bias->Attr<std::string>("data_format");
  Node* filter = nullptr;
  int looked_at = 0;
  for (const Edge* e : d.node->out_edges()) {
    if (++looked_at > kMaxConsumers) break;
    if (e->IsControl() || e->src_output != d.index || e->dst_input != 2 || e->dst->op().name != "Conv2DBackpropFilter")
      continue;
    const auto its_format = e->dst->Attr<std::string>("data_format");
    if (!SameDevice(*e->dst, *bias) || !format.ok() || !its_format.ok() || *format != *its_format) continue;
    filter = e->dst;
    break;
  }
  if (filter == nullptr || !WaitsForNoMoreThan(d, *filter)) return absl::OkStatus();
  FusedNode f;
  f.op = "_Conv2DBackpropFilterBias";
  CopyWindows(*filter, &f.attrs);
  if (!fuser->HasKernel(f.op, f.attrs, *filter)) return absl::OkStatus();
  f.inputs = {filter->input(0), filter->input(1), filter->input(2)};
  f.parts = {bias, filter};
  f.outputs = {{filter, 0}, {bias, 0}};
  return fuser->Replace(std::move(f)).status();
}

}  // namespace

absl::Status FuseConvolutionGradients(Fuser* fuser) {
  bool convolutions = false;
  const std::vector<Node*> nodes = fuser->graph()->op_nodes();
  for (const Node* n : nodes) convolutions |= n->op().name.starts_with("Conv2DBackprop");
  if (!convolutions) return absl::OkStatus();
  std::vector<Node*> relu_grads, bias_grads;
  for (Node* n : nodes) {
    if (n->op().name == "ReluGrad") relu_grads.push_back(n);
    if (n->op().name == "BiasAddGrad") bias_grads.push_back(n);
  }
  for (Node* n : relu_grads) {
    TROUPE_RETURN_IF_ERROR(fuser->wanted());
    TROUPE_RETURN_IF_ERROR(FoldReluGrad(fuser, n));
  }
  for (Node* n : bias_grads) {
    TROUPE_RETURN_IF_ERROR(fuser->wanted());
    TROUPE_RETURN_IF_ERROR(TakeBiasAlong(fuser, n));
  }
  return absl::OkStatus();
}

}  // namespace troupe
