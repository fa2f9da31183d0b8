#include "graph/passes/fuse.h"

#include <algorithm>

#include "graph/passes/fuse_rewrite.h"

namespace troupe {

int NumConsumers(const Node& n) {
  return static_cast<int>(
      std::count_if(n.out_edges().begin(), n.out_edges().end(), [](const Edge* e) { return e->dst->IsOp(); }));
}

const Edge* OnlyUse(const Node& n) {
  if (n.num_outputs() != 1) return nullptr;
  const Edge* use = nullptr;
  for (const Edge* e : n.out_edges()) {
    if (!e->dst->IsOp()) continue;
    if (use != nullptr || e->IsControl()) return nullptr;
    use = e;
  }
  return use;
}

bool SameDevice(const Node& a, const Node& b) {
  return a.assigned_device() == b.assigned_device() &&
         (!a.assigned_device().empty() || a.requested_device() == b.requested_device());
}

Node* OwnInput(const Node& n, int i) {
  Node* from = n.input(i).node;
  return from != nullptr && OnlyUse(*from) != nullptr && SameDevice(*from, n) ? from : nullptr;
}

bool Fuser::HasKernel(const std::string& op, const AttrMap& attrs, const Node& like) {
  const absl::StatusOr<DeviceName> device = DeviceName::Parse(like.device());
  const std::string type = device.ok() && device->type.has_value() ? *device->type : "CPU";
  std::string key = StrCat(op, " ", type);
  if (const AttrValue* t = attrs.Find("T"); t != nullptr && t->As<DType>() != nullptr)
    StrAppend(&key, " ", Name(*t->As<DType>()));
  const auto [it, is_new] = has_kernel_.try_emplace(key, false);
  if (is_new && graph_->ops().Find(op) != nullptr) {
    // The registry is asked about nodes, so one is made for the question.
    absl::StatusOr<Node*> probe = graph_->AddNode(graph_->UniqueName("fuse_probe"), op, attrs);
    if (probe.ok()) {
      it->second = kernels_.HasKernel(**probe, type);
      graph_->RemoveNode(*probe);
    }
  }
  return it->second;
}

namespace {

std::string Place(const SourceLocation& l) { return l.known() ? StrCat(l.file, ":", l.line) : ""; }

}  // namespace

absl::StatusOr<Node*> Fuser::Replace(FusedNode f) {
  const Node& last = *f.parts.back();
  const std::string name = last.name(), requested = last.requested_device(), assigned = last.assigned_device();
  const SourceLocation location = last.location();
  const std::vector<Node*> parts = f.parts;
  const auto is_part = [&parts](const Node* n) { return std::find(parts.begin(), parts.end(), n) != parts.end(); };
  std::vector<std::string> names, ops, places;
  std::vector<Node*> waits, waiters;
  struct Use {
    int output;
    Node* dst;
    int input;
  };
  std::vector<Use> uses;
  for (const Node* n : f.parts) {
    // What is fused may have been fused before.
    const auto before = n->Attr<std::vector<std::string>>(kReplacesAttr),
               before_ops = n->Attr<std::vector<std::string>>(kReplacedOpsAttr);
    if (before.ok() && before_ops.ok()) {
      names.insert(names.end(), before->begin(), before->end());
      ops.insert(ops.end(), before_ops->begin(), before_ops->end());
      if (const auto at = n->Attr<std::vector<std::string>>(kReplacedAtAttr); at.ok())
        places.insert(places.end(), at->begin(), at->end());
      places.resize(names.size(), Place(n->location()));
    } else {
      names.push_back(n->name());
      ops.push_back(n->op().name);
      places.push_back(Place(n->location()));
    }
    for (const Edge* e : n->in_edges()) {
      if (e->IsControl() && e->src->IsOp() && !is_part(e->src)) waits.push_back(e->src);
    }
    for (const Edge* e : n->out_edges()) {
      if (!e->dst->IsOp() || is_part(e->dst)) continue;
      if (e->IsControl()) {
        waiters.push_back(e->dst);
        continue;
      }
      const auto at = std::find(f.outputs.begin(), f.outputs.end(), NodeOut{e->src, e->src_output});
      if (at == f.outputs.end())
        return Internal("'", n->name(), "' was fused, but its output ", e->src_output, " is used by '", e->dst->name(),
                        "'");
      uses.push_back({static_cast<int>(at - f.outputs.begin()), e->dst, e->dst_input});
    }
  }
  const std::string here = Place(location);
  if (std::any_of(places.begin(), places.end(), [&](const std::string& p) { return p != here; }))
    f.attrs.Set(kReplacedAtAttr, std::move(places));
  f.attrs.Set(kReplacesAttr, std::move(names));
  f.attrs.Set(kReplacedOpsAttr, std::move(ops));
  for (Node* n : f.parts) graph_->RemoveNode(n);
  TROUPE_ASSIGN_OR_RETURN(Node * fused, graph_->AddNode(name, f.op, std::move(f.attrs)));
  fused->set_requested_device(requested);
  fused->set_assigned_device(assigned);
  fused->set_location(location);
  for (size_t i = 0; i < f.inputs.size(); ++i)
    TROUPE_RETURN_IF_ERROR(graph_->AddEdge(f.inputs[i], fused, static_cast<int>(i)).status());
  for (Node* w : waits) graph_->AddControlEdge(w, fused);
  for (Node* w : waiters) graph_->AddControlEdge(fused, w);
  for (const Use& u : uses) TROUPE_RETURN_IF_ERROR(graph_->AddEdge(fused, u.output, u.dst, u.input).status());
  removed_ += static_cast<int>(f.parts.size()) - 1;
  return fused;
}

absl::StatusOr<int> FuseNodes(Graph* graph, const KernelLookup& kernels, StillWanted wanted) {
  Fuser fuser(graph, kernels, wanted);
  TROUPE_RETURN_IF_ERROR(FuseProductSums(&fuser));
  TROUPE_RETURN_IF_ERROR(FuseProducts(&fuser));
  TROUPE_RETURN_IF_ERROR(FuseBatchNorms(&fuser));
  TROUPE_RETURN_IF_ERROR(FuseConvolutionGradients(&fuser));
  TROUPE_RETURN_IF_ERROR(FuseElementwise(&fuser));
  return fuser.removed();
}

}  // namespace troupe
