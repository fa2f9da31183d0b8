#include "actors/snapshot/queue_use.h"

#include <algorithm>

#include "troupe/op_def.h"

namespace troupe {
namespace {

// The node that makes the value, behind nodes that pass it on; null when it is too far away.
const Node* Source(NodeOut from) {
  constexpr int kMost = 64;
  for (int i = 0; i < kMost && from.node != nullptr; ++i) {
    const Node& n = *from.node;
    // A handle with an input is that handle in another form (FakeQueue).
    const bool passes =
        n.op().Has(OpTrait::kElementsHandle) || n.IsEnter() || n.IsSwitch() || n.op().Has(OpTrait::kForwardsInput);
    if (!passes || n.num_inputs() == 0) return &n;
    from = n.input(0);
  }
  return nullptr;
}

// The node that makes the handle of a queue; null for any other value.
const Node* Maker(NodeOut from) {
  const Node* const source = Source(from);
  return source != nullptr && source->op().Has(OpTrait::kElementsHandle) ? source : nullptr;
}

std::string KeyOf(const Node& handle) {
  const auto text = [&](std::string_view attr) { return handle.Attr<std::string>(attr).value_or(""); };
  const std::string shared = text("shared_name");
  return StrCat(text("container"), "\n", shared.empty() ? handle.name() : shared);
}

// Whether a run of the node may be seen by later steps.
bool HasEffect(const Node& n) {
  if (n.op().Has(OpTrait::kNoEffect) || n.op().Has(OpTrait::kForwardsInput)) return false;
  const auto& types = n.input_types();
  return n.op().stateful() || std::any_of(types.begin(), types.end(), [](DType t) { return IsRef(t); });
}

// Whether a node with an effect changes state that outlives the step, but for queues.
bool Updates(const Node& n) {
  if (n.IsControlFlow() || n.op().Has(OpTrait::kIgnoresReference)) return false;
  for (int i = 0; i < n.num_inputs(); ++i) {
    if (!IsRef(n.input_type(i)) && n.input_type(i) != DType::kResource) continue;
    const Node* const source = Source(n.input(i));
    const auto is = [&](OpTrait t) { return source != nullptr && source->op().Has(t); };
    if (!is(OpTrait::kElementsHandle) && !is(OpTrait::kArrayHandle) && !is(OpTrait::kStackHandle)) return true;
  }
  return false;
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
    if (HasEffect(*n)) {
      effects.push_back(n);
      use.updates = use.updates || Updates(*n);
    }
    const bool fills = n->op().Has(OpTrait::kPutsElements), waits = !n->op().Has(OpTrait::kNeverWaits);
    if (n->op().Has(OpTrait::kElementsHandle) || (!fills && !waits)) continue;
    if (fills) filling.push_back(n);
    bool takes = false;
    for (int i = 0; i < n->num_inputs(); ++i) {
      const DType type = n->input_type(i);
      if (type != DType::kResource && BaseType(type) != DType::kString) continue;
      if (n->op().Has(OpTrait::kForwardsInput) || n->IsControlFlow()) continue;
      const Node* const handle = Maker(n->input(i));
      if (handle == nullptr) continue;
      (fills ? use.fills : use.takes).insert(KeyOf(*handle));
      takes = !fills;
    }
    if (takes) taking.push_back(n);
  }
  if (filling.empty() && taking.empty()) return use;
  const std::set<const Node*> after = Behind(filling);
  use.parks = !filling.empty() &&
              std::none_of(effects.begin(), effects.end(), [&](const Node* n) { return after.contains(n); });
  use.fills_at_once = !filling.empty() && std::all_of(filling.begin(), filling.end(),
                                                      [](const Node* n) { return n->op().Has(OpTrait::kNeverWaits); });
  for (const Node* n : filling) {
    if (use.parks && !n->op().Has(OpTrait::kNeverWaits)) use.ends.insert(n->name());
  }
  const std::set<const Node*> of_element = Behind(taking);
  const bool first = std::all_of(effects.begin(), effects.end(), [&](const Node* n) {
    return of_element.contains(n) || std::find(taking.begin(), taking.end(), n) != taking.end();
  });
  if (!first) return use;
  for (const Node* n : taking) {
    // Not in a loop, where it would run again.
    if (Behind({n}).contains(n)) {
      use.begins.clear();
      return use;
    }
    if (!of_element.contains(n)) use.begins.insert(n->name());
  }
  return use;
}

bool QueueUse::RestsAt(const std::set<std::string>& waits) const {
  if (waits.empty()) return false;
  if (std::includes(ends.begin(), ends.end(), waits.begin(), waits.end())) return true;
  return !begins.empty() && waits == begins;
}

std::vector<int> QueueUse::Order(const std::vector<const QueueUse*>& uses) {
  std::vector<int> order(uses.size());
  for (size_t i = 0; i < uses.size(); ++i) order[i] = uses[i]->Ordered() ? 1 : 0;
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
