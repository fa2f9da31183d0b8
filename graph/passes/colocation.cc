#include "graph/passes/colocation.h"

#include <algorithm>

#include "graph/core/hash_map.h"

namespace troupe {
namespace {

constexpr size_t kMaxMembersNamed = 10;

// "'a' (Add, asked for '/cpu:0')".
std::string NodeText(const Node& n) {
  std::string s = StrCat("'", n.name(), "' (", n.op().name);
  if (!n.device().empty()) StrAppend(&s, ", asked for '", n.device(), "'");
  return s + ")";
}

}  // namespace

absl::StatusOr<ColocationGroups> ColocationGroups::Build(const Graph& graph, const DeviceSet& devices,
                                                         const KernelLookup& kernels,
                                                         const ColocationOptions& options) {
  ColocationGroups groups(devices, kernels, options);
  TROUPE_RETURN_IF_ERROR(groups.AddNodes(graph));
  TROUPE_RETURN_IF_ERROR(groups.TieNodes(graph));
  if (options.session != nullptr) groups.FollowSession(graph);
  for (const Node* n : graph.op_nodes()) {
    if (groups.parent_[n->id()] == n->id()) TROUPE_RETURN_IF_ERROR(groups.FindFeasible(n->id()));
  }
  return groups;
}

int ColocationGroups::Root(int id) const {
  while (parent_[id] != id) {
    parent_[id] = parent_[parent_[id]];
    id = parent_[id];
  }
  return id;
}

absl::Status ColocationGroups::AddNodes(const Graph& graph) {
  parent_.resize(graph.num_node_ids());
  groups_.resize(graph.num_node_ids());
  WantedCheck wanted(options_.wanted);
  for (int id = 0; id < graph.num_node_ids(); ++id) {
    parent_[id] = id;
    const Node* n = graph.node(id);
    TROUPE_RETURN_IF_ERROR(wanted());
    if (n == nullptr || !n->IsOp()) continue;
    Group& group = groups_[id];
    group.members.push_back(n);
    std::string fixed = n->assigned_device();
    if (options_.fixed != nullptr) {
      const auto it = options_.fixed->find(n->name());
      if (it != options_.fixed->end()) fixed = it->second;
    }
    if (!fixed.empty()) {
      group.fixed = devices_->Find(fixed);
      group.fixed_by = n;
      if (group.fixed < 0) {
        return n->At(InvalidArgument("the node is placed on '", fixed,
                                     "', but there is no such device; the devices are: ", devices_->DebugString()));
      }
    } else if (!n->requested_device().empty()) {
      absl::StatusOr<DeviceName> request = DeviceName::Parse(n->requested_device());
      if (!request.ok()) return n->At(request.status());
      group.request = *std::move(request);
    }
    for (size_t t = 0; t < devices_->types().size(); ++t) {
      if (kernels_->HasKernel(*n, devices_->types()[t])) group.types |= uint64_t{1} << t;
    }
    if (group.types == 0 && !kernels_->HasAnyKernel(*n)) {
      return n->At(InvalidArgument("no kernel is registered for this op"));
    }
    if (group.types == 0) {
      return n->At(InvalidArgument("the op has no kernel for these types and attrs on any type of device here (",
                                   StrJoin(devices_->types(), ", "), ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status ColocationGroups::TieNodes(const Graph& graph) {
  HashMap<std::string, const Node*> classes;
  WantedCheck wanted(options_.wanted);
  for (const Node* n : graph.op_nodes()) {
    TROUPE_RETURN_IF_ERROR(wanted());
    if (const AttrValue* v = n->attrs().Find(kClassAttr); v != nullptr) {
      const auto* list = v->As<std::vector<std::string>>();
      if (list == nullptr) return n->At(InvalidArgument("attr '_class' is ", v->Kind(), ", not list(string)"));
      for (const std::string& name : *list) {
        if (std::string_view(name).substr(0, kClassPrefix.size()) != kClassPrefix) continue;
        const auto [it, first] = classes.emplace(name, n);
        if (first) {
          // The node that gives its name to the class may have been pruned away; those that name it
          // stay together all the same.
          const Node* named = graph.Find(std::string_view(name).substr(kClassPrefix.size()));
          if (named == nullptr || !named->IsOp()) continue;
          it->second = named;
        }
        TROUPE_RETURN_IF_ERROR(Join(*it->second, *n, Tie::kClass));
      }
    }
    for (int i = 0; i < n->num_inputs(); ++i) {
      const NodeOut in = n->input(i);
      if (!in.valid()) continue;
      if (IsRef(n->input_type(i))) {
        TROUPE_RETURN_IF_ERROR(Join(*in.node, *n, Tie::kReference));
      } else if (n->input_type(i) == DType::kResource) {
        TROUPE_RETURN_IF_ERROR(Join(*in.node, *n, Tie::kResource));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ColocationGroups::Join(const Node& a, const Node& b, Tie tie) {
  int to = Root(a.id()), from = Root(b.id());
  if (to == from) return absl::OkStatus();
  if (groups_[to].members.size() < groups_[from].members.size()) std::swap(to, from);
  Group& group = groups_[to];
  Group& other = groups_[from];
  const auto conflict = [&](std::string_view why) {
    std::string because;
    if (tie == Tie::kClass) {
      because = "attr '_class' of the latter says so";
    } else {
      because =
          StrCat("the latter takes a ", tie == Tie::kReference ? "reference" : "resource handle", " from the former");
    }
    std::string text =
        StrCat(NodeText(a), " and ", NodeText(b), " must be on one device, because ", because, ", but ", why);
    const Group& with_a = groups_[Root(a.id())];
    const Group& with_b = groups_[Root(b.id())];
    if (with_a.members.size() > 1) StrAppend(&text, "; with the former belong ", Describe(with_a));
    if (with_b.members.size() > 1) StrAppend(&text, "; with the latter belong ", Describe(with_b));
    return b.At(InvalidArgument(text));
  };
  if (group.fixed >= 0 && other.fixed >= 0 && group.fixed != other.fixed) {
    return conflict(StrCat("'", group.fixed_by->name(), "' is on ", devices_->info(group.fixed).name, " and '",
                           other.fixed_by->name(), "' on ", devices_->info(other.fixed).name));
  }
  DeviceName merged = group.request;
  if (absl::Status s = MergeDevNames(&merged, other.request, options_.allow_soft_placement); !s.ok()) {
    return conflict(std::string(s.message().data(), s.message().size()));
  }
  if ((group.types & other.types) == 0) {
    return conflict(StrCat("no device type has kernels for all of them: there are kernels on ", TypeNames(group.types),
                           " and on ", TypeNames(other.types)));
  }
  group.request = std::move(merged);
  group.types &= other.types;
  if (group.fixed < 0) {
    group.fixed = other.fixed;
    group.fixed_by = other.fixed_by;
  }
  group.members.insert(group.members.end(), other.members.begin(), other.members.end());
  other = Group();
  parent_[from] = to;
  return absl::OkStatus();
}

bool ColocationGroups::AnyMatches(const DeviceName& request, uint64_t types) const {
  for (int d = 0; d < devices_->size(); ++d) {
    if ((types >> devices_->type_of(d) & 1) != 0 && request.Matches(devices_->name(d))) return true;
  }
  return false;
}

void ColocationGroups::FollowSession(const Graph& graph) {
  const SessionGroups& session = *options_.session;
  HashMap<int, const Node*> first_of;
  std::vector<std::pair<int, const Node*>> tied;
  for (const Node* n : graph.op_nodes()) {
    if (!n->op().stateful()) continue;
    const int g = session.GroupOf(n->name());
    if (g < 0) continue;
    tied.emplace_back(g, n);
    const auto [it, first] = first_of.emplace(g, n);
    // Those that cannot be together are none of this signature's business.
    if (!first) Join(*it->second, *n, Tie::kClass).IgnoreError();
  }
  for (const auto& [g, n] : tied) {
    Group& group = groups_[Root(n->id())];
    if (group.fixed >= 0) continue;
    const SessionGroups::Group& all = session.group(g);
    if (all.device >= 0) {
      const int type = devices_->type_of(all.device);
      if ((group.types >> type & 1) == 0 || !group.request.Matches(devices_->name(all.device))) continue;
      group.fixed = all.device;
      group.fixed_by = all.placed_by;
      continue;
    }
    DeviceName merged = group.request;
    const uint64_t types = group.types & all.types;
    if (!MergeDevNames(&merged, all.request, options_.allow_soft_placement).ok() || !AnyMatches(merged, types))
      continue;
    group.request = std::move(merged);
    group.types = types;
  }
}

absl::Status ColocationGroups::FindFeasible(int id) {
  Group& group = groups_[id];
  const bool plain = devices_->types().size() == 1 && group.fixed < 0 && group.request.IsEmpty();
  if (plain && feasible_of_plain_ >= 0) {
    group.feasible = feasible_of_plain_;
    return absl::OkStatus();
  }
  std::vector<int64_t> priority(devices_->types().size(), 0);
  for (size_t t = 0; t < priority.size() && priority.size() > 1; ++t) {
    if ((group.types >> t & 1) == 0) continue;
    for (const Node* n : group.members) priority[t] += kernels_->Priority(*n, devices_->types()[t]);
  }
  std::string key = StrCat(group.request.ToString(), ";", group.types, ";", group.fixed);
  for (int64_t p : priority) StrAppend(&key, ";", p);
  const auto [it, is_new] = feasible_by_key_.emplace(key, static_cast<int>(feasible_sets_.size()));
  group.feasible = it->second;
  if (plain) feasible_of_plain_ = group.feasible;
  if (!is_new) return absl::OkStatus();

  std::vector<int> found;
  const auto collect = [&](const DeviceName& request) {
    for (int d = 0; d < devices_->size(); ++d) {
      if (group.fixed >= 0 && d != group.fixed) continue;
      if ((group.types >> devices_->type_of(d) & 1) != 0 && request.Matches(devices_->name(d))) found.push_back(d);
    }
  };
  collect(group.request);
  bool soft = false;
  if (found.empty() && options_.allow_soft_placement) {
    soft = true;
    DeviceName anywhere = group.request;
    anywhere.type.reset();
    anywhere.id.reset();
    collect(anywhere);
  }
  if (found.empty()) return NoDevice(group);
  std::stable_sort(found.begin(), found.end(), [&](int a, int b) {
    if (soft) {
      const bool cpu_a = devices_->name(a).type == "CPU", cpu_b = devices_->name(b).type == "CPU";
      if (cpu_a != cpu_b) return cpu_a;
    }
    return priority[devices_->type_of(a)] > priority[devices_->type_of(b)];
  });
  feasible_sets_.push_back(std::move(found));
  return absl::OkStatus();
}

absl::Status ColocationGroups::NoDevice(const Group& group) const {
  // Blame the member whose own wish cannot be fulfilled, if there is one.
  const Node* culprit = group.members[0];
  for (const Node* n : group.members) {
    const auto own = DeviceName::Parse(n->requested_device());
    bool possible = false;
    for (int d = 0; d < devices_->size() && own.ok(); ++d) {
      possible = possible ||
                 (own->Matches(devices_->name(d)) && kernels_->HasKernel(*n, devices_->types()[devices_->type_of(d)]));
    }
    if (!possible) {
      culprit = n;
      break;
    }
  }
  bool exists = false;
  for (int d = 0; d < devices_->size(); ++d) exists = exists || group.request.Matches(devices_->name(d));
  std::string text;
  if (group.fixed >= 0 && !group.request.Matches(devices_->name(group.fixed))) {
    StrAppend(&text, "it must be on '", group.request.ToString(), "', but '", group.fixed_by->name(), "' is on ",
              devices_->info(group.fixed).name, " already");
  } else if (!exists) {
    StrAppend(&text, "it must be on '", group.request.ToString(),
              "', but there is no such device; there are: ", devices_->DebugString());
  } else {
    StrAppend(&text, "it must be on '", group.fixed >= 0 ? devices_->info(group.fixed).name : group.request.ToString(),
              "', but ", group.members.size() > 1 ? "the nodes that share its device have" : "it has", " kernels for ",
              TypeNames(group.types), " only; there are: ", devices_->DebugString());
  }
  if (group.members.size() > 1) StrAppend(&text, "; on its device must be ", Describe(group));
  return culprit->At(InvalidArgument(text));
}

std::string ColocationGroups::Describe(const Group& group) const {
  std::vector<const Node*> members(group.members.begin(), group.members.end());
  std::sort(members.begin(), members.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  std::string s;
  for (size_t i = 0; i < std::min(members.size(), kMaxMembersNamed); ++i) {
    StrAppend(&s, i > 0 ? ", " : "", NodeText(*members[i]));
  }
  if (members.size() > kMaxMembersNamed) StrAppend(&s, " and ", members.size() - kMaxMembersNamed, " more");
  return s;
}

std::string ColocationGroups::TypeNames(uint64_t types) const {
  std::vector<std::string> names;
  for (size_t t = 0; t < devices_->types().size(); ++t) {
    if ((types >> t & 1) != 0) names.push_back(devices_->types()[t]);
  }
  return StrJoin(names, ", ");
}

}  // namespace troupe
