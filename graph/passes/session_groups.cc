#include "graph/passes/session_groups.h"

#include "graph/core/hash_map.h"
#include "graph/passes/colocation.h"

namespace troupe {

int SessionGroups::Root(int id) const {
  while (parent_[id] != id) {
    parent_[id] = parent_[parent_[id]];
    id = parent_[id];
  }
  return id;
}

void SessionGroups::Update(const DeviceSet& devices, const KernelLookup& kernels, bool allow_soft_placement,
                           const HashMap<std::string, std::string>& placed) {
  try {
    LookAtNew(devices, kernels, allow_soft_placement, placed);
  } catch (...) {
    // Ties were missed; the next Update finds all of them.
    parent_.clear();
    groups_.clear();
    classes_.clear();
    throw;
  }
}

void SessionGroups::LookAtNew(const DeviceSet& devices, const KernelLookup& kernels, bool allow_soft_placement,
                              const HashMap<std::string, std::string>& placed) {
  devices_ = &devices;
  kernels_ = &kernels;
  placed_ = &placed;
  soft_ = allow_soft_placement;
  const int first_new = static_cast<int>(parent_.size());
  parent_.resize(graph_->num_node_ids());
  // All of them before any tie: a back edge of a loop comes from a node that follows.
  for (int id = first_new; id < graph_->num_node_ids(); ++id) parent_[id] = id;
  for (int id = first_new; id < graph_->num_node_ids(); ++id) {
    const Node* n = graph_->node(id);
    if (n == nullptr || !n->IsOp() || n->IsUnknown()) continue;  // no device has to be found for it
    if (const AttrValue* v = n->attrs().Find(kClassAttr); v != nullptr) {
      // What is no list of names is refused when the node is placed.
      if (const auto* list = v->As<std::vector<std::string>>(); list != nullptr) {
        for (const std::string& name : *list) {
          if (!std::string_view(name).starts_with(kClassPrefix)) continue;
          const Node* named = graph_->Find(std::string_view(name).substr(kClassPrefix.size()));
          const auto [it, first] = classes_.emplace(name, named != nullptr && named->IsOp() ? named->id() : id);
          Join(*graph_->node(it->second), *n);
        }
      }
    }
    // Others may have named it before it was there.
    if (!classes_.empty()) {
      if (const auto it = classes_.find(StrCat(kClassPrefix, n->name())); it != classes_.end())
        Join(*n, *graph_->node(it->second));
    }
    for (int i = 0; i < n->num_inputs(); ++i) {
      const NodeOut in = n->input(i);
      if (in.valid() && (IsRef(n->input_type(i)) || n->input_type(i) == DType::kResource)) Join(*in.node, *n);
    }
  }
}

SessionGroups::Group& SessionGroups::GroupFor(const Node& n) {
  const int root = Root(n.id());
  const auto [it, is_new] = groups_.try_emplace(root);
  Group& group = it->second;
  if (!is_new) return group;
  if (auto request = DeviceName::Parse(n.requested_device()); request.ok()) group.request = *std::move(request);
  if (devices_->types().size() > 1 && !n.IsUnknown()) {
    group.types = 0;
    for (size_t t = 0; t < devices_->types().size(); ++t) {
      if (kernels_->HasKernel(n, devices_->types()[t])) group.types |= uint64_t{1} << t;
    }
  }
  if (const auto at = placed_->find(n.name()); at != placed_->end()) {
    group.device = devices_->Find(at->second);
    group.placed_by = &n;
  }
  return group;
}

void SessionGroups::Join(const Node& a, const Node& b) {
  const int to = Root(a.id()), from = Root(b.id());
  if (to == from) return;
  GroupFor(a);
  const Group other = GroupFor(b);
  groups_.erase(from);
  Group& group = groups_.find(to)->second;
  if (DeviceName merged = group.request; MergeDevNames(&merged, other.request, soft_).ok()) {
    group.request = std::move(merged);
  }
  if ((group.types & other.types) != 0) group.types &= other.types;
  if (group.device < 0) {
    group.device = other.device;
    group.placed_by = other.placed_by;
  }
  parent_[from] = to;
}

int SessionGroups::GroupOf(std::string_view name) const {
  const Node* n = graph_->Find(name);
  if (n == nullptr || n->id() >= static_cast<int>(parent_.size())) return -1;
  const int root = Root(n->id());
  return groups_.contains(root) ? root : -1;
}

void SessionGroups::Placed(std::string_view name, int device) {
  const int g = GroupOf(name);
  if (g < 0) return;
  Group& group = groups_.find(g)->second;
  if (group.device >= 0) return;
  group.device = device;
  group.placed_by = graph_->Find(name);
}

}  // namespace troupe
