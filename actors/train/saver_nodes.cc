// The nodes of a Saver: those that it adds to a graph, and what it finds in the graphs of others.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "actors/train/saver_disk.h"
#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/group.h"
#include "troupe/train/partitioned.h"

namespace troupe::train {
namespace {

// By device, or all under "".
using Shards = std::map<std::string, std::vector<const Saved*>>;

// The names, or the slices, of these variables.
Tensor Texts(const std::vector<const Saved*>& some, bool slices) {
  std::vector<std::string> list;
  for (const Saved* v : some) list.push_back(slices ? v->shape_and_slice : v->name);
  return Tensor::Vector<std::string>(absl::Span<const std::string>(list));
}

// Whether `out` is the value of its node's first input.
bool HandsOn(const NodeOut& out) {
  return out.node != nullptr && out.index == 0 && out.node->op().Has(OpTrait::kForwardsInput);
}

Operation SaveTo(const Scope& here, const Output& to, const std::vector<const Saved*>& some) {
  const Scope below = here.NewSubScope("SaveV2");
  const Output list = Const(below.WithOpName("tensor_names"), Texts(some, false));
  const Output slices = Const(below.WithOpName("shape_and_slices"), Texts(some, true));
  std::vector<Input> values;
  for (const Saved* v : some) {
    values.push_back(v->variable.is_resource() ? v->variable.Read(below.ColocateWith(v->variable.handle()))
                                               : v->variable.handle());
  }
  return EmitLists(here.WithOpName("SaveV2"), "SaveV2", {InputList(to), InputList(list), InputList(slices), values});
}

// The nodes that save, and the one that says where to.
std::string BuildSaving(const Scope& s, const Output& prefix, const Shards& shards, bool sharded) {
  if (!sharded) {
    const Operation saved = SaveTo(s, prefix, shards.begin()->second);
    return train::Build(s.WithOpName("control_dependency").WithControlDependencies(saved), "Identity", {prefix}).name();
  }
  // The parts lie in a folder until they are merged. The constant is TensorFlow's way; Save feeds
  // another name each time.
  const Output suffix = Const(s.WithOpName("StringJoin/suffix"), Tensor::Scalar(NewSuffix()));
  const Output base =
      EmitLists(s.WithOpName("StringJoin"), "StringJoin", {InputList({Input(prefix), Input(suffix)})}).output(0);
  const Output count = Const(s.WithOpName("num_shards"), Tensor::Scalar(static_cast<int32_t>(shards.size())));
  std::vector<Input> parts;
  std::vector<Operation> saves;
  int32_t number = 0;
  for (const auto& [device, some] : shards) {
    const Scope here = device.empty() ? s : s.WithDevice(device);
    const Output shard = Const(here.WithOpName("ShardedFilename/shard"), Tensor::Scalar(number++));
    const Output name = train::Build(here.WithOpName("ShardedFilename"), "ShardedFilename", {base, shard, count});
    saves.push_back(SaveTo(here, name, some));
    parts.push_back(name);
  }
  const Output all = EmitLists(s.WithOpName("MergeV2Checkpoints/checkpoint_prefixes").WithControlDependencies(saves),
                               "Pack", {InputList(parts)})
                         .output(0);
  const Operation merged = EmitOp(s.WithOpName("MergeV2Checkpoints"), "MergeV2Checkpoints", {all, prefix});
  return train::Build(s.WithOpName("Identity").WithControlDependencies(merged), "Identity", {prefix}).name();
}

// The nodes that restore; an invalid operation after an error.
Operation BuildRestoring(const Scope& s, const Output& prefix, const Shards& shards) {
  std::vector<Operation> assigns;
  for (const auto& [device, some] : shards) {
    const Scope here = device.empty() ? s : s.WithDevice(device);
    const Scope below = here.NewSubScope("RestoreV2");
    const Output list = Const(below.WithOpName("tensor_names"), Texts(some, false));
    const Output slices = Const(below.WithOpName("shape_and_slices"), Texts(some, true));
    std::vector<DType> types;
    for (const Saved* v : some) types.push_back(v->variable.variable_dtype());
    const Operation restored =
        EmitOp(here.WithOpName("RestoreV2"), "RestoreV2", {prefix, list, slices}, {{"dtypes", types}});
    if (!restored.valid()) return {};
    for (size_t i = 0; i < some.size(); ++i) {
      const Variable& v = some[i]->variable;
      const Scope where = s.ColocateWith(v.handle());
      const Output value = restored.output(static_cast<int>(i));
      if (v.is_resource()) {
        assigns.push_back(EmitOp(where.WithOpName("AssignVariableOp"), "AssignVariableOp",
                                 {v.handle(), train::Build(where, "Identity", {value})},
                                 {{"dtype", v.variable_dtype()}}));
      } else {
        assigns.push_back(EmitOp(where.WithOpName("Assign"), "Assign", {v.handle(), value},
                                 {{"validate_shape", v.variable_shape().IsFullyDefined()}}));
      }
    }
  }
  return Group(s.WithOpName("restore_all"), assigns);
}

}  // namespace

void Saver::Build(const ScopeAt& at, const std::vector<Saved>& variables) {
  if (!at.ok()) return;
  std::map<std::string, const Saved*> names;
  for (const Saved& v : variables) {
    if (!v.variable.handle().valid()) return at.Fail(InvalidArgument("a Saver is given an empty Variable"));
    const auto [it, added] = names.emplace(v.name, &v);
    if (!added && (v.shape_and_slice.empty() || it->second->shape_and_slice.empty())) {
      return at.Fail(InvalidArgument("a Saver is given two variables with the name '", v.name, "'"));
    }
  }
  if (variables.empty()) return at.Fail(InvalidArgument("a Saver is given no variables"));

  const Scope s = at->NewSubScope("save").WithLocation(at.location()).WithNoControlDependencies();
  const Output input = Const(s.WithOpName("filename/input"), Tensor::Scalar("model"));
  const Output filename =
      train::Build(s.WithOpName("filename"), "PlaceholderWithDefault", {input}, {{"shape", PartialTensorShape({})}});
  const Output prefix =
      train::Build(s.WithOpName("Const"), "PlaceholderWithDefault", {filename}, {{"shape", PartialTensorShape({})}});

  // The shards: all variables, or those of each device.
  Shards shards;
  for (const Saved& v : variables) {
    shards[options_.sharded ? v.variable.handle().node()->requested_device() : ""].push_back(&v);
  }
  save_ = BuildSaving(s, prefix, shards, options_.sharded);
  const Operation restore = BuildRestoring(s, prefix, shards);
  if (!restore.valid()) return;
  restore_ = restore.name();
  filename_ = prefix.name();
  if (!at.ok()) return;
  if (const absl::Status found = FindAssignments(*at->graph()); !found.ok()) at.Fail(found);
  FindSuffix(*at->graph());
}

// From the merging op back to the constant with which the names of its parts end. Graphs of others
// may make that name in another way; then it stays as it is, and saves to one prefix share a
// folder.
void Saver::FindSuffix(const Graph& graph) {
  const Node* const all = graph.Find(save_.substr(0, save_.rfind(':')));
  if (all == nullptr) return;
  const auto input = [](const Node* n, int i, std::string_view op) -> const Node* {
    if (n == nullptr || n->num_inputs() <= i) return nullptr;
    const Node* const from = n->input(i).node;
    return from != nullptr && from->op().name == op ? from : nullptr;
  };
  for (const Edge* e : all->in_edges()) {
    if (!e->src->IsOp() || e->src->op().name != "MergeV2Checkpoints") continue;
    const Node* const join = input(input(input(e->src, 0, "Pack"), 0, "ShardedFilename"), 0, "StringJoin");
    const Node* const suffix = input(join, 1, "Const");
    if (suffix == nullptr || join->num_inputs() != 2) continue;
    const absl::StatusOr<Tensor> value = suffix->Attr<Tensor>("value");
    if (value.ok() && value->dtype() == DType::kString && value->rank() == 0 &&
        value->scalar<std::string>().starts_with("_temp_")) {
      suffix_ = StrCat(suffix->name(), ":0");
    }
  }
}

// From the restore op back to the RestoreV2 nodes: also of graphs that somebody else wrote.
absl::Status Saver::FindAssignments(const Graph& graph) {
  assignments_.clear();
  const auto node_of = [](const std::string& name) { return name.substr(0, name.rfind(':')); };
  const Node* const all = graph.Find(node_of(restore_));
  if (all == nullptr) return NotFound("the graph has no node '", restore_, "', which restores its variables");
  std::vector<const Node*> pending = {all};
  std::vector<bool> seen(static_cast<size_t>(graph.num_node_ids()));
  // A value of a Const node, through nodes that pass it on.
  const auto constant = [](const NodeOut& out) -> absl::StatusOr<Tensor> {
    if (out.node == nullptr || !out.node->IsConstant()) return NotFound("no constant");
    return out.node->Attr<Tensor>("value");
  };
  while (!pending.empty()) {
    const Node* const n = pending.back();
    pending.pop_back();
    if (seen[static_cast<size_t>(n->id())]) continue;
    seen[static_cast<size_t>(n->id())] = true;
    const std::string_view op = n->op().name;
    if (op == "NoOp") {
      for (const Edge* e : n->in_edges()) {
        if (e->src->IsOp()) pending.push_back(e->src);
      }
      continue;
    }
    if ((op != "Assign" && op != "AssignVariableOp") || n->num_inputs() != 2) continue;
    NodeOut value = n->input(1);
    while (HandsOn(value)) value = value.node->input(0);
    if (value.node == nullptr || value.node->op().name != "RestoreV2") continue;
    const absl::StatusOr<Tensor> names = constant(value.node->input(1)), slices = constant(value.node->input(2));
    if (!names.ok() || !slices.ok() || names->num_elements() <= value.index || slices->num_elements() <= value.index ||
        names->dtype() != DType::kString || slices->dtype() != DType::kString) {
      continue;
    }
    Assignment a;
    a.name = names->data<std::string>()[value.index];
    a.shape_and_slice = slices->data<std::string>()[value.index];
    a.tensor = StrCat(value.node->name(), ":", value.index);
    a.assign = n->name();
    a.dtype = BaseType(value.node->output_type(value.index));
    const Node* const variable = n->input(0).node;
    if (auto shape = variable->Attr<PartialTensorShape>("shape"); shape.ok()) a.shape = *shape;
    a.variable = variable->name();
    a.device = variable->requested_device();
    if (auto container = variable->Attr<std::string>("container"); container.ok()) a.container = *container;
    if (auto name = variable->Attr<std::string>("shared_name"); name.ok()) a.resource = *name;
    if (a.resource.empty()) a.resource = variable->name();
    assignments_.push_back(std::move(a));
  }
  std::sort(assignments_.begin(), assignments_.end(), [](const Assignment& a, const Assignment& b) {
    return std::tie(a.name, a.shape_and_slice) < std::tie(b.name, b.shape_and_slice);
  });
  by_snapshot_ = SavesWhatItRestores(graph);
  locals_.clear();
  const auto locals = graph.collections().find(kLocalVariables);
  if (locals == graph.collections().end()) return absl::OkStatus();
  for (const std::string& name : locals->second) {
    const Node* const n = graph.Find(name);
    if (n == nullptr) continue;
    const std::string shared = n->Attr<std::string>("shared_name").value_or("");
    locals_.emplace_back(n->Attr<std::string>("container").value_or(""), shared.empty() ? name : shared);
  }
  return absl::OkStatus();
}

// Whether the nodes that save write the same tensors of the same variables. Other people's graphs
// may save what is no variable.
bool Saver::SavesWhatItRestores(const Graph& graph) const {
  const Node* const all = graph.Find(save_.substr(0, save_.rfind(':')));
  if (all == nullptr) return false;
  std::set<std::tuple<std::string, std::string, std::string>> saved, restored;
  std::vector<const Node*> pending = {all};
  std::vector<bool> seen(static_cast<size_t>(graph.num_node_ids()));
  while (!pending.empty()) {
    const Node* const n = pending.back();
    pending.pop_back();
    if (seen[static_cast<size_t>(n->id())]) continue;
    seen[static_cast<size_t>(n->id())] = true;
    if (n->op().name != "SaveV2") {
      for (const Edge* e : n->in_edges()) {
        if (e->src->IsOp()) pending.push_back(e->src);
      }
      continue;
    }
    const auto texts = [&](int input) -> absl::StatusOr<Tensor> {
      const NodeOut out = n->input(input);
      if (out.node == nullptr || !out.node->IsConstant()) return NotFound("no constant");
      return out.node->Attr<Tensor>("value");
    };
    const absl::StatusOr<Tensor> names = texts(1), slices = texts(2);
    const int count = n->num_inputs() - 3;
    if (!names.ok() || !slices.ok() || names->dtype() != DType::kString || slices->dtype() != DType::kString ||
        names->num_elements() != count || slices->num_elements() != count) {
      return false;
    }
    for (int i = 0; i < count; ++i) {
      NodeOut value = n->input(3 + i);
      while (HandsOn(value) || (value.node != nullptr && value.node->op().Has(OpTrait::kReadsVariable)))
        value = value.node->input(0);
      if (value.node == nullptr) return false;
      saved.emplace(names->data<std::string>()[i], slices->data<std::string>()[i], value.node->name());
    }
  }
  for (const Assignment& a : assignments_) restored.emplace(a.name, a.shape_and_slice, a.variable);
  return !saved.empty() && saved == restored;
}

}  // namespace troupe::train
