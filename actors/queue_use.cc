#include "actors/queue_use.h"

#include <algorithm>

#include "troupe/op_def.h"

namespace troupe {
namespace {

bool IsHandleOp(std::string_view op) {
  return op.ends_with("Queue") || op.ends_with("QueueV2");  // FIFOQueueV2, PriorityQueue
}
bool Fills(std::string_view op) { return op.starts_with("QueueEnqueue") || op.starts_with("QueueClose"); }
bool Asks(std::string_view op) { return op.starts_with("QueueSize") || op.starts_with("QueueIsClosed"); }

// The node that makes the value, behind nodes that pass it on.
const Node* Maker(NodeOut from) {
  constexpr int kMost = 64;
  for (int i = 0; i < kMost && from.node != nullptr; ++i) {
    const Node& n = *from.node;
    if (IsHandleOp(n.op().name)) return &n;
    const bool passes = n.IsEnter() || n.IsSwitch() || n.op().Has(OpTrait::kForwardsInput);
    if (!passes || n.num_inputs() == 0) return nullptr;
    from = n.input(0);
  }
  return nullptr;
}

std::string KeyOf(const Node& handle) {
  const auto text = [&](std::string_view attr) { return handle.Attr<std::string>(attr).value_or(""); };
  const std::string shared = text("shared_name");
  return StrCat(text("container"), "\n", shared.empty() ? handle.name() : shared);
}

// Whether a run of the node may be seen by later steps.
bool HasEffect(const Node& n) {
  const std::string_view op = n.op().name;
  if (IsHandleOp(op) || Asks(op) || op == "VarHandleOp" || op == "ReadVariableOp") return false;
  if (op == "Variable" || op == "VariableV2" || n.op().Has(OpTrait::kForwardsInput)) return false;
  const auto& types = n.input_types();
  return n.op().stateful() || std::any_of(types.begin(), types.end(), [](DType t) { return IsRef(t); });
}

// What runs after one of these nodes.
std::set<const Node*> Behind(const std::vector<const Node*>& from) {
  std::set<const Node*> seen;
  std::vector<const Node*> pending = from;
  while (!pending.empty()) {
    const Node* const n = pending.back();
    pending.pop_back();
    for (const Edge* e : n->out_edges()) {
      if (e->dst->IsOp() && seen.insert(e->dst).second) pending.push_back(e->dst);
    }
  }
  return seen;
}

bool Meet(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& x) { return b.contains(x); });
}

}  // namespace

QueueUse QueueUse::Of(const Graph& graph) {
  QueueUse use;
  std::vector<const Node*> filling, taking, effects;
  for (const Node* n : graph.op_nodes()) {
    const std::string_view op = n->op().name;
    if (HasEffect(*n)) effects.push_back(n);
    if (Asks(op)) continue;
    if (Fills(op)) filling.push_back(n);
    for (int i = 0; i < n->num_inputs(); ++i) {
      const DType type = n->input_type(i);
      if (type != DType::kResource && BaseType(type) != DType::kString) continue;
      if (n->op().Has(OpTrait::kForwardsInput) || n->IsControlFlow()) continue;
      const Node* const handle = Maker(n->input(i));
      if (handle == nullptr) continue;
      (Fills(op) ? use.fills : use.takes).insert(KeyOf(*handle));
      if (!Fills(op)) taking.push_back(n);
    }
  }
  if (filling.empty() && taking.empty()) return use;
  const std::set<const Node*> after = Behind(filling);
  use.parks = !filling.empty() &&
              std::none_of(effects.begin(), effects.end(), [&](const Node* n) { return after.contains(n); });
  for (const Node* n : filling) {
    if (use.parks) use.rests.insert(n->name());
  }
  if (taking.size() != 1) return use;
  // Not in a loop, where it would run again.
  const std::set<const Node*> of_element = Behind(taking);
  const bool first = !of_element.contains(taking[0]) && std::all_of(effects.begin(), effects.end(), [&](const Node* n) {
    return n == taking[0] || of_element.contains(n);
  });
  if (first) use.rests.insert(taking[0]->name());
  return use;
}

std::vector<int> QueueUse::Order(const std::vector<const QueueUse*>& uses) {
  std::vector<int> order(uses.size());
  for (size_t i = 0; i < uses.size(); ++i) order[i] = uses[i]->parks ? 1 : 0;
  // Each round raises those that fill what others of the last round take. Circles end with the
  // number of rounds.
  for (size_t round = 0; round < uses.size(); ++round) {
    bool raised = false;
    for (size_t i = 0; i < uses.size(); ++i) {
      for (size_t j = 0; j < uses.size() && order[i] != 0; ++j) {
        if (i == j || order[j] == 0 || order[i] > order[j] || !Meet(uses[i]->fills, uses[j]->takes)) continue;
        if (order[j] + 1 > static_cast<int>(uses.size())) continue;
        order[i] = order[j] + 1;
        raised = true;
      }
    }
    if (!raised) break;
  }
  return order;
}

}  // namespace troupe
