// Element-wise nodes whose values nobody else needs, with the one that they all lead to. Reductions
// of rows may stand between them, so that a layer normalisation is one node.
//
// Shapes are not asked for where it can be helped: inferring them would cost more than all the
// rest, and the kernel takes whatever comes.
#include <algorithm>
#include <optional>

#include "graph/core/hash_map.h"
#include "graph/passes/fuse_rewrite.h"
#include "troupe/shape_inference.h"
#include "troupe/text.h"

namespace troupe {
namespace {

// Nodes of a group: more do not help, since a block leaves the registers after each anyway.
constexpr size_t kMaxNodes = 24;

bool IsReal(DType t) { return t == DType::kFloat || t == DType::kDouble; }

bool IsElementwise(const Node& n) {
  static const auto* kOps = new HashSet<std::string_view>{"Add",          "AddV2",       "Sub",
                                                          "Mul",          "RealDiv",     "Div",
                                                          "Maximum",      "Minimum",     "SquaredDifference",
                                                          "TanhGrad",     "SigmoidGrad", "SqrtGrad",
                                                          "RsqrtGrad",    "InvGrad",     "ReciprocalGrad",
                                                          "ReluGrad",     "Relu6Grad",   "EluGrad",
                                                          "Less",         "LessEqual",   "Greater",
                                                          "GreaterEqual", "Neg",         "Abs",
                                                          "Square",       "Sqrt",        "Rsqrt",
                                                          "Inv",          "Reciprocal",  "Exp",
                                                          "Log",          "Tanh",        "Sigmoid",
                                                          "Relu",         "Relu6",       "Elu",
                                                          "Cast",         "Pow",         "Erf",
                                                          "StopGradient"};
  if (n.num_outputs() != 1 || !kOps->contains(n.op().name)) return false;
  const auto fits = [&](DType t) { return IsReal(t) || t == DType::kBool; };
  // A reference is read when its reader runs, so it may be read here; but it is not handed on.
  return fits(n.output_type(0)) && std::all_of(n.input_types().begin(), n.input_types().end(), fits) &&
         (n.op().name != "Cast" || (n.input_type(0) == DType::kBool && IsReal(n.output_type(0))));
}

class Elementwise {
 public:
  explicit Elementwise(Fuser* fuser) : fuser_(*fuser) {}

  absl::Status Run() {
    const std::vector<Node*> all = fuser_.graph()->op_nodes();
    if (std::none_of(all.begin(), all.end(), [](const Node* n) { return IsElementwise(*n); })) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(order_, fuser_.graph()->TopologicalOrder());
    for (size_t i = 0; i < order_.size(); ++i) position_[order_[i]] = i;
    std::vector<std::vector<Node*>> groups;
    for (size_t i = order_.size(); i-- > 0;) {
      TROUPE_RETURN_IF_ERROR(fuser_.wanted());
      Node* root = order_[i];
      // A copy alone at the end would only cost a pass.
      if (!root->IsOp() || grouped_.contains(root) || !IsElementwise(*root) || root->op().name == "StopGradient")
        continue;
      std::vector<Node*> group = Group(root);
      if (group.size() > 1) groups.push_back(std::move(group));
    }
    for (const std::vector<Node*>& g : groups) {
      TROUPE_RETURN_IF_ERROR(fuser_.wanted());
      TROUPE_RETURN_IF_ERROR(Fuse(g));
    }
    return absl::OkStatus();
  }

 private:
  // The nodes that lead to `root` and nowhere else, in the order in which they compute.
  std::vector<Node*> Group(Node* root) {
    std::vector<Node*> group = {root};
    HashSet<const Node*> members = {root};
    const auto only_used_here = [&](const Node* n) {
      return std::all_of(n->out_edges().begin(), n->out_edges().end(), [&](const Edge* e) {
        return !e->dst->IsOp() || (!e->IsControl() && members.contains(e->dst));
      });
    };
    // A value that two members read joins when the second of them has: so until nothing changes.
    for (bool grew = true; grew;) {
      grew = false;
      for (size_t i = 0; i < group.size(); ++i) {
        for (int k = 0; k < group[i]->num_inputs() && group.size() < kMaxNodes; ++k) {
          Node* from = group[i]->input(k).node;
          if (from == nullptr || members.contains(from) || grouped_.contains(from) || !SameDevice(*from, *root) ||
              !only_used_here(from) || !(IsElementwise(*from) || ReducesRows(*from))) {
            continue;
          }
          members.insert(from);
          group.push_back(from);
          grew = true;
        }
      }
    }
    if (group.size() > 1) grouped_.insert(group.begin(), group.end());
    std::sort(group.begin(), group.end(), [this](const Node* a, const Node* b) { return position_[a] < position_[b]; });
    return group;
  }

