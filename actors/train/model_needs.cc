#include "actors/train/model_needs.h"

#include <set>
#include <utility>

#include "troupe/names.h"
#include "troupe/op_def.h"
#include "troupe/variable.h"

namespace troupe::train {
namespace {

using Key = std::pair<std::string, std::string>;

bool IsVariable(const Node& n) { return n.op().Has(OpTrait::kVariable); }
bool IsTable(const Node& n) { return n.op().Has(OpTrait::kTableHandle) && n.num_inputs() == 0; }

const Node* NodeOf(const Graph& graph, const std::string& tensor_or_node) {
  if (const Node* const n = graph.Find(tensor_or_node)) return n;
  const auto parsed = ParseTensorName(tensor_or_node);
  return parsed.ok() ? graph.Find(parsed->first) : nullptr;
}

struct Older {
  bool operator()(const Node* a, const Node* b) const { return a->id() < b->id(); }
};
using Nodes = std::set<const Node*, Older>;  // in the same order each time

// The nodes that run for `from`, when the values of `fed` are given.
Nodes Before(std::vector<const Node*> from, const std::set<const Node*>& fed) {
  Nodes seen;
  while (!from.empty()) {
    const Node* const n = from.back();
    from.pop_back();
    if (n == nullptr || !n->IsOp() || fed.contains(n) || !seen.insert(n).second) continue;
    for (const Edge* e : n->in_edges()) from.push_back(e->src);
  }
  return seen;
}

// The resources that these nodes may change.
std::set<Key> SetBy(const Nodes& nodes) {
  std::set<Key> set;
  for (const Node* n : nodes) {
    const OpDef& op = n->op();
    if (op.Has(OpTrait::kNoEffect) || op.Has(OpTrait::kForwardsInput) || op.Has(OpTrait::kIgnoresReference)) continue;
    for (int i = 0; i < n->num_inputs(); ++i) {
      if (BaseType(n->input_type(i)) != DType::kResource && !IsRef(n->input_type(i))) continue;
      const Node* maker = n->input(i).node;
      while (maker != nullptr && maker->op().Has(OpTrait::kForwardsInput)) maker = maker->input(0).node;
      if (maker != nullptr && (IsVariable(*maker) || IsTable(*maker))) set.insert(ResourceOf(*maker));
    }
  }
  return set;
}

}  // namespace

Key ResourceOf(const Node& node) {
  const std::string shared = node.Attr<std::string>("shared_name").value_or("");
  return {node.Attr<std::string>("container").value_or(""), shared.empty() ? node.name() : shared};
}

ModelNeeds NeedsOf(const Graph& graph, const SavedModelOptions& options) {
  ModelNeeds needs;
  const Nodes at_load = options.init_op.empty() ? Nodes() : Before({NodeOf(graph, options.init_op)}, {});
  std::set<Key> known = SetBy(at_load);  // or noted already
  const auto note = [&](const Node* n, const std::string& used_by) {
    if (!IsVariable(*n) && !IsTable(*n)) return;
    if (!known.insert(ResourceOf(*n)).second) return;
    (IsVariable(*n) ? needs.variables : needs.tables).push_back({n, used_by});
  };
  for (const auto& [key, signature] : options.signatures) {
    std::set<const Node*> fed;
    std::vector<const Node*> fetched;
    for (const auto& [name, tensor] : signature.inputs) fed.insert(NodeOf(graph, tensor.text()));
    for (const auto& [name, tensor] : signature.outputs) fetched.push_back(NodeOf(graph, tensor.text()));
    for (const Node* n : Before(fetched, fed)) note(n, StrCat("signature '", key, "'"));
  }
  for (const Node* n : at_load) note(n, StrCat("the init op '", options.init_op, "'"));
  if (!options.signatures.empty()) return needs;
  const auto all = graph.collections().find(kGlobalVariables);
  if (all == graph.collections().end()) return needs;
  for (const std::string& name : all->second) {
    if (const Node* const n = graph.Find(name)) note(n, StrCat("the collection '", kGlobalVariables, "'"));
  }
  return needs;
}

}  // namespace troupe::train