  // Whether `n` is the sum or the mean over the last dimension, which it keeps.
  bool ReducesRows(const Node& n) {
    if ((n.op().name != "Mean" && n.op().name != "Sum") || !IsReal(n.output_type(0)) || !IsReal(n.input_type(0)))
      return false;
    const auto keeps = n.Attr<bool>("keep_dims");
    const Node* axes = n.input(1).node;
    if (!keeps.ok() || !*keeps || axes == nullptr || axes->op().name != "Const") return false;
    const auto value = axes->Attr<Tensor>("value");
    if (!value.ok() || value->num_elements() != 1) return false;
    const int64_t axis = value->dtype() == DType::kInt32   ? value->data<int32_t>()[0]
                         : value->dtype() == DType::kInt64 ? value->data<int64_t>()[0]
                                                           : 0;
    if (axis == -1) return true;
    if (axis < 0) return false;
    const PartialTensorShape shape = ShapeOf(n.input(0));
    return shape.known_rank() && axis == shape.rank() - 1;
  }

  // Only graphs with such a reduction pay for this. What cannot be inferred is unknown.
  PartialTensorShape ShapeOf(NodeOut value) {
    if (!shapes_) {
      shapes_.emplace(fuser_.graph());
      (void)shapes_->AddAll();
    }
    return shapes_->shape(value);
  }

  absl::Status Fuse(const std::vector<Node*>& group) {
    FusedNode f;
    f.op = "_FusedElementwise";
    f.parts = group;
    f.outputs = {{group.back(), 0}};
    f.attrs.Set("T", group.back()->output_type(0));
    Graph body(&fuser_.graph()->ops());
    HashMap<NodeOut, Node*> inside;
    std::vector<DType> types;
    // Arguments first: a text is read from the front, and types follow from inputs.
    for (Node* n : group) {
      for (int k = 0; k < n->num_inputs(); ++k) {
        const NodeOut from = n->input(k);
        Node*& source = inside[from];
        if (source != nullptr || std::find(group.begin(), group.end(), from.node) != group.end()) continue;
        const DType type = BaseType(from.dtype());
        AttrMap attrs = {{"T", type}, {"index", static_cast<int64_t>(f.inputs.size())}};
        std::string name = StrCat("_input", f.inputs.size());
        while (std::any_of(group.begin(), group.end(), [&](const Node* m) { return m->name() == name; }))
          name = "_" + name;
        TROUPE_ASSIGN_OR_RETURN(source, body.AddNode(name, "_Arg", std::move(attrs)));
        f.inputs.push_back(from);
        types.push_back(type);
      }
    }
    for (Node* n : group) {
      TROUPE_ASSIGN_OR_RETURN(Node * copy, body.CopyNode(*n, n->name()));
      copy->set_assigned_device("");
      copy->set_requested_device("");
      for (int k = 0; k < n->num_inputs(); ++k)
        TROUPE_RETURN_IF_ERROR(body.AddEdge(inside[n->input(k)], 0, copy, k).status());
      inside[{n, 0}] = copy;
    }
    f.attrs.Set("Targs", std::move(types));
    f.attrs.Set("body", GraphText(body));
    if (!fuser_.HasKernel(f.op, f.attrs, *group.back())) return absl::OkStatus();
    return fuser_.Replace(std::move(f)).status();
  }

  Fuser& fuser_;
  std::vector<Node*> order_;
  HashMap<const Node*, size_t> position_;
  HashSet<const Node*> grouped_;
  std::optional<ShapeRefiner> shapes_;
};

}  // namespace

absl::Status FuseElementwise(Fuser* fuser) { return Elementwise(fuser).Run(); }

}  // namespace troupe
